//! The parts of a PUT by the client alone that need no connection. Clients of one thread and those of tasks share them.

use std::time::Duration;

use longarm_rpc::{Executed, Status};
use remote::{ObjectHeader, ReadError};

use crate::client::options::{GetWay, KvOptions, PutWay};
use crate::envelope::{Envelope, KvVersion};
use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};

/// A PUT that meets other writers for so long goes by request: the server waits for them, or ends their locks.
pub(crate) const ALONE_PATIENCE: Duration = Duration::from_millis(1);

/// Refuses a way to PUT that the table, or the other settings, do not allow.
pub(crate) fn check_put_way(options: &KvOptions, is_writable: bool) -> Result<(), KvError> {
    match options.put {
        PutWay::OneSided if options.get != GetWay::OneSided => {
            Err(KvError::Invalid("a client that PUTs alone also GETs alone".into()))
        }
        PutWay::OneSided if !is_writable => {
            Err(KvError::Invalid("the table is not writable: its clients cannot PUT alone".into()))
        }
        _ => Ok(()),
    }
}

/// A PUT whose outcome nobody but the server knows.
pub(crate) fn unknown_outcome(error: &ReadError) -> KvError {
    KvError::Server(Status::unavailable(error.to_string()).with_executed(Executed::Unknown))
}

/// A PUT that the client carries out alone.
pub(crate) struct AlonePut<'v> {
    value: &'v [u8],
    condition: PutIf,
    stamp: u64,
    conflict: Option<KvVersion>,
}

impl<'v> AlonePut<'v> {
    /// `None`: the client does not want it, or only the server can do it.
    pub(crate) fn of(way: PutWay, value: &'v [u8], condition: PutIf, expiry: PutExpiry) -> Option<AlonePut<'v>> {
        let is_wanted = way == PutWay::OneSided
            && condition != PutIf::Absent
            && matches!(expiry, PutExpiry::Never | PutExpiry::Keep);
        is_wanted.then_some(AlonePut { value, condition, stamp: 0, conflict: None })
    }

    /// Makes the stored bytes from those that are there. False declines: the condition is not met, or the key expires.
    pub(crate) fn make(&mut self, header: ObjectHeader, stored: &[u8], new: &mut Vec<u8>) -> bool {
        self.conflict = None;
        let Some((envelope, _)) = Envelope::split(stored).filter(|(envelope, _)| envelope.expires_ns == 0) else {
            return false;
        };
        let present = KvVersion::new(envelope.stamp, header);
        if matches!(self.condition, PutIf::Version(wanted) if wanted != present) {
            self.conflict = Some(present);
            return false;
        }
        self.stamp = envelope.stamp;
        new.extend_from_slice(&Envelope { expires_ns: 0, stamp: self.stamp }.to_bytes());
        new.extend_from_slice(self.value);
        true
    }

    /// The version after the update.
    pub(crate) fn updated(&self, header: ObjectHeader) -> KvVersion {
        KvVersion::new(self.stamp, header)
    }

    /// The answer to a PUT that was declined; `None` if the server has to do it.
    pub(crate) fn declined(&self) -> Option<Result<KvVersion, KvError>> {
        self.conflict.map(|present| Err(KvError::Conflict(Some(present))))
    }
}
