//! From bytes of a client to requests.
//!
//! The rules are those of Redis 7 (`networking.c`, and its page "Redis serialization protocol specification"): a request is an
//! array of bulk strings, or a line of words. The decoder remembers how far it has come, so bytes that arrive one by one cost no
//! more than all at once. It allocates for bytes that are there, never for lengths that a client claims. Crates that decode RESP for
//! clients have neither limits nor lines of words: tests compare this decoder with one of them.

use std::ops::Range;

use crate::inline;
use crate::number::parse_i64;

/// The longest line, of a length or of words.
const LONGEST_LINE: usize = 64 << 10;

/// Bounds of what a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    /// Arguments of a request, its name included.
    pub arguments: i64,
    /// Bytes of one argument.
    pub argument_bytes: i64,
}

impl RequestLimits {
    /// Those of a client that may use the tables (`proto-max-bulk-len` in Redis).
    pub(crate) const FULL: RequestLimits = RequestLimits { arguments: i32::MAX as i64, argument_bytes: 512 << 20 };
    /// Those of a client that has not given its password.
    pub(crate) const STRANGER: RequestLimits = RequestLimits { arguments: 10, argument_bytes: 16384 };
}

/// Bytes that are no request. The words are those of Redis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub(crate) struct ProtocolError(String);

fn broken<T>(words: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError(words.into()))
}

/// The decoder of one connection.
#[derive(Debug, Default)]
pub(crate) struct RequestDecoder {
    /// Bytes of the request that are understood.
    at: usize,
    /// Where to look for the end of a line.
    searched: usize,
    /// Arguments that are missing; `None` before the first line.
    missing: Option<i64>,
    /// Length of the argument that is under way.
    bulk: Option<usize>,
    arguments: Vec<Range<usize>>,
    /// Words of a line, which are no ranges of it where it has quotes.
    words: Vec<Vec<u8>>,
}

impl RequestDecoder {
    /// Looks at `bytes`, which begin where the request does; the decoder has seen a part of them before, perhaps. Returns the
    /// length of the request when it is whole. Then [`Self::arguments`] has its arguments, until [`Self::clear`].
    ///
    /// # Errors
    /// If the bytes are no request.
    pub(crate) fn decode(&mut self, bytes: &[u8], limits: RequestLimits) -> Result<Option<usize>, ProtocolError> {
        if self.missing.is_none() {
            match bytes.first() {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.decode_words(bytes),
            }
            let Some(line) = self.line(bytes, "too big mbulk count string")? else { return Ok(None) };
            let count = parse_i64(&bytes[1..line]).filter(|count| *count <= limits.arguments);
            match count {
                Some(count) => self.missing = Some(count.max(0)),
                None if parse_i64(&bytes[1..line]).is_some_and(|count| count <= RequestLimits::FULL.arguments) => {
                    return broken("unauthenticated multibulk length");
                }
                None => return broken("invalid multibulk length"),
            }
        }
        while self.missing.is_some_and(|missing| missing > 0) {
            if !self.decode_argument(bytes, limits)? {
                return Ok(None);
            }
        }
        Ok(Some(self.at))
    }

    /// Arguments of the request that is whole; `bytes` are those that were decoded.
    pub(crate) fn arguments<'a>(&'a self, bytes: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let count = self.arguments.len().max(self.words.len());
        (0..count).map(move |number| match self.words.get(number) {
            Some(word) => word.as_slice(),
            None => &bytes[self.arguments[number].clone()],
        })
    }

    /// The bytes of an argument; `None` if it is missing or a word of a line.
    pub(crate) fn place_of(&self, argument: usize) -> Option<Range<usize>> {
        self.arguments.get(argument).cloned()
    }

    /// Forgets the request, before the next one.
    pub(crate) fn clear(&mut self) {
        (self.at, self.searched, self.missing, self.bulk) = (0, 0, None, None);
        self.arguments.clear();
        self.words.clear();
        // One long request is no reason to keep its memory.
        self.arguments.shrink_to(64);
    }

    /// Returns false if bytes are missing.
    fn decode_argument(&mut self, bytes: &[u8], limits: RequestLimits) -> Result<bool, ProtocolError> {
        let len_bytes = match self.bulk {
            Some(len_bytes) => len_bytes,
            None => {
                let start = self.at;
                let Some(line) = self.line(bytes, "too big bulk count string")? else { return Ok(false) };
                if bytes[start] != b'$' {
                    return broken(&format!("expected '$', got '{}'", char::from(bytes[start])));
                }
                let claimed = parse_i64(&bytes[start + 1..line]);
                match claimed {
                    Some(claimed @ 0..) if claimed <= limits.argument_bytes => self.bulk = Some(claimed as usize),
                    Some(0..=0x2000_0000) => return broken("unauthenticated bulk length"),
                    _ => return broken("invalid bulk length"),
                }
                claimed.unwrap_or_default() as usize
            }
        };
        let Some(end) = self.at.checked_add(len_bytes).filter(|end| *end + 2 <= bytes.len()) else {
            return Ok(false);
        };
        self.arguments.push(self.at..end);
        // Redis does not look at the line break behind the bytes either.
        (self.at, self.bulk) = (end + 2, None);
        self.searched = self.at;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(true)
    }

    /// Where the line ends that begins at `at`; moves on behind it. `None` if its end is missing.
    fn line(&mut self, bytes: &[u8], too_long: &str) -> Result<Option<usize>, ProtocolError> {
        let from = self.searched.max(self.at);
        match bytes[from..].iter().position(|byte| *byte == b'\r').map(|found| from + found) {
            Some(end) if end + 2 <= bytes.len() => {
                (self.at, self.searched) = (end + 2, end + 2);
                Ok(Some(end))
            }
            Some(end) => {
                self.searched = end;
                Ok(None)
            }
            None if bytes.len() - self.at > LONGEST_LINE => broken(too_long),
            None => {
                self.searched = bytes.len();
                Ok(None)
            }
        }
    }

    fn decode_words(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = bytes[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at)
        else {
            self.searched = bytes.len();
            return if bytes.len() > LONGEST_LINE { broken("too big inline request") } else { Ok(None) };
        };
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        match inline::words(line) {
            Some(words) => self.words = words,
            None => return broken("unbalanced quotes in request"),
        }
        Ok(Some(end + 1))
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
