//! READs of lookups under way: plain ones, and those of objects at one moment.

use std::time::Duration;

use longarm::{Buffer, Failure, InFlight, ObjectRead, QueuePair, RemoteKey};

use crate::object::{ReadGrain, TornCheck};
use crate::verbs::{ReadError, ReaderOptions};

/// Bytes of an object's first word.
const WORD_BYTES: usize = 8;

/// A READ under way.
pub(super) enum LaneRead {
    Plain(InFlight<Buffer>),
    Object(InFlight<ObjectRead<Buffer>>),
}

impl LaneRead {
    /// Posts a READ; with a lock that of an object.
    pub(super) fn start(qp: &QueuePair, buffer: Buffer, from: &RemoteKey, lock: Option<u64>) -> LaneRead {
        match lock {
            None => LaneRead::Plain(qp.read(buffer, from).start()),
            Some(lock) => LaneRead::Object(qp.read_object(buffer, from, lock).start()),
        }
    }

    /// The bytes that are fed: of a busy object its first word.
    pub(super) fn wait(self, timeout: Duration) -> Result<Buffer, ReadError> {
        Ok(match self {
            LaneRead::Plain(read) => read.wait(timeout).map_err(Failure::into_error)?,
            LaneRead::Object(read) => fed(read.wait(timeout).map_err(Failure::into_error)?),
        })
    }

    /// The same, for a task.
    pub(super) async fn done(self) -> Result<Buffer, Failure> {
        match self {
            LaneRead::Plain(read) => read.await,
            LaneRead::Object(read) => read.await.map(fed),
        }
    }
}

fn fed(read: ObjectRead<Buffer>) -> Buffer {
    match read {
        ObjectRead::Whole(buffer) => buffer,
        ObjectRead::Busy(mut buffer) => {
            buffer.set_len(WORD_BYTES);
            buffer
        }
    }
}

/// READs into a buffer without a request, if that is possible; with a lock an object.
pub(super) fn read_at_once(qp: &QueuePair, from: &RemoteKey, lock: Option<u64>, buffer: &mut Buffer) -> bool {
    match lock {
        None => qp.read_now(buffer, from),
        Some(lock) => match qp.read_object_now(buffer, from, lock) {
            None => false,
            Some(ObjectRead::Whole(())) => true,
            Some(ObjectRead::Busy(())) => {
                buffer.set_len(WORD_BYTES);
                true
            }
        },
    }
}

/// Refuses a check that the READs of this queue pair cannot serve, as far as that is known. Otherwise the first READ of an
/// object tells.
pub(super) fn must_serve<C: TornCheck>(qp: &QueuePair, options: &ReaderOptions) -> Result<(), ReadError> {
    if C::NEEDS != ReadGrain::Object {
        return options.must_suffice::<C>();
    }
    let has_them = qp.protection_domain().device().capabilities().object_read && qp.peer_extends() != Some(false);
    if has_them { Ok(()) } else { Err(ReadError::NoObjectReads { check: C::NAME }) }
}
