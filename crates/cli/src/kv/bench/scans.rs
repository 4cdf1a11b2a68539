//! Scans of Redis and Valkey, as near as they come: keys of a sorted set in the order of bytes, then their values.
//!
//! All members of the set have one score, so that ZRANGEBYLEX tells them in the order of their bytes. MGET fetches the values.

use std::io::BufRead;

use super::sockets::{Resp, SocketClient, SocketProtocol, take_line, unexpected};
use crate::error::Error;

/// The sorted set of all keys.
const INDEX: &str = "index";

/// The first key of a scan, and the most keys that it tells.
pub(super) type ScanChoice = ([u8; 20], usize);

/// Appends a command.
fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The number behind a sign.
fn number(line: &str, sign: char) -> Result<usize, Error> {
    line.strip_prefix(sign).and_then(|rest| rest.parse().ok()).ok_or_else(|| unexpected(line))
}

/// Takes the answer to ZRANGEBYLEX.
fn take_keys(input: &mut dyn BufRead, line: &mut Vec<u8>, keys: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    for _ in 0..number(take_line(input, line)?, '*')? {
        let len = number(take_line(input, line)?, '$')?;
        let mut key = vec![0; len + 2];
        input.read_exact(&mut key)?;
        key.truncate(len);
        keys.push(key);
    }
    Ok(())
}

impl SocketClient<Resp> {
    /// Scans, and returns how many scans found a key. All ranges are asked for first, then all values.
    pub(super) fn scan_sorted_set(&mut self, scans: &[ScanChoice]) -> Result<usize, Error> {
        self.request.clear();
        for (first, len) in scans {
            let (from, len) = ([b"[", &first[..]].concat(), len.to_string());
            let words = [b"ZRANGEBYLEX", INDEX.as_bytes(), &from, b"+", b"LIMIT", b"0", len.as_bytes()];
            command(&words, &mut self.request);
        }
        self.send()?;
        let mut found = vec![Vec::new(); scans.len()];
        for keys in &mut found {
            take_keys(&mut self.input, &mut self.line, keys)?;
        }
        found.retain(|keys| !keys.is_empty());
        self.request.clear();
        for keys in &found {
            let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(Vec::as_slice)).collect();
            command(&words, &mut self.request);
        }
        self.send()?;
        for _ in &found {
            for _ in 0..number(take_line(&mut self.input, &mut self.line)?, '*')? {
                Resp::take_value(&mut self.input, &mut self.line)?;
            }
        }
        Ok(found.len())
    }

    /// Gives new keys a value, and adds them to the sorted set.
    pub(super) fn insert_sorted(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        self.request.clear();
        for key in keys {
            Resp::set(key, value, &mut self.request);
            command(&[b"ZADD", INDEX.as_bytes(), b"0", key], &mut self.request);
        }
        self.send()?;
        for _ in keys {
            Resp::take_stored(&mut self.input, &mut self.line)?;
            number(take_line(&mut self.input, &mut self.line)?, ':')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_have_their_form() {
        let mut out = Vec::new();
        command(&[b"MGET", b"a b"], &mut out);
        assert_eq!(out, b"*2\r\n$4\r\nMGET\r\n$3\r\na b\r\n");
        let (mut keys, mut line) = (Vec::new(), Vec::new());
        take_keys(&mut &b"*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n"[..], &mut line, &mut keys).unwrap();
        assert_eq!(keys, [&b"a"[..], b"\r\n"]);
        assert!(take_keys(&mut &b"-ERR no\r\n"[..], &mut line, &mut keys).is_err());
        assert!(take_keys(&mut &b"*2\r\n$1\r\na\r\n"[..], &mut line, &mut keys).is_err(), "it ends in the middle");
    }
}
