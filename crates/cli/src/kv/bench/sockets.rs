//! Clients of Redis, Valkey and memcached: pipelined over a socket, with as little work as the protocols allow.

use std::io::{BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::batch::BatchClient;
use super::scans::ScanChoice;
use crate::error::Error;

/// A protocol.
pub(super) trait SocketProtocol: Sized {
    /// Reads ranges of keys.
    fn scan(client: &mut SocketClient<Self>, scans: &[ScanChoice]) -> Result<usize, Error>;
    /// Gives keys a value that may be new.
    fn insert(client: &mut SocketClient<Self>, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error>;
    fn get(key: &[u8], out: &mut Vec<u8>);
    fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>);
    /// Takes the answer to a GET; true if the key is there.
    fn take_value(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, Error>;
    /// Takes the answer to a SET.
    fn take_stored(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<(), Error>;
}

/// The protocol of Redis (RESP2).
pub(super) struct Resp;

/// The text protocol of memcached.
pub(super) struct Memcached;

/// A client on one socket.
pub(super) struct SocketClient<P> {
    pub(super) input: BufReader<Box<dyn Read>>,
    output: Box<dyn Write>,
    pub(super) request: Vec<u8>,
    pub(super) line: Vec<u8>,
    /// True if the keys are kept in order, too.
    is_ordered: bool,
    protocol: PhantomData<P>,
}

impl<P> SocketClient<P> {
    pub(super) fn connect(address: &str, tcp: bool, is_ordered: bool) -> Result<SocketClient<P>, Error> {
        let (input, output): (Box<dyn Read>, Box<dyn Write>) = if tcp {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        } else {
            let stream = UnixStream::connect(address)?;
            (Box::new(stream.try_clone()?), Box::new(stream))
        };
        let input = BufReader::with_capacity(256 << 10, input);
        Ok(SocketClient { input, output, request: Vec::new(), line: Vec::new(), is_ordered, protocol: PhantomData })
    }

    pub(super) fn send(&mut self) -> Result<(), Error> {
        self.output.write_all(&self.request)?;
        Ok(())
    }
}

impl<P: SocketProtocol> BatchClient for SocketClient<P> {
    fn read(&mut self, keys: &[[u8; 20]]) -> Result<usize, Error> {
        self.request.clear();
        keys.iter().for_each(|key| P::get(key, &mut self.request));
        self.send()?;
        let mut there = 0;
        for _ in keys {
            there += usize::from(P::take_value(&mut self.input, &mut self.line)?);
        }
        Ok(there)
    }

    fn write(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        self.request.clear();
        keys.iter().for_each(|key| P::set(key, value, &mut self.request));
        self.send()?;
        keys.iter().try_for_each(|_| P::take_stored(&mut self.input, &mut self.line))
    }

    fn insert(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        if self.is_ordered { P::insert(self, keys, value) } else { self.write(keys, value) }
    }

    fn scan(&mut self, scans: &[ScanChoice]) -> Result<usize, Error> {
        P::scan(self, scans)
    }
}

/// The next line, without its end.
pub(super) fn take_line<'a>(input: &mut dyn BufRead, line: &'a mut Vec<u8>) -> Result<&'a str, Error> {
    line.clear();
    if input.read_until(b'\n', line)? == 0 {
        return Err(Error::Peer("the server ended the connection".into()));
    }
    Ok(std::str::from_utf8(line).unwrap_or_default().trim_end())
}

/// Passes over the bytes of a value and the line's end behind it.
fn skip(input: &mut dyn BufRead, len: &str) -> Result<(), Error> {
    let len: usize = len.parse().map_err(|_| Error::Peer(format!("{len:?} is no length")))?;
    let mut left = len + 2;
    while left > 0 {
        let some = input.fill_buf()?.len().min(left);
        if some == 0 {
            return Err(Error::Peer("the server ended the connection".into()));
        }
        input.consume(some);
        left -= some;
    }
    Ok(())
}

pub(super) fn unexpected(line: &str) -> Error {
    Error::Peer(format!("the server said {line:?}"))
}

impl SocketProtocol for Resp {
    fn scan(client: &mut SocketClient<Resp>, scans: &[ScanChoice]) -> Result<usize, Error> {
        client.scan_sorted_set(scans)
    }

    fn insert(client: &mut SocketClient<Resp>, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        client.insert_sorted(keys, value)
    }

    fn get(key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n${}\r\n", key.len()).as_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).as_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(format!("\r\n${}\r\n", value.len()).as_bytes());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn take_value(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, Error> {
        match take_line(input, line)? {
            "$-1" => Ok(false),
            other => {
                let len = other.strip_prefix('$').ok_or_else(|| unexpected(other))?;
                skip(input, len).map(|()| true)
            }
        }
    }

    fn take_stored(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<(), Error> {
        match take_line(input, line)? {
            "+OK" => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

impl SocketProtocol for Memcached {
    fn scan(_: &mut SocketClient<Memcached>, _: &[ScanChoice]) -> Result<usize, Error> {
        Err(Error::Usage("memcached has no ranges".into()))
    }

    fn insert(client: &mut SocketClient<Memcached>, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        client.write(keys, value)
    }

    fn get(key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"get ");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n");
    }

    fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"set ");
        out.extend_from_slice(key);
        out.extend_from_slice(format!(" 0 0 {}\r\n", value.len()).as_bytes());
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    fn take_value(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, Error> {
        match take_line(input, line)? {
            "END" => Ok(false),
            first => {
                let len = first.strip_prefix("VALUE ").and_then(|rest| rest.rsplit(' ').next());
                let len = len.ok_or_else(|| unexpected(first))?.to_owned();
                skip(input, &len)?;
                match take_line(input, line)? {
                    "END" => Ok(true),
                    other => Err(unexpected(other)),
                }
            }
        }
    }

    fn take_stored(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<(), Error> {
        match take_line(input, line)? {
            "STORED" => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken() {
        let mut line = Vec::new();
        let mut resp = &b"$3\r\na\r\n\r\n$-1\r\n+OK\r\n-ERR no\r\n"[..];
        assert!(Resp::take_value(&mut resp, &mut line).unwrap() && !Resp::take_value(&mut resp, &mut line).unwrap());
        assert!(Resp::take_stored(&mut resp, &mut line).is_ok() && Resp::take_stored(&mut resp, &mut line).is_err());
        assert!(Resp::take_value(&mut resp, &mut line).is_err(), "the end");
        let mut text = &b"VALUE key 0 3\r\nabc\r\nEND\r\nEND\r\nSTORED\r\nERROR\r\n"[..];
        assert!(Memcached::take_value(&mut text, &mut line).unwrap());
        assert!(!Memcached::take_value(&mut text, &mut line).unwrap());
        assert!(Memcached::take_stored(&mut text, &mut line).is_ok());
        assert!(Memcached::take_stored(&mut text, &mut line).is_err());
    }
}
