//! Values of other types than strings: their names, and where they end (`rdbLoadObject` of Redis).

use std::io::Read;

use super::error::RdbError;
use super::input::RdbInput;

/// The name of a type, as `TYPE` tells it; `None` if there is no such type.
pub(super) fn type_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0 => "string",
        1 | 10 | 14 | 18 => "list",
        2 | 11 | 20 => "set",
        3 | 5 | 12 | 17 => "zset",
        4 | 9 | 13 | 16 => "hash",
        7 => "module",
        15 | 19 | 21 => "stream",
        _ => return None,
    })
}

impl<R: Read> RdbInput<R> {
    /// Passes over the value of a type that has a name.
    pub(super) fn skip_value(&mut self, kind: u8) -> Result<(), RdbError> {
        match kind {
            // One string has the whole value: a ziplist, a listpack, an intset, a zipmap.
            0 | 9..=13 | 16 | 17 | 20 => self.skip_string(),
            1 | 2 | 14 => self.each(Self::skip_string),
            3 => self.each(|input| {
                input.skip_string()?;
                input.skip_text_score()
            }),
            4 => self.each(Self::skip_pair),
            5 => self.each(|input| {
                input.skip_string()?;
                input.skip(8)
            }),
            18 => self.each(|input| {
                input.length()?;
                input.skip_string()
            }),
            7 => {
                self.length()?;
                self.skip_module_parts()
            }
            15 => self.skip_stream(1),
            19 => self.skip_stream(2),
            21 => self.skip_stream(3),
            other => Err(self.damaged(format!("there is no type {other}"))),
        }
    }

    fn each(&mut self, mut skip: impl FnMut(&mut Self) -> Result<(), RdbError>) -> Result<(), RdbError> {
        let count = self.length()?;
        for _ in 0..count {
            skip(self)?;
        }
        Ok(())
    }

    fn skip_pair(&mut self) -> Result<(), RdbError> {
        self.skip_string()?;
        self.skip_string()
    }

    fn skip_lengths(&mut self, count: usize) -> Result<(), RdbError> {
        (0..count).try_for_each(|_| self.length().map(drop))
    }

    /// The score of an old sorted set: its digits, or a number above 252 for one that has none.
    fn skip_text_score(&mut self) -> Result<(), RdbError> {
        match self.byte()? {
            253.. => Ok(()),
            len => self.skip(len.into()),
        }
    }

    /// The bytes that a module has written, up to their end.
    pub(super) fn skip_module_parts(&mut self) -> Result<(), RdbError> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => self.skip_lengths(1)?,
                3 => self.skip(4)?,
                4 => self.skip(8)?,
                5 => self.skip_string()?,
                other => return Err(self.damaged(format!("modules have no part {other}"))),
            }
        }
    }

    /// A stream in the first, second or third form.
    fn skip_stream(&mut self, form: u8) -> Result<(), RdbError> {
        self.each(Self::skip_pair)?;
        // The number of entries and the last identifier; then three more facts of five numbers.
        self.skip_lengths(if form == 1 { 3 } else { 8 })?;
        self.each(|input| {
            input.skip_string()?;
            input.skip_lengths(if form == 1 { 2 } else { 3 })?;
            input.each(|input| {
                // An identifier of 16 bytes and a time of 8.
                input.skip(24)?;
                input.skip_lengths(1)
            })?;
            input.each(|input| {
                input.skip_string()?;
                input.skip(if form == 3 { 16 } else { 8 })?;
                input.each(|input| input.skip(16))
            })
        })
    }
}
