//! Bytes of a file, with their checksum and their number.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use crc::{CRC_64_REDIS, Crc, Digest, Table};

use super::error::RdbError;

static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
/// Bytes that one read takes.
const BUFFER_BYTES: usize = 64 << 10;

/// A file, from its beginning on.
pub(super) struct RdbInput<R> {
    source: BufReader<R>,
    offset: u64,
    digest: Digest<'static, u64, Table<16>>,
}

impl<R: Read> RdbInput<R> {
    pub(super) fn new(source: R) -> RdbInput<R> {
        RdbInput { source: BufReader::with_capacity(BUFFER_BYTES, source), offset: 0, digest: CRC64.digest() }
    }

    /// The checksum of all bytes so far.
    pub(super) fn checksum(&self) -> u64 {
        self.digest.clone().finalize()
    }

    pub(super) fn damaged(&self, why: impl Into<String>) -> RdbError {
        RdbError::Damaged { offset: self.offset, why: why.into() }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        let mut at = 0;
        self.pieces(N as u64, |piece| {
            bytes[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        })?;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(self.array::<1>()?[0])
    }

    /// So many bytes. Memory grows with those that are there, whatever the file claims.
    pub(super) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, RdbError> {
        let mut bytes = Vec::new();
        self.pieces(len, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    pub(super) fn skip(&mut self, len: u64) -> Result<(), RdbError> {
        self.pieces(len, |_| ())
    }

    fn pieces(&mut self, len: u64, mut take: impl FnMut(&[u8])) -> Result<(), RdbError> {
        let mut left = len;
        while left > 0 {
            let there = match self.source.fill_buf() {
                Ok([]) => return Err(RdbError::Torn(self.offset)),
                Ok(there) => there,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let piece = &there[..there.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            self.digest.update(piece);
            take(piece);
            let count = piece.len();
            self.source.consume(count);
            self.offset += count as u64;
            left -= count as u64;
        }
        Ok(())
    }

    /// True if nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, RdbError> {
        loop {
            match self.source.fill_buf() {
                Ok(there) => return Ok(there.is_empty()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
