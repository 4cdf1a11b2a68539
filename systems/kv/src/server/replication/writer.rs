//! The writer of a table as a backup uses it.

use std::ops::RangeInclusive;

use cluster::HashSlot;
use longarm_rpc::Status;

use crate::clock::now_ns;
use crate::envelope::ENVELOPE_BYTES;
use crate::server::replication::copy::CopiedValue;
use crate::server::table::{Refused, TableWriter, status_of};

impl TableWriter {
    /// Puts a value as another primary has put it, with the number of its change.
    pub(super) fn apply_put(&mut self, key: &[u8], value: &[u8], expires_ns: u64, stamp: u64) -> Result<(), Refused> {
        self.check_lengths(key, value.len() as u64).map_err(Refused::Status)?;
        let now_ns = now_ns();
        self.set_now(now_ns);
        let mut stored = vec![0; ENVELOPE_BYTES];
        stored.extend_from_slice(value);
        self.set_applying(Some(stamp));
        let done = self.store(key, &mut stored, expires_ns, now_ns);
        self.set_applying(None);
        done.map(drop)
    }

    fn set_applying(&mut self, stamp: Option<u64>) {
        if let Some(log) = &mut self.log {
            log.apply(stamp);
        }
    }

    /// Deletes a key as another primary has deleted it.
    pub(super) fn apply_delete(&mut self, key: &[u8]) -> Result<(), Status> {
        if self.has(key) { self.leave(key) } else { Ok(()) }
    }

    fn leave(&mut self, key: &[u8]) -> Result<(), Status> {
        if let Some(log) = &mut self.log {
            log.forget(key)?;
        }
        self.erase(key).inspect_err(|_| self.take_back(key))
    }

    /// Removes keys of slots that are left, from `cursor` on, about so many at a time. Returns the cursor of the rest; zero at the end.
    pub(super) fn drop_keys(
        &mut self,
        cursor: u64,
        count: usize,
        is_left: impl Fn(HashSlot) -> bool,
    ) -> Result<u64, Status> {
        let mut keys = Vec::new();
        let rest = self.directory.scan(cursor, count, |note| {
            if is_left(HashSlot::of_key(&note.key)) {
                keys.push(note.key.clone());
            }
            true
        });
        keys.iter().try_for_each(|key| self.leave(key))?;
        Ok(rest)
    }

    /// All keys of these slots.
    pub(super) fn keys_of(&self, slots: &RangeInclusive<u16>, mut each: impl FnMut(&[u8])) {
        self.directory.scan(0, usize::MAX, |note| {
            if slots.contains(&HashSlot::of_key(&note.key).number()) {
                each(&note.key);
            }
            true
        });
    }

    /// Tells keys of these slots with their values, from `cursor` on, until `each` returns false or many keys were looked at.
    /// Returns the cursor of the rest; zero at the end.
    pub(super) fn copy_from(
        &mut self,
        mut cursor: u64,
        slots: &RangeInclusive<u16>,
        mut each: impl FnMut(&[u8], CopiedValue<'_>) -> bool,
    ) -> Result<u64, Status> {
        let (mut keys, mut stored, mut looks, mut goes_on) = (Vec::new(), Vec::new(), 0, true);
        while goes_on && looks < LOOKS {
            // One bucket, which is short.
            cursor = self.directory.scan(cursor, 1, |note| {
                looks += 1;
                if slots.contains(&HashSlot::of_key(&note.key).number()) {
                    keys.push(note.key.clone());
                }
                true
            });
            for key in keys.drain(..) {
                let Some((version, envelope, value_bytes)) = self.head(&key)? else { continue };
                stored.clear();
                let found = self.owner.get_part(&key, ENVELOPE_BYTES as u64, value_bytes, &mut stored);
                found.map_err(|error| status_of(&error))?;
                let value = CopiedValue { stamp: version.stamp(), expires_ns: envelope.expires_ns, bytes: &stored };
                goes_on &= each(&key, value);
            }
            if cursor == 0 {
                break;
            }
        }
        Ok(cursor)
    }
}

/// Keys that one step of a copy looks at, about.
const LOOKS: usize = 512;
