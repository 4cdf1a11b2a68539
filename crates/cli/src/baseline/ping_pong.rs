//! One-way latency: half the time of a round trip.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::nonblocking::not_yet;
use super::pin_to_core;
use crate::perf::Latency;

/// A peer that does not answer for this long is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// TCP with TCP_NODELAY.
pub(crate) fn tcp_ping_pong(address: IpAddr, len_bytes: usize, rounds: u32) -> io::Result<Latency> {
    let listener = TcpListener::bind((address, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    let echo = thread::spawn(move || tcp_echo(&server, len_bytes, rounds));
    pin_to_core(0);
    let mut message = vec![7; len_bytes];
    let latency = measure(rounds, || {
        write_all(&client, &message)?;
        read_all(&client, &mut message)
    })?;
    echo.join().map_err(|_| io::Error::other("the TCP echo thread failed"))??;
    Ok(latency)
}

fn tcp_echo(stream: &TcpStream, len_bytes: usize, rounds: u32) -> io::Result<()> {
    pin_to_core(1);
    let mut message = vec![0; len_bytes];
    for _ in 0..rounds {
        read_all(stream, &mut message)?;
        write_all(stream, &message)?;
    }
    Ok(())
}

/// Plain datagrams on unconnected sockets.
pub(crate) fn udp_ping_pong(address: IpAddr, len_bytes: usize, rounds: u32) -> io::Result<Latency> {
    let (client, server) = (UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?);
    client.set_nonblocking(true)?;
    server.set_nonblocking(true)?;
    let (to_client, to_server) = (client.local_addr()?, server.local_addr()?);
    let echo = thread::spawn(move || -> io::Result<()> {
        pin_to_core(1);
        let mut message = vec![0; len_bytes];
        for _ in 0..rounds {
            spin(|| server.recv_from(&mut message))?;
            server.send_to(&message, to_client)?;
        }
        Ok(())
    });
    pin_to_core(0);
    let mut message = vec![7; len_bytes];
    let latency = measure(rounds, || {
        client.send_to(&message, to_server)?;
        spin(|| client.recv_from(&mut message)).map(|_| ())
    })?;
    echo.join().map_err(|_| io::Error::other("the UDP echo thread failed"))??;
    Ok(latency)
}

fn measure(rounds: u32, mut round: impl FnMut() -> io::Result<()>) -> io::Result<Latency> {
    let mut latency = Latency::default();
    for _ in 0..rounds {
        let start = Instant::now();
        round()?;
        latency.record(start.elapsed() / 2);
    }
    Ok(latency)
}

fn spin<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(e) if not_yet(&e) && start.elapsed() < PATIENCE => std::hint::spin_loop(),
            other => return other,
        }
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = spin(|| stream.write(bytes))?;
        bytes = &bytes[n..];
    }
    Ok(())
}

fn read_all(mut stream: &TcpStream, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match spin(|| stream.read(bytes))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes = &mut std::mem::take(&mut bytes)[n..],
        }
    }
    Ok(())
}
