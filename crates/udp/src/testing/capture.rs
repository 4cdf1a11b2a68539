//! Captures of the RoCEv2 packets of an interface, in their wire form.

use crate::address::Family;
use crate::sys;
use crate::sys::mmsg::{self, RxHeader};
use std::os::fd::{AsFd, OwnedFd};
use wire::frame::{self, EthernetFrame};

/// The longest frame that is captured, coalesced ones included, in bytes.
const FRAME_BYTES: usize = 1 << 17;
/// The offset of the packet's type in `struct sockaddr_ll`.
const PACKET_TYPE: usize = 10;
const ETHERTYPE_IPV4: [u8; 2] = [8, 0];

/// The packets that pass an interface. Needs root in the network namespace.
pub struct Capture {
    socket: OwnedFd,
}

/// One captured frame that carries a UDP packet to the RoCEv2 port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// True if this host sent the frame.
    pub outgoing: bool,
    /// The Ethernet frame.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Captures the packets of an interface in both directions, from this call on.
    ///
    /// # Panics
    /// If the system does not allow it.
    pub fn new(interface: u32) -> Capture {
        let every_protocol = (libc::ETH_P_ALL as u16).to_be();
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).expect("a packet socket");
        let _ = sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
        // `struct sockaddr_ll`: family:2 protocol:2 interface:4 and twelve unused bytes.
        let mut address = [0; 20];
        address[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
        address[2..4].copy_from_slice(&every_protocol.to_ne_bytes());
        address[4..8].copy_from_slice(&interface.to_ne_bytes());
        sys::bind(socket.as_fd(), &address).expect("the packet socket can be bound");
        Capture { socket }
    }

    /// The packets that were captured since the last call. Waits up to `wait_ms` for the first frame.
    ///
    /// # Panics
    /// If the socket fails.
    pub fn take(&self, wait_ms: i32) -> Vec<Captured> {
        let mut captured = Vec::new();
        let mut room = vec![0; FRAME_BYTES];
        sys::wait(self.socket.as_fd(), libc::POLLIN, wait_ms).expect("the packet socket works");
        loop {
            let mut header = RxHeader::EMPTY;
            let fd = self.socket.as_fd();
            if mmsg::receive(fd, std::slice::from_mut(&mut header), &mut room, FRAME_BYTES).is_err() {
                return captured;
            }
            let outgoing = header.source.as_bytes()[PACKET_TYPE] == libc::PACKET_OUTGOING;
            let bytes = &room[..header.len_bytes];
            if frame::decode(bytes).is_some() {
                captured.push(Captured { outgoing, bytes: bytes.to_vec() });
            }
        }
    }
}

impl Captured {
    /// The frame's contents.
    ///
    /// # Panics
    /// Never: only frames that can be decoded are captured.
    pub fn frame(&self) -> EthernetFrame<'_> {
        frame::decode(&self.bytes).expect("was decoded when captured")
    }

    /// True if the packet is not a fragment and its IPv4 header forbids fragmentation. Always true for IPv6.
    pub fn is_unfragmentable(&self) -> bool {
        self.family() == Family::V6 || self.bytes[20..22] == [0x40, 0]
    }

    /// The frame's IP version.
    pub fn family(&self) -> Family {
        if self.bytes[12..14] == ETHERTYPE_IPV4 { Family::V4 } else { Family::V6 }
    }
}
