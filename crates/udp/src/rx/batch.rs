//! The result of one receive call: datagrams, and the packets in them.

use crate::cmsg::{ControlBuffer, ControlMessage, ControlMessages};
use crate::sys::mmsg::{self, MAX_MESSAGES, RX_CONTROL_BYTES, RxHeader};
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use wire::Flow;

/// The buffer of one datagram, coalesced or not: no IP packet is longer.
const ROOM_BYTES: usize = 1 << 16;

/// Buffers for the datagrams of one receive call, allocated once.
///
/// The number of requested datagrams adapts. It begins with one, which is the shortest path through the
/// kernel. It doubles when two successive calls fill the request, and falls when less than half of the
/// request arrives. Unused buffers take no memory.
pub struct RxBatch {
    headers: Box<[RxHeader]>,
    data: Vec<u8>,
    /// The datagrams of the last call, decoded. Never grows past its capacity.
    arrived: Vec<ReceivedDatagram>,
    /// The last control messages and their meaning.
    last: Box<CachedAncillary>,
    /// The number of datagrams to request next time.
    window: usize,
    /// True if the last call returned as many datagrams as it requested.
    full: bool,
    discarded: u64,
}

impl RxBatch {
    /// A batch for up to `datagrams` at once (at least 1, at most 32).
    pub fn new(datagrams: usize) -> RxBatch {
        let datagrams = datagrams.clamp(1, MAX_MESSAGES);
        RxBatch {
            headers: vec![RxHeader::EMPTY; datagrams].into_boxed_slice(),
            data: vec![0; datagrams * ROOM_BYTES],
            arrived: Vec::with_capacity(datagrams),
            last: Box::default(),
            window: 1,
            full: false,
            discarded: 0,
        }
    }

    /// True if the last call returned as many datagrams as it requested, so that more may be waiting.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Notes that the queue was empty for a time, so the next datagrams do not directly follow the last ones.
    pub fn pause(&mut self) {
        self.full = false;
    }

    /// True if the last call returned no datagrams.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// The number of datagrams of the last call.
    pub(super) fn len(&self) -> usize {
        self.arrived.len()
    }

    /// True if the last call returned exactly one packet.
    pub(super) fn is_lone_packet(&self) -> bool {
        matches!(&*self.arrived, [datagram] if datagram.len_bytes <= datagram.segment_bytes)
    }

    /// The datagrams of the last call, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.arrived.iter().map(|arrived| arrived.datagram(&self.data))
    }

    /// The number of discarded datagrams so far: longer than their buffer, or without their addresses.
    /// [`iter`](RxBatch::iter) leaves them out.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Receives once. After an error the batch is empty.
    pub(super) fn fill(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.arrived.clear();
        let asked = self.window;
        let result = mmsg::receive(fd, &mut self.headers[..asked], &mut self.data, ROOM_BYTES);
        let count = *result.as_ref().unwrap_or(&0);
        self.adapt(asked, count);
        for (i, header) in self.headers[..count].iter().enumerate() {
            self.arrived.extend(ReceivedDatagram::decode(header, i * ROOM_BYTES, &mut self.last));
        }
        self.discarded += (count - self.arrived.len()) as u64;
        result
    }

    fn adapt(&mut self, asked: usize, count: usize) {
        let was_full = mem::replace(&mut self.full, count == asked);
        if self.full && was_full {
            self.window = (asked * 2).min(self.headers.len());
        } else if count * 2 < asked {
            self.window = count.max(1);
        }
    }
}

impl std::fmt::Debug for RxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The packets of a datagram: all of [`Datagram::segment_bytes`], the last may be shorter.
pub type Segments<'a> = std::slice::Chunks<'a, u8>;

/// One received UDP datagram, or several of one flow and size that the kernel has coalesced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender's address and port.
    pub source: SocketAddr,
    /// The destination address: one of this machine, or a multicast group.
    pub destination: IpAddr,
    /// The index of the interface on which it arrived.
    pub interface: u32,
    /// IPv4 type of service or IPv6 traffic class. The two low bits are ECN; 3 means "congestion
    /// experienced". It is the same for all coalesced datagrams.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit on arrival.
    pub hop_limit: u8,
    /// The length of each packet in `bytes`; the last may be shorter. Never 0.
    pub segment_bytes: usize,
    /// The UDP payload, packet after packet.
    pub bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The packets, each from its BTH to its ICRC. Yields none if the payload is empty.
    pub fn segments(&self) -> Segments<'a> {
        self.bytes.chunks(self.segment_bytes)
    }

    /// The flow of the packets, for the check of their ICRC.
    pub fn flow(&self) -> Flow {
        Flow { source: self.source.ip(), destination: self.destination, source_port: self.source.port() }
    }

    /// True if a router on the path has marked congestion (ECN).
    pub fn ecn_ce(&self) -> bool {
        self.traffic_class & 3 == 3
    }
}

impl std::fmt::Debug for Datagram<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagram")
            .field("source", &self.source)
            .field("destination", &self.destination)
            .field("interface", &self.interface)
            .field("traffic_class", &self.traffic_class)
            .field("hop_limit", &self.hop_limit)
            .field("segment_bytes", &self.segment_bytes)
            .field("len_bytes", &self.bytes.len())
            .finish()
    }
}

/// Control messages with their meaning. They are the same for all datagrams of one flow, so decoding them
/// again is rarely necessary.
struct CachedAncillary {
    control: ControlBuffer<RX_CONTROL_BYTES>,
    ancillary: Ancillary,
}

impl Default for CachedAncillary {
    fn default() -> CachedAncillary {
        CachedAncillary { control: ControlBuffer::EMPTY, ancillary: Ancillary::default() }
    }
}

impl CachedAncillary {
    #[inline]
    fn decode(&mut self, control: &ControlBuffer<RX_CONTROL_BYTES>) -> &Ancillary {
        if self.control.as_bytes() != control.as_bytes() {
            *self = CachedAncillary { control: *control, ancillary: Ancillary::read(control.iter()) };
        }
        &self.ancillary
    }
}

/// The decoded control messages of a datagram.
#[derive(Default)]
struct Ancillary {
    destination: Option<IpAddr>,
    interface: u32,
    traffic_class: u8,
    hop_limit: u8,
    segment_bytes: Option<usize>,
}

impl Ancillary {
    fn read(messages: ControlMessages<'_>) -> Ancillary {
        let mut ancillary = Ancillary::default();
        for message in messages {
            ancillary.take(&message);
        }
        ancillary
    }

    fn take(&mut self, message: &ControlMessage<'_>) {
        let byte = || message.integer().unwrap_or(0) as u8;
        match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.take_pktinfo(message.data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => self.take_pktinfo6(message.data),
            (libc::IPPROTO_IP, libc::IP_TOS) => self.traffic_class = byte(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.traffic_class = byte(),
            (libc::IPPROTO_IP, libc::IP_TTL) => self.hop_limit = byte(),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => self.hop_limit = byte(),
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment_bytes = message.integer().and_then(|size| size.try_into().ok());
            }
            _ => {}
        }
    }

    /// `struct in_pktinfo`: interface:4, local address:4, the header's destination:4.
    fn take_pktinfo(&mut self, data: &[u8]) {
        if let Ok([a, b, c, d, _, _, _, _, address @ ..]) = <[u8; 12]>::try_from(data) {
            self.interface = u32::from_ne_bytes([a, b, c, d]);
            self.destination = Some(IpAddr::from(address));
        }
    }

    /// `struct in6_pktinfo`: the header's destination:16, interface:4.
    fn take_pktinfo6(&mut self, data: &[u8]) {
        if let Some((address, rest)) = data.split_first_chunk::<16>()
            && let Ok(interface) = rest.try_into()
        {
            self.interface = u32::from_ne_bytes(interface);
            self.destination = Some(IpAddr::from(*address).to_canonical());
        }
    }
}

/// A received datagram without its bytes.
struct ReceivedDatagram {
    source: SocketAddr,
    destination: IpAddr,
    interface: u32,
    traffic_class: u8,
    hop_limit: u8,
    segment_bytes: usize,
    /// The offset of its bytes in the batch's data.
    start: usize,
    len_bytes: usize,
}

impl ReceivedDatagram {
    /// `None` if the datagram did not fit its buffer or the kernel did not report its source and destination.
    fn decode(header: &RxHeader, start: usize, last: &mut CachedAncillary) -> Option<ReceivedDatagram> {
        if header.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 || header.len_bytes > ROOM_BYTES {
            return None;
        }
        let ancillary = last.decode(&header.control);
        Some(ReceivedDatagram {
            source: header.source.decode()?,
            destination: ancillary.destination?,
            interface: ancillary.interface,
            traffic_class: ancillary.traffic_class,
            hop_limit: ancillary.hop_limit,
            segment_bytes: ancillary.segment_bytes.unwrap_or(header.len_bytes).max(1),
            start,
            len_bytes: header.len_bytes,
        })
    }

    fn datagram<'a>(&self, data: &'a [u8]) -> Datagram<'a> {
        Datagram {
            source: self.source,
            destination: self.destination,
            interface: self.interface,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            segment_bytes: self.segment_bytes,
            bytes: &data[self.start..self.start + self.len_bytes],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::RawAddress;
    use crate::cmsg::ControlBuffer;

    /// The kernel's header for a datagram of 100 bytes in segments of 40.
    fn header() -> RxHeader {
        let mut control = ControlBuffer::EMPTY;
        control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &[7, 0, 0, 0, 1, 1, 1, 1, 192, 0, 2, 9]);
        control.push(libc::SOL_UDP, libc::UDP_GRO, &40i32.to_ne_bytes());
        let source = RawAddress::new("192.0.2.1".parse().unwrap(), 5, 0);
        RxHeader { source, control, len_bytes: 100, flags: 0 }
    }

    #[test]
    fn whole_datagrams_are_decoded() {
        let arrived = ReceivedDatagram::decode(&header(), 10, &mut CachedAncillary::default()).unwrap();
        let data = [3; 200];
        let datagram = arrived.datagram(&data);
        assert_eq!((datagram.bytes.len(), datagram.segments().len()), (100, 3));
        assert_eq!(datagram.destination, IpAddr::from([192, 0, 2, 9]));
        assert_eq!(datagram.interface.to_ne_bytes(), [7, 0, 0, 0]);
    }

    #[test]
    fn others_are_left_out() {
        let cases: [fn(&mut RxHeader); 5] = [
            |header| header.flags = libc::MSG_TRUNC,
            |header| header.flags = libc::MSG_CTRUNC,
            |header| header.len_bytes = ROOM_BYTES + 1,
            |header| header.source.set_len(3),
            |header| header.control = ControlBuffer::EMPTY,
        ];
        for (i, damage) in cases.iter().enumerate() {
            let mut header = header();
            damage(&mut header);
            assert!(ReceivedDatagram::decode(&header, 0, &mut CachedAncillary::default()).is_none(), "case {i}");
        }
    }

    #[test]
    fn segment_sizes_that_make_no_sense_do_no_harm() {
        for size in [0, -1, i32::MAX] {
            let mut header = header();
            header.control.push(libc::SOL_UDP, libc::UDP_GRO, &i32::to_ne_bytes(size));
            let arrived = ReceivedDatagram::decode(&header, 0, &mut CachedAncillary::default()).unwrap();
            assert!(arrived.datagram(&[0; 100]).segments().len() <= 100);
        }
    }
}
