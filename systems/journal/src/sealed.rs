//! Files that are written once: snapshots and backups. They are whole or worth nothing.
//!
//! ```text
//!  0       8      16     …   60    64
//! | magic | salt | zeros    | crc | frames | a frame without records, whose `durable` is their number
//! ```

use crate::disk::DiskFile;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES};

const HEAD_BYTES: usize = 64;
const MAGIC: u64 = 0x3130_4c41_4553_414c;
/// Records are gathered to frames of this length.
const FRAME_GOAL: usize = 1 << 20;

/// Writes a file of records.
pub struct SealedWriter {
    file: Box<dyn DiskFile>,
    name: String,
    salt: u64,
    at: u64,
    frame: Vec<u8>,
    count: u32,
    total: u64,
}

impl SealedWriter {
    /// Begins an empty file. The name is for errors.
    ///
    /// # Errors
    /// If the system refuses. So for all other methods.
    pub fn new(file: Box<dyn DiskFile>, name: &str) -> Result<SealedWriter, JournalError> {
        let (mut head, mut salt) = ([0; HEAD_BYTES], [0; 8]);
        getrandom::fill(&mut salt).map_err(|error| JournalError::io(name)(std::io::Error::other(error)))?;
        head[..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&salt);
        let sum = crc32c::crc32c(&head[..60]);
        head[60..].copy_from_slice(&sum.to_le_bytes());
        file.write_at(0, &head).map_err(JournalError::io(name))?;
        let mut frame = Vec::new();
        frame::begin(&mut frame);
        let salt = u64::from_le_bytes(salt);
        Ok(SealedWriter { file, name: name.into(), salt, at: HEAD_BYTES as u64, frame, count: 0, total: 0 })
    }

    /// Adds a record of several parts.
    #[allow(clippy::missing_errors_doc, reason = "as for `new`")]
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<(), JournalError> {
        frame::add(&mut self.frame, parts);
        self.count += 1;
        if self.frame.len() >= FRAME_GOAL { self.flush() } else { Ok(()) }
    }

    /// Bytes so far.
    pub fn len_bytes(&self) -> u64 {
        self.at + self.frame.len() as u64
    }

    fn flush(&mut self) -> Result<(), JournalError> {
        if self.count == 0 {
            return Ok(());
        }
        let first = self.total + 1;
        frame::finish(&mut self.frame, (first, 0), self.count, self.salt);
        self.total += u64::from(self.count);
        self.write()
    }

    fn write(&mut self) -> Result<(), JournalError> {
        self.file.write_at(self.at, &self.frame).map_err(JournalError::io(&self.name))?;
        self.at += self.frame.len() as u64;
        self.count = 0;
        frame::begin(&mut self.frame);
        Ok(())
    }

    /// Ends the file and syncs it. Returns its length in bytes.
    #[allow(clippy::missing_errors_doc, reason = "as for `new`")]
    pub fn finish(mut self) -> Result<u64, JournalError> {
        self.flush()?;
        frame::finish(&mut self.frame, (self.total + 1, self.total), 0, self.salt);
        self.write()?;
        self.file.sync().map_err(JournalError::io(&self.name))?;
        Ok(self.at)
    }
}

/// Reads a file of records.
pub struct SealedReader {
    file: Box<dyn DiskFile>,
    name: String,
    salt: u64,
    len_bytes: u64,
}

impl SealedReader {
    /// Opens a file. The name is for errors.
    ///
    /// # Errors
    /// If the system refuses, or the file is no such file.
    pub fn new(file: Box<dyn DiskFile>, name: &str) -> Result<SealedReader, JournalError> {
        let len_bytes = file.len_bytes().map_err(JournalError::io(name))?;
        let mut head = [0; HEAD_BYTES];
        if len_bytes >= HEAD_BYTES as u64 {
            file.read_at(0, &mut head).map_err(JournalError::io(name))?;
        }
        let is_right =
            frame::word64(&head, 0) == Some(MAGIC) && frame::word32(&head, 60) == Some(crc32c::crc32c(&head[..60]));
        match frame::word64(&head, 8).filter(|_| is_right) {
            Some(salt) => Ok(SealedReader { file, name: name.into(), salt, len_bytes }),
            None => Err(JournalError::damaged(name, 0, "its header is wrong, or of another kind of file")),
        }
    }

    /// Calls `each` with all records, in order. An error may come after records that are right: the caller must not use them.
    ///
    /// # Errors
    /// If the system refuses, a checksum is wrong, the end is missing, or `each` has an error.
    pub fn read(&self, each: &mut dyn FnMut(&[u8]) -> Result<(), JournalError>) -> Result<(), JournalError> {
        let (mut at, mut total, mut bytes) = (HEAD_BYTES as u64, 0, Vec::new());
        loop {
            let damaged = |why| JournalError::damaged(&self.name, at, why);
            let left = self.len_bytes - at;
            if left < FRAME_BYTES as u64 {
                return Err(damaged("its end is missing"));
            }
            bytes.resize(FRAME_BYTES, 0);
            self.file.read_at(at, &mut bytes).map_err(JournalError::io(&self.name))?;
            let head = frame::peek(&bytes).filter(|head| head.frame_bytes() as u64 <= left);
            let head = head.ok_or_else(|| damaged("its frame has a wrong header"))?;
            bytes.resize(FRAME_BYTES + head.body_bytes, 0);
            self.file.read_at(at, &mut bytes).map_err(JournalError::io(&self.name))?;
            frame::parse(&bytes, self.salt)
                .filter(|head| head.first == total + 1)
                .ok_or_else(|| damaged("its checksum is wrong"))?;
            if head.count == 0 {
                return if head.durable == total { Ok(()) } else { Err(damaged("records are missing")) };
            }
            frame::records(&bytes[FRAME_BYTES..]).try_for_each(&mut *each)?;
            total += u64::from(head.count);
            at += head.frame_bytes() as u64;
        }
    }
}
