//! PUTs by the client alone: a copy, lock, WRITE, unlock. The server's processor does nothing.

use std::time::{Duration, Instant};

use remote::{AloneError, AloneOutcome, ReadError};

use crate::client::{ALONE_PATIENCE, AlonePut, unknown_outcome};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};
use crate::server::tag_of;
use crate::tasks::pause::pause;
use crate::tasks::table::AsyncKvTable;

/// The pause of a PUT that meets another writer.
const PAUSE: Duration = Duration::from_micros(50);

impl AsyncKvTable {
    /// PUTs alone. `None`: the server has to do it, and nothing has happened yet.
    ///
    /// If the future is dropped, the PUT happens as a whole or not at all, and leaves no lock.
    pub(super) async fn put_alone(
        &self,
        key: &[u8],
        value: &[u8],
        condition: PutIf,
        expiry: PutExpiry,
    ) -> Option<Result<KvVersion, KvError>> {
        let mut put = AlonePut::of(self.core.options.put, value, condition, expiry)?;
        let until = self.core.deadline();
        let mut contended = None;
        loop {
            let present = self.core.state.lock().reader.clone();
            let reader = match present {
                Some(reader) => reader,
                // A server that does not answer tells the request so, too.
                None => self.core.reader(None, until).await.ok()?,
            };
            let mut make = |header, stored: &[u8], new: &mut Vec<u8>| put.make(header, stored, new);
            match reader.table.put_alone(key, &reader.writer?, &mut make).await? {
                Ok(AloneOutcome::Updated(header)) => {
                    self.count_put(key);
                    return Some(Ok(put.updated(header)));
                }
                Ok(AloneOutcome::Contended) => {
                    let patience = *contended.get_or_insert_with(|| Instant::now() + ALONE_PATIENCE);
                    if !pause(PAUSE, patience).await {
                        return None;
                    }
                }
                Ok(AloneOutcome::Declined) => return put.declined(),
                Ok(AloneOutcome::OwnerOnly) => return None,
                // The connection is made again; until then the server does it.
                Err(AloneError::NotBegun(ReadError::Link(_))) => {
                    return self.core.reader(Some(&reader), until).await.err().map(Err);
                }
                Err(AloneError::NotBegun(error)) => return Some(Err(KvError::Read(error))),
                Err(AloneError::Unknown(error)) => {
                    self.core.lose(&reader);
                    return Some(Err(unknown_outcome(&error)));
                }
            }
        }
    }

    fn count_put(&self, key: &[u8]) {
        let mut state = self.core.state.lock();
        state.stats.one_sided_puts += 1;
        let Some(seed) = state.evicting_seed() else { return };
        state.report.touch(|| tag_of(seed, key));
        drop(state);
        self.send_due_report();
    }
}
