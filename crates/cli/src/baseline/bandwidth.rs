//! Bandwidth of one stream at full speed.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::nonblocking::not_yet;
use super::pin_to_core;

/// Bytes per write, as iperf3 does.
const CHUNK_BYTES: usize = 128 << 10;
/// The largest IPv4 datagram.
const DATAGRAM_BYTES: usize = 65_507;

/// Bytes per second through one TCP connection.
pub(crate) fn tcp_stream(address: IpAddr, duration: Duration) -> io::Result<f64> {
    let listener = TcpListener::bind((address, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    let sink = thread::spawn(move || -> io::Result<u64> {
        pin_to_core(1);
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut total = 0u64;
        loop {
            match server.read(&mut buffer)? {
                0 => return Ok(total),
                n => total += n as u64,
            }
        }
    });
    pin_to_core(0);
    let (start, buffer) = (Instant::now(), vec![7; CHUNK_BYTES]);
    while start.elapsed() < duration {
        client.write_all(&buffer)?;
    }
    drop(client);
    let total = sink.join().map_err(|_| io::Error::other("the TCP sink thread failed"))??;
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

/// Bytes per second that arrive, of large plain datagrams.
pub(crate) fn udp_stream(address: IpAddr, duration: Duration) -> io::Result<f64> {
    let (client, server) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
    let to = server.local_addr()?;
    let len_bytes = if address.is_ipv4() { DATAGRAM_BYTES } else { DATAGRAM_BYTES - 20 };
    let sink = DatagramSink::start(server)?;
    pin_to_core(0);
    let (start, buffer) = (Instant::now(), vec![7; len_bytes]);
    while start.elapsed() < duration {
        client.send_to(&buffer, to)?;
    }
    let elapsed = start.elapsed();
    let bytes = sink.finish()?;
    Ok(bytes as f64 / elapsed.as_secs_f64())
}

/// A thread on the second core that receives datagrams until it is stopped.
pub(super) struct DatagramSink {
    thread: thread::JoinHandle<io::Result<u64>>,
    stop: Arc<AtomicBool>,
}

impl DatagramSink {
    pub(super) fn start(socket: UdpSocket) -> io::Result<DatagramSink> {
        socket.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Ok(DatagramSink { thread: thread::spawn(move || drain(&socket, &stopped)), stop })
    }

    /// Stops the thread; returns the number of received bytes.
    pub(super) fn finish(self) -> io::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the UDP sink thread failed"))?
    }
}

fn drain(socket: &UdpSocket, stopped: &AtomicBool) -> io::Result<u64> {
    pin_to_core(1);
    let (mut buffer, mut bytes) = (vec![0; DATAGRAM_BYTES], 0);
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((n, _)) => bytes += n as u64,
            Err(e) if not_yet(&e) && stopped.load(Ordering::Relaxed) => return Ok(bytes),
            Err(e) if not_yet(&e) => std::hint::spin_loop(),
            Err(e) => return Err(e),
        }
    }
}
