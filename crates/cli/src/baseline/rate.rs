//! Message rate: one `sendto` per message.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::bandwidth::DatagramSink;
use super::pin_to_core;

/// Messages per second of one thread that sends each with a system call, while
/// another thread receives them.
pub(crate) fn udp_rate(address: IpAddr, len_bytes: usize, duration: Duration) -> io::Result<f64> {
    let (client, server) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
    let to = server.local_addr()?;
    let sink = DatagramSink::start(server)?;
    pin_to_core(0);
    let (start, buffer) = (Instant::now(), vec![7; len_bytes]);
    let mut sent = 0u64;
    while start.elapsed() < duration {
        for _ in 0..64 {
            client.send_to(&buffer, to)?;
        }
        sent += 64;
    }
    let elapsed = start.elapsed();
    sink.finish()?;
    Ok(sent as f64 / elapsed.as_secs_f64())
}
