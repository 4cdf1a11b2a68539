//! PUTs by the client alone: a copy, lock, WRITE, unlock. The server's processor does nothing.
//!
//! The server must be able to say the same of such a PUT as of its own. So it is for a key that is there and does not expire, and
//! it leaves the server's stamp as it is: the count of changes makes another version. The rest goes by request.

use std::time::{Duration, Instant};

use longarm_rpc::{Executed, Status};
use remote::{AloneError, AloneOutcome, ReadError};

use crate::client::get::ReadFailure;
use crate::client::options::{GetWay, PutWay};
use crate::client::table::KvTable;
use crate::envelope::{Envelope, KvVersion};
use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};
use crate::server::tag_of;

/// A PUT that meets other writers for so long goes by request: the server waits for them, or ends their locks.
const PATIENCE: Duration = Duration::from_millis(1);

impl KvTable {
    /// Refuses a way that the table, or the other settings, do not allow.
    pub(super) fn check_put_way(&self) -> Result<(), KvError> {
        let (options, why) = (&self.session.options, "a client that PUTs alone also GETs alone");
        match options.put {
            PutWay::OneSided if options.get != GetWay::OneSided => Err(KvError::Invalid(why.into())),
            PutWay::OneSided if !self.is_writable() => {
                Err(KvError::Invalid("the table is not writable: its clients cannot PUT alone".into()))
            }
            _ => Ok(()),
        }
    }

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
        let is_wanted = self.session.options.put == PutWay::OneSided
            && condition != PutIf::Absent
            && matches!(expiry, PutExpiry::Never | PutExpiry::Keep);
        if !is_wanted {
            return None;
        }
        let mut since = None;
        loop {
            let (mut stamp, mut conflict) = (0, None);
            let mut value_of = |header, stored: &[u8], new: &mut Vec<u8>| {
                let Some((envelope, _)) = Envelope::split(stored).filter(|(envelope, _)| envelope.expires_ns == 0)
                else {
                    return false;
                };
                let present = KvVersion::new(envelope.stamp, header);
                if matches!(condition, PutIf::Version(wanted) if wanted != present) {
                    conflict = Some(present);
                    return false;
                }
                stamp = envelope.stamp;
                new.extend_from_slice(&Envelope { expires_ns: 0, stamp }.to_bytes());
                new.extend_from_slice(value);
                true
            };
            match self.reader.as_mut()?.put_alone(key, &mut value_of)? {
                Ok(AloneOutcome::Updated(header)) => {
                    self.count_put(key);
                    return Some(Ok(KvVersion::new(stamp, header)));
                }
                Ok(AloneOutcome::Contended) => {
                    if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        return None;
                    }
                    std::thread::yield_now();
                }
                Ok(AloneOutcome::Declined) => return conflict.map(|present| Err(KvError::Conflict(Some(present)))),
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
        KvError::Server(Status::unavailable(error.to_string()).with_executed(Executed::Unknown))
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
