//! Bandwidth of UDP sockets with segmentation and coalescing, and the cost of the copy and the CRC that RoCEv2
//! demands. The stream has no protocol, so it is an upper bound for streams with one.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::nonblocking::not_yet;
use super::pin_to_core;

/// Bytes before the payload, as many as a BTH has.
const HEADER_BYTES: usize = 12;
/// Payload of a packet: the largest path MTU.
const PAYLOAD_BYTES: usize = 4096;
/// Header, payload and the CRC after them.
const SEGMENT_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES + 4;
/// The number of segments of one send.
const SEGMENTS: usize = 15;
/// The most sends that are in flight.
const WINDOW: u64 = 4;
/// The receive buffer that the socket asks for: more than the window.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The work on the bytes beside sending and receiving them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SegmentWork {
    /// No work.
    Bare,
    /// Each end copies the payload once, between packets and message.
    Copied,
    /// Each end copies the payload and computes the CRC of each packet.
    Checked,
}

/// Payload bytes per second from one thread to another, in messages of `message_bytes` in one buffer.
pub(crate) fn udp_segments(
    address: IpAddr,
    message_bytes: usize,
    care: SegmentWork,
    time: Duration,
) -> io::Result<f64> {
    let (client, server) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
    udp::send_in_segments(&client, SEGMENT_BYTES as u16)?;
    udp::receive_together(&server)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&server, RECEIVE_BUFFER_BYTES)?;
    server.set_nonblocking(true)?;
    let to = server.local_addr()?;
    let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut end = SegmentsEnd::new(message_bytes, care);
    let sink = {
        let (mut end, received, stop) = (SegmentsEnd::new(message_bytes, care), received.clone(), stop.clone());
        thread::spawn(move || end.receive(&server, &received, &stop))
    };
    let sent = end.send(&client, to, &received, time);
    let payload = received.load(Relaxed);
    stop.store(true, Relaxed);
    sink.join().map_err(|_| io::Error::other("the UDP sink thread failed"))??;
    Ok(payload as f64 / sent?.as_secs_f64())
}

/// One end: its message, and the packets of one call.
struct SegmentsEnd {
    message: Vec<u8>,
    at: usize,
    packets: Vec<u8>,
    care: SegmentWork,
}

impl SegmentsEnd {
    fn new(message_bytes: usize, care: SegmentWork) -> SegmentsEnd {
        let len_bytes = message_bytes.next_multiple_of(PAYLOAD_BYTES).max(PAYLOAD_BYTES);
        SegmentsEnd { message: vec![7; len_bytes], at: 0, packets: vec![7; 1 << 16], care }
    }

    /// Sends for `time`; returns the time that it took.
    fn send(
        &mut self,
        socket: &UdpSocket,
        to: SocketAddr,
        received: &AtomicU64,
        time: Duration,
    ) -> io::Result<Duration> {
        pin_to_core(0);
        let (start, mut sent) = (Instant::now(), 0);
        loop {
            let elapsed = start.elapsed();
            if elapsed >= time {
                return Ok(elapsed);
            }
            if sent - received.load(Relaxed) >= WINDOW * (SEGMENTS * PAYLOAD_BYTES) as u64 {
                std::hint::spin_loop();
                continue;
            }
            for index in 0..SEGMENTS {
                self.fill(index * SEGMENT_BYTES);
            }
            socket.send_to(&self.packets[..SEGMENTS * SEGMENT_BYTES], to)?;
            sent += (SEGMENTS * PAYLOAD_BYTES) as u64;
        }
    }

    /// Builds the packet at `start`.
    fn fill(&mut self, start: usize) {
        let place = self.next_place();
        let packet = &mut self.packets[start..start + SEGMENT_BYTES];
        if self.care >= SegmentWork::Copied {
            packet[HEADER_BYTES..][..PAYLOAD_BYTES].copy_from_slice(&self.message[place..place + PAYLOAD_BYTES]);
        }
        if self.care == SegmentWork::Checked {
            let (covered, crc) = packet.split_at_mut(HEADER_BYTES + PAYLOAD_BYTES);
            crc.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
        }
    }

    /// Receives until it is stopped.
    fn receive(&mut self, socket: &UdpSocket, received: &AtomicU64, stop: &AtomicBool) -> io::Result<()> {
        pin_to_core(1);
        while !stop.load(Relaxed) {
            let len_bytes = match socket.recv(&mut self.packets) {
                Err(e) if not_yet(&e) => continue,
                result => result?,
            };
            let mut payload = 0;
            for start in (0..len_bytes / SEGMENT_BYTES).map(|index| index * SEGMENT_BYTES) {
                self.take(start)?;
                payload += PAYLOAD_BYTES as u64;
            }
            received.fetch_add(payload, Relaxed);
        }
        Ok(())
    }

    /// Copies and checks the packet at `start`, as `care` demands.
    fn take(&mut self, start: usize) -> io::Result<()> {
        let place = self.next_place();
        let packet = &self.packets[start..start + SEGMENT_BYTES];
        let (covered, crc) = packet.split_at(HEADER_BYTES + PAYLOAD_BYTES);
        if self.care == SegmentWork::Checked && crc32fast::hash(covered).to_le_bytes() != *crc {
            return Err(io::Error::other("a packet was damaged"));
        }
        if self.care >= SegmentWork::Copied {
            self.message[place..place + PAYLOAD_BYTES].copy_from_slice(&covered[HEADER_BYTES..]);
        }
        Ok(())
    }

    /// The offset of the next packet's payload in the message.
    fn next_place(&mut self) -> usize {
        let place = self.at;
        self.at = (self.at + PAYLOAD_BYTES) % self.message.len();
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_arrive_whole() {
        let address = IpAddr::from([127, 0, 0, 1]);
        for care in [SegmentWork::Bare, SegmentWork::Copied, SegmentWork::Checked] {
            let rate = udp_segments(address, 64 << 10, care, Duration::from_millis(300)).unwrap();
            assert!(rate > 0.0 && rate.is_finite(), "{care:?}");
        }
    }
}
