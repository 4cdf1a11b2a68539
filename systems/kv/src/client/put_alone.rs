//! PUTs by the client alone: a copy, lock, WRITE, unlock. The server's processor does nothing.
//!
//! The server must be able to say the same of such a PUT as of its own. So it is for a key that is there and does not expire, and
//! it leaves the server's stamp as it is: the count of changes makes another version. The rest goes by request.

use remote::{AloneError, AloneOutcome, ReadError};

use crate::client::alone_steps::{ALONE_PATIENCE, AlonePut, unknown_outcome};
use crate::client::read_once::ReadFailure;
use crate::client::table::KvTable;
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};
use crate::server::tag_of;
use crate::surroundings::{instant, yield_now};

impl KvTable {
    /// True if clients of the table may PUT alone.
    pub(super) fn is_writable(&self) -> bool {
        self.session.opened().is_some_and(|opened| opened.writable)
    }

    /// PUTs alone. `None`: the server has to do it, and nothing has happened yet.
    pub(super) fn put_alone(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: PutIf,
        expiry: PutExpiry,
    ) -> Option<Result<KvVersion, KvError>> {
        let mut put = AlonePut::of(self.session.options.put, value, condition, expiry)?;
        let mut since = None;
        loop {
            let mut value_of = |header, stored: &[u8], new: &mut Vec<u8>| put.make(header, stored, new);
            match self.reader.as_mut()?.put_alone(key, &mut value_of)? {
                Ok(AloneOutcome::Updated(header)) => {
                    self.count_put(key);
                    return Some(Ok(put.updated(header)));
                }
                Ok(AloneOutcome::Contended) => {
                    if instant().duration_since(*since.get_or_insert_with(instant)) > ALONE_PATIENCE {
                        return None;
                    }
                    yield_now();
                }
                Ok(AloneOutcome::Declined) => return put.declined(),
                Ok(AloneOutcome::OwnerOnly) => return None,
                // The connection is made again; until then the server does it.
                Err(AloneError::NotBegun(error)) => {
                    let until = self.session.deadline();
                    return self.recover(ReadFailure::Read(error), until).err().map(Err);
                }
                Err(AloneError::Unknown(error)) => return Some(Err(self.lost(&error))),
            }
        }
    }

    /// A PUT that may have happened. Its connection is gone, and the next operation makes another one.
    fn lost(&mut self, error: &ReadError) -> KvError {
        self.detach();
        unknown_outcome(error)
    }

    fn count_put(&mut self, key: &[u8]) {
        self.stats.one_sided_puts += 1;
        let opened = self.session.opened().filter(|opened| opened.evicts);
        if let Some(seed) = opened.map(|opened| opened.tag_seed) {
            self.report.touch(|| tag_of(seed, key));
            self.send_due_report();
        }
    }
}
