//! Lengths and strings (`rdbLoadLenByRef` and `rdbGenericLoadStringObject` of Redis).

use std::io::Read;

use super::error::RdbError;
use super::input::RdbInput;
use super::lzf;

/// The longest string: `proto-max-bulk-len` of Redis.
const LONGEST: u64 = 512 << 20;

/// A length, or the encoding of a string.
enum RdbLength {
    Bytes(u64),
    Encoding(u8),
}

impl<R: Read> RdbInput<R> {
    fn length_or_encoding(&mut self) -> Result<RdbLength, RdbError> {
        let first = self.byte()?;
        Ok(match first {
            0..=0x3F => RdbLength::Bytes(u64::from(first)),
            0x40..=0x7F => RdbLength::Bytes(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            0x80 => RdbLength::Bytes(u32::from_be_bytes(self.array()?).into()),
            0x81 => RdbLength::Bytes(u64::from_be_bytes(self.array()?)),
            0xC0.. => RdbLength::Encoding(first & 0x3F),
            _ => return Err(self.damaged(format!("no length begins with {first:#04x}"))),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64, RdbError> {
        match self.length_or_encoding()? {
            RdbLength::Bytes(len) => Ok(len),
            RdbLength::Encoding(_) => Err(self.damaged("an encoded string stands for a length")),
        }
    }

    /// A string in any encoding.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, RdbError> {
        match self.length_or_encoding()? {
            RdbLength::Bytes(len) => {
                self.check_length(len)?;
                self.bytes(len)
            }
            RdbLength::Encoding(0) => Ok(i8::from_le_bytes(self.array()?).to_string().into()),
            RdbLength::Encoding(1) => Ok(i16::from_le_bytes(self.array()?).to_string().into()),
            RdbLength::Encoding(2) => Ok(i32::from_le_bytes(self.array()?).to_string().into()),
            RdbLength::Encoding(3) => self.compressed(),
            RdbLength::Encoding(other) => Err(self.damaged(format!("no string has the encoding {other}"))),
        }
    }

    fn compressed(&mut self) -> Result<Vec<u8>, RdbError> {
        let (compressed, len) = (self.length()?, self.length()?);
        self.check_length(compressed)?;
        self.check_length(len)?;
        let bytes = self.bytes(compressed)?;
        lzf::decompress(&bytes, len as usize)
            .ok_or_else(|| self.damaged("a compressed string before it does not unpack"))
    }

    pub(super) fn skip_string(&mut self) -> Result<(), RdbError> {
        match self.length_or_encoding()? {
            RdbLength::Bytes(len) => self.skip(len),
            RdbLength::Encoding(encoding @ 0..=2) => self.skip(1 << encoding),
            RdbLength::Encoding(3) => {
                let compressed = self.length()?;
                self.length()?;
                self.skip(compressed)
            }
            RdbLength::Encoding(other) => Err(self.damaged(format!("no string has the encoding {other}"))),
        }
    }

    fn check_length(&self, len: u64) -> Result<(), RdbError> {
        if len <= LONGEST {
            return Ok(());
        }
        Err(self.damaged(format!("a string of {len} bytes: Redis keeps {LONGEST} at most")))
    }
}
