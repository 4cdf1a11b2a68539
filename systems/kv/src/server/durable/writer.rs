//! The writer of a table that is kept on disk: what restoring and snapshots need of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longarm_rpc::Status;

use crate::clock::now_ns;
use crate::envelope::ENVELOPE_BYTES;
use crate::protocol::PIECE_BYTES;
use crate::server::changes::ChangeLog;
use crate::server::table::{Refused, TableWriter, status_of};

/// The pause before freed blocks are asked for again.
const PAUSE: Duration = Duration::from_millis(2);

/// A key's value, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeekedValue {
    pub(crate) stamp: u64,
    pub(crate) expires_ns: u64,
    pub(crate) value_bytes: u64,
}

impl TableWriter {
    /// From now on changes go to this log. Counts begin anew.
    pub(crate) fn begin_logging(&mut self, log: Box<dyn ChangeLog>) {
        self.log = Some(log);
        for counter in [&self.counts.puts, &self.counts.evicted] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Lets go of the log. Nobody changes the table any more.
    pub(crate) fn end_logging(&mut self) {
        self.log = None;
    }

    /// True if the key is there, whether its time is over or not.
    pub(crate) fn has(&mut self, key: &[u8]) -> bool {
        self.directory.find(key).is_some()
    }

    /// Puts a value that was on disk. No client is there yet. The log that is set then tells the stamp that the value had.
    pub(crate) fn load(&mut self, key: &[u8], value: &[u8], expires_ns: u64) -> Result<(), Status> {
        self.check_lengths(key, value.len() as u64)?;
        let mut stored = vec![0; ENVELOPE_BYTES];
        stored.extend_from_slice(value);
        loop {
            match self.store(key, &mut stored, expires_ns, now_ns()) {
                Ok(_) => return Ok(()),
                Err(Refused::Status(status)) => return Err(status),
                // Freed blocks wait, as if there were readers.
                Err(Refused::Later) => {
                    std::thread::sleep(PAUSE);
                    self.owner.set_now(now_ns());
                }
            }
        }
    }

    /// Removes a key, as [`load`](TableWriter::load) puts one.
    pub(crate) fn unload(&mut self, key: &[u8]) -> Result<(), Status> {
        self.erase(key)
    }

    /// Appends up to [`PIECE_BYTES`] of a value to `out`, from `from` on. It is no use of the key.
    pub(crate) fn peek(&mut self, key: &[u8], from: u64, out: &mut Vec<u8>) -> Result<Option<PeekedValue>, Status> {
        let Some((version, envelope, value_bytes)) = self.head(key)? else { return Ok(None) };
        let at = ENVELOPE_BYTES as u64 + from.min(value_bytes);
        self.owner.get_part(key, at, PIECE_BYTES as u64, out).map_err(|error| status_of(&error))?;
        Ok(Some(PeekedValue { stamp: version.stamp(), expires_ns: envelope.expires_ns, value_bytes }))
    }
}
