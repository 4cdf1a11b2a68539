//! A client that keeps no rule.

use std::time::Duration;

use longarm::service::Uc;
use longarm::{Access, AddressHandle, Connection, Endpoint, MemoryRegion, RemoteKey, Ticket, UdQueuePair, Unconnected};
use longarm_rpc::{Method, Way};
use serde::{Deserialize, Serialize};

use super::{ADDRESS, PATIENCE};

/// The messages of the handshake, as `src/handshake.rs` has them.
#[derive(Serialize, Deserialize)]
pub(crate) enum SessionMessage {
    Hello {
        magic: u32,
        version: u16,
        ways: Vec<Way>,
        is_forced: bool,
        sizes: Sizes,
        sleeps: bool,
        typical_bytes: u32,
        token: u32,
    },
    Welcome {
        way: Way,
        why: String,
        sizes: Sizes,
        session: u32,
        token: u32,
        memory: Memory,
    },
    Refused {
        code: u8,
        words: String,
    },
    Ready(Memory),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Sizes {
    slots: u16,
    slot_bytes: u32,
    ring_bytes: u32,
    max_message_bytes: u32,
    datagram_bytes: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Memory {
    written: [u8; RemoteKey::ENCODED_BYTES],
    read: Option<[u8; RemoteKey::ENCODED_BYTES]>,
    uc: Option<Vec<u8>>,
    ud: Option<Vec<u8>>,
}

impl Memory {
    /// Names no address for datagrams.
    pub(crate) fn forget_datagrams(&mut self) {
        self.ud = None;
    }

    /// Names no unreliable connection.
    pub(crate) fn forget_connection(&mut self) {
        self.uc = None;
    }
}

/// A client that speaks for itself.
pub(crate) struct Rogue {
    pub(crate) endpoint: Endpoint<Connection>,
    _area: MemoryRegion,
    _uc: Option<Unconnected<Uc>>,
    ud: UdQueuePair,
    pub(crate) key: RemoteKey,
    /// The memory that the client may only read.
    pub(crate) read: Option<RemoteKey>,
    pub(crate) session: u32,
    /// The server's token for datagrams.
    pub(crate) token: u32,
    /// The server's address for datagrams.
    server: Option<AddressHandle>,
}

pub(crate) fn raw() -> Endpoint<Connection> {
    Endpoint::connect(ADDRESS, b"").wait(PATIENCE).unwrap()
}

pub(crate) fn hello(way: Way) -> Vec<u8> {
    let sizes =
        Sizes { slots: 32, slot_bytes: 512, ring_bytes: 65_536, max_message_bytes: 1 << 20, datagram_bytes: 1024 };
    let magic = u32::from_le_bytes(*b"LRPC");
    let ways = vec![way];
    let hello = SessionMessage::Hello {
        magic,
        version: 1,
        ways,
        is_forced: true,
        sizes,
        sleeps: false,
        typical_bytes: 64,
        token: 7,
    };
    postcard::to_allocvec(&hello).unwrap()
}

pub(crate) fn send(endpoint: &Endpoint<Connection>, bytes: &[u8]) {
    let mut buffer = endpoint.allocate(bytes.len().max(1)).unwrap();
    buffer.set_len(bytes.len());
    buffer.copy_from_slice(bytes);
    let _ = endpoint.send(buffer).wait(Duration::from_secs(5));
}

impl Rogue {
    /// An honest handshake; its memory has `area_bytes`.
    pub(crate) fn begin(way: Way, area_bytes: usize) -> Rogue {
        Rogue::begin_with(way, area_bytes, |_| ())
    }

    /// A handshake with another offer than an honest one.
    pub(crate) fn begin_with(way: Way, area_bytes: usize, change: impl FnOnce(&mut Memory)) -> Rogue {
        let endpoint = raw();
        let receive = endpoint.recv(endpoint.allocate(2048).unwrap()).post().unwrap();
        send(&endpoint, &hello(way));
        let welcome = endpoint.wait(receive, PATIENCE).unwrap().into_buffer().unwrap();
        let Ok(SessionMessage::Welcome { session, token, memory, .. }) = postcard::from_bytes(&welcome) else {
            panic!("the server does not welcome a good Hello");
        };
        let area = endpoint.expose(area_bytes, Access::REMOTE_WRITE).unwrap();
        let (domain, cq) = (endpoint.protection_domain(), endpoint.completion_queue());
        let ud = domain.ud(cq).build().unwrap();
        let uc = memory.uc.is_some().then(|| domain.uc(cq).build().unwrap());
        let mut ours = Memory {
            written: area.key().to_bytes(),
            read: None,
            uc: uc.as_ref().map(|uc| uc.connection_info().to_bytes().to_vec()),
            ud: Some(ud.address_handle().to_bytes().to_vec()),
        };
        change(&mut ours);
        send(&endpoint, &postcard::to_allocvec(&SessionMessage::Ready(ours)).unwrap());
        Rogue {
            endpoint,
            _area: area,
            _uc: uc,
            ud,
            key: RemoteKey::from_bytes(&memory.written).unwrap(),
            read: memory.read.map(|key| RemoteKey::from_bytes(&key).unwrap()),
            session,
            token,
            server: memory.ud.map(|address| AddressHandle::from_bytes(&address).unwrap()),
        }
    }

    /// A datagram to the server, of any bytes.
    pub(crate) fn datagram(&self, bytes: &[u8]) {
        let mut buffer = self.endpoint.allocate(bytes.len().max(1)).unwrap();
        buffer.set_len(bytes.len());
        buffer.copy_from_slice(bytes);
        let _ = self.ud.send_to(buffer, self.server.as_ref().unwrap()).wait(Duration::from_secs(5));
    }

    /// Posts a buffer for a datagram of the server.
    pub(crate) fn expect_datagram(&self) -> Ticket {
        self.ud.recv(self.endpoint.allocate(self.ud.max_message_bytes() as usize).unwrap()).post().unwrap()
    }

    /// The datagram that has come.
    pub(crate) fn received(&self, ticket: Ticket) -> Vec<u8> {
        self.ud.wait(ticket, PATIENCE).unwrap().into_buffer().unwrap().to_vec()
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.key.at(at, bytes.len() as u64).unwrap();
        let _ = self.endpoint.write_inline(bytes, &to).wait(Duration::from_secs(5));
    }

    /// A WRITE of no use, with immediate data.
    pub(crate) fn write_imm(&self, imm: u32) {
        let mut buffer = self.endpoint.allocate(8).unwrap();
        buffer.set_len(8);
        let to = self.key.at(0, 8).unwrap();
        let _ = self.endpoint.write_with_imm(buffer, &to, imm).wait(Duration::from_secs(5));
    }

    /// The session is there, whatever it did.
    pub(crate) fn must_live(&self, deed: &str) {
        assert!(self.endpoint.is_connected(), "{deed} ended the session");
    }

    pub(crate) fn must_be_ended(self, deed: &str) {
        testkit::wait_until(deed, || !self.endpoint.is_connected());
    }
}

/// The header of a message, as `src/frame.rs` has it.
pub(crate) fn header(body_bytes: u32, slot: u16, kind: u8, flags: u8, number: u32) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&body_bytes.to_le_bytes());
    bytes[4..6].copy_from_slice(&slot.to_le_bytes());
    (bytes[6], bytes[7]) = (kind, flags);
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A record of the ways ring and immediate.
pub(crate) fn record(header: [u8; 24], body: &[u8]) -> Vec<u8> {
    let mut bytes = [&header[..], body].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&header[..8]);
    bytes
}

/// The header of a request for a method.
pub(crate) fn request(body_bytes: u32, slot: u16, number: u32, method: Method) -> [u8; 24] {
    let mut bytes = header(body_bytes, slot, REQUEST, 0, number);
    bytes[16..].copy_from_slice(&method.number().to_le_bytes());
    bytes
}

/// The kind of a request.
pub(crate) const REQUEST: u8 = 1;
/// The kind of a reply.
pub(crate) const REPLY: u8 = 2;
/// The flag of a message whose body is a key.
pub(crate) const LARGE: u8 = 1;
