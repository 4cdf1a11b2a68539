//! Operations of a call, which commands are made of. All changes go through these, so that clients that watch keys learn of them.

use longarm_kv::{LocalPut, PutExpiry, PutIf};

use crate::commands::Outcome;
use crate::door::RespCall;
use crate::error::CommandError;
use crate::number::Digits;

impl RespCall<'_, '_> {
    /// Replies with a value, or with none. Returns true if the key is there.
    pub(crate) fn reply_value(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        if self.client.reply.is_too_long() {
            self.client.is_killed = true;
            return Err(CommandError::words("ERR the replies are too long"));
        }
        let found = self.table.get(key, &mut self.client.reply.bytes, |len_bytes, head| {
            let digits = Digits::of(len_bytes as i64);
            let digits = digits.as_bytes();
            head[0] = b'$';
            head[1..=digits.len()].copy_from_slice(digits);
            head[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
            digits.len() + 3
        })?;
        match found {
            Some(_) => self.client.reply.bytes.extend_from_slice(b"\r\n"),
            None => self.client.reply.null(),
        }
        Ok(found.is_some())
    }

    /// A whole value.
    pub(crate) fn value(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CommandError> {
        let mut value = Vec::new();
        let found = self.table.get(key, &mut value, |_, _| 0)?;
        Ok(found.map(|_| value))
    }

    /// Puts a value whatever was there.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], expiry: PutExpiry) -> Outcome {
        self.put_if(key, value, PutIf::Always, expiry)?;
        Ok(())
    }

    /// Puts a value if the key is in that state. Returns false if it is not.
    pub(crate) fn put_if(
        &mut self,
        key: &[u8],
        value: &[u8],
        when: PutIf,
        expiry: PutExpiry,
    ) -> Result<bool, CommandError> {
        match self.table.put(key, value, when, expiry)? {
            LocalPut::Stored { .. } => {
                self.door.changed(key, self.client);
                Ok(true)
            }
            LocalPut::Conflict(_) => Ok(false),
        }
    }

    /// Puts a value that expires at a time of the day.
    pub(crate) fn put_until(&mut self, key: &[u8], value: &[u8], at_ms: i64) -> Outcome {
        match self.door.clock.until_ns(at_ms, self.table.now_ns()) {
            Some(ns) => self.put(key, value, PutExpiry::AfterNs(ns)),
            None => self.remove(key).map(drop),
        }
    }

    /// Lets a key expire at a time of the day.
    pub(crate) fn expire_at(&mut self, key: &[u8], at_ms: i64) -> Outcome {
        match self.door.clock.until_ns(at_ms, self.table.now_ns()) {
            Some(ns) => self.expire(key, PutExpiry::AfterNs(ns)),
            None => self.remove(key).map(drop),
        }
    }

    /// Gives a key another expiry.
    pub(crate) fn expire(&mut self, key: &[u8], expiry: PutExpiry) -> Outcome {
        if self.table.expire(key, expiry)? {
            self.door.changed(key, self.client);
        }
        Ok(())
    }

    /// Removes a key. Returns true if it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        let was_there = self.table.delete(key)?;
        if was_there {
            self.door.changed(key, self.client);
        }
        Ok(was_there)
    }
}
