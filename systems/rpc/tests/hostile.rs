//! Clients that keep no rule, and a server that serves others meanwhile.

mod support;

use std::time::Duration;

use longarm::{Access, Connection, Endpoint, MemoryRegion, RKey, RemoteKey};
use longarm_rpc::{Client, Way};
use serde::{Deserialize, Serialize};
use support::{ADDRESS, ECHO, PATIENCE, ProcessHold, TestProcess, body_of, connected, figures, fill_pools, with_hub};

/// The messages of the handshake, as `src/handshake.rs` has them.
#[derive(Serialize, Deserialize)]
enum SessionMessage {
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
struct Sizes {
    slots: u16,
    slot_bytes: u32,
    ring_bytes: u32,
    max_message_bytes: u32,
    datagram_bytes: u32,
}

#[derive(Serialize, Deserialize)]
struct Memory {
    written: [u8; RemoteKey::ENCODED_BYTES],
    read: Option<[u8; RemoteKey::ENCODED_BYTES]>,
    uc: Option<Vec<u8>>,
    ud: Option<Vec<u8>>,
}

/// A client that speaks for itself.
struct Rogue {
    endpoint: Endpoint<Connection>,
    _area: MemoryRegion,
    key: RemoteKey,
    session: u32,
}

fn raw() -> Endpoint<Connection> {
    Endpoint::connect(ADDRESS, b"").wait(PATIENCE).unwrap()
}

fn hello(way: Way) -> Vec<u8> {
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

fn send(endpoint: &Endpoint<Connection>, bytes: &[u8]) {
    let mut buffer = endpoint.allocate(bytes.len().max(1)).unwrap();
    buffer.set_len(bytes.len());
    buffer.copy_from_slice(bytes);
    let _ = endpoint.send(buffer).wait(Duration::from_secs(5));
}

impl Rogue {
    /// An honest handshake; its memory has `area_bytes`.
    fn begin(way: Way, area_bytes: usize) -> Rogue {
        let endpoint = raw();
        let receive = endpoint.recv(endpoint.allocate(2048).unwrap()).post().unwrap();
        send(&endpoint, &hello(way));
        let welcome = endpoint.wait(receive, PATIENCE).unwrap().into_buffer().unwrap();
        let Ok(SessionMessage::Welcome { session, memory, .. }) = postcard::from_bytes(&welcome) else {
            panic!("the server does not welcome a good Hello");
        };
        let area = endpoint.expose(area_bytes, Access::REMOTE_WRITE).unwrap();
        let written = area.key().to_bytes();
        let ready = SessionMessage::Ready(Memory { written, read: None, uc: None, ud: None });
        send(&endpoint, &postcard::to_allocvec(&ready).unwrap());
        Rogue { endpoint, _area: area, key: RemoteKey::from_bytes(&memory.written).unwrap(), session }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let to = self.key.at(at, bytes.len() as u64).unwrap();
        let _ = self.endpoint.write_inline(bytes, &to).wait(Duration::from_secs(5));
    }

    /// A WRITE of no use, with immediate data.
    fn write_imm(&self, imm: u32) {
        let mut buffer = self.endpoint.allocate(8).unwrap();
        buffer.set_len(8);
        let to = self.key.at(0, 8).unwrap();
        let _ = self.endpoint.write_with_imm(buffer, &to, imm).wait(Duration::from_secs(5));
    }

    fn must_be_ended(self, deed: &str) {
        testkit::wait_until(deed, || !self.endpoint.is_connected());
    }
}

/// The header of a message, as `src/frame.rs` has it.
fn header(body_bytes: u32, slot: u16, kind: u8, flags: u8, number: u32) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&body_bytes.to_le_bytes());
    bytes[4..6].copy_from_slice(&slot.to_le_bytes());
    (bytes[6], bytes[7]) = (kind, flags);
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A record of the ways ring and immediate.
fn record(header: [u8; 24], body: &[u8]) -> Vec<u8> {
    let mut bytes = [&header[..], body].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&header[..8]);
    bytes
}

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const LARGE: u8 = 1;
/// The start of a ring.
const RING: u64 = 64;

/// Each of these ends the session of the one who does it.
fn misdeeds() {
    let ring = || Rogue::begin(Way::Ring, 1 << 17);
    let rogue = ring();
    rogue.write(RING, &[0xff; 64]);
    rogue.must_be_ended("a record longer than the ring");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 77, REQUEST, 0, 1), b""));
    rogue.must_be_ended("a request in a slot that is none");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 0, REPLY, 0, 1), b""));
    rogue.must_be_ended("a reply to nobody");
    let rogue = ring();
    rogue.write(RING, &record(header(0, 0, REQUEST, 0, 9), b""));
    rogue.must_be_ended("a number out of order");
    let rogue = ring();
    send(&rogue.endpoint, &[0xa5; 100]);
    rogue.must_be_ended("a malformed message");
    let rogue = ring();
    send(&rogue.endpoint, &header(0, 0, REQUEST, 0, 1));
    rogue.must_be_ended("a request by SEND");
    let rogue = ring();
    rogue.write_imm(0);
    rogue.must_be_ended("immediate data in another way");
    let rogue = Rogue::begin(Way::Immediate, 1 << 17);
    rogue.write_imm(rogue.session + 1);
    rogue.must_be_ended("immediate data of another client");
    let rogue = ring();
    let nowhere = RemoteKey::from_parts(0x1000, RKey(0xdead_beef), 100_000).to_bytes();
    rogue.write(RING, &record(header(20, 0, REQUEST, LARGE, 1), &nowhere));
    rogue.must_be_ended("a key that leads nowhere");
    Rogue::begin(Way::Ring, 64).must_be_ended("less memory than the way needs");
}

/// Handshakes that lead nowhere.
fn bad_handshakes() {
    for bytes in [&[][..], &[0xff; 64], &[0; 2000], b"GET / HTTP/1.1\r\n\r\n"] {
        let endpoint = raw();
        send(&endpoint, bytes);
        testkit::wait_until("garbage for a Hello", || !endpoint.is_connected());
    }
    let silent: Vec<_> = (0..20).map(|_| raw()).collect();
    let half: Vec<_> = (0..20).map(|_| raw()).collect();
    half.iter().for_each(|endpoint| {
        let _ = endpoint.recv(endpoint.allocate(2048).unwrap()).post();
        send(endpoint, &hello(Way::Ring));
    });
    drop((silent, half));
}

fn must_serve(client: &mut Client) {
    for number in 0..100 {
        assert!(client.call(ECHO, &body_of(number), PATIENCE).unwrap() == body_of(number));
    }
}

#[test]
fn rogues_end_only_their_own_sessions() {
    with_hub("rogues_end_only_their_own_sessions", || {
        let server = TestProcess::server();
        testkit::wait_until("the server listens", || Endpoint::connect(ADDRESS, b"").wait(PATIENCE).is_ok());
        // Its session is the first in the server's list.
        let first = Rogue::begin(Way::Ring, 1 << 17);
        let mut honest = [connected(Way::Ring), connected(Way::Fetch), connected(Way::Immediate)];
        first.write(RING, &[0xff; 64]);
        first.must_be_ended("a record longer than the ring");
        honest.iter_mut().for_each(must_serve);
        fill_pools(Way::Ring);
        let mut hold = Vec::new();
        for round in 0..6 {
            let malformed = figures(&mut honest[0]).malformed;
            misdeeds();
            bad_handshakes();
            honest.iter_mut().for_each(must_serve);
            testkit::wait_until("the rogues' sessions are gone", || figures(&mut honest[0]).sessions == 3);
            assert!(figures(&mut honest[0]).malformed >= malformed + 9, "round {round}: {malformed}");
            hold.push(ProcessHold::of(server.pid()));
        }
        testkit::wait_until("the server forgets half handshakes", || {
            ProcessHold::of(server.pid()).is_back_to(&hold[0], 8)
        });
    });
}
