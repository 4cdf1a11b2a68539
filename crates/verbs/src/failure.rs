//! Errors of C's calls, and the first failure of each queue pair.

use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use device::{Error, OpenError};
use parking_lot::Mutex;
use transport::{Reason, Status};

use crate::library::LoadError;

/// The error of a call that returned null or -1, by `errno`.
pub(crate) fn last(call: &'static str) -> Error {
    Error::Call { call, error: io::Error::last_os_error() }
}

/// The result of a call that returns zero or an errno. Old providers return -1 and set `errno`, siw the negative errno.
pub(crate) fn check(call: &'static str, returned: c_int) -> Result<(), Error> {
    match returned {
        0 => Ok(()),
        -1 => Err(last(call)),
        errno => Err(Error::Call { call, error: io::Error::from_raw_os_error(errno.saturating_abs()) }),
    }
}

pub(crate) fn not_loaded(error: LoadError) -> OpenError {
    OpenError::Library(error.to_string())
}

/// The first failure of one queue pair.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure {
    reason: OnceLock<Reason>,
    /// Whether requests were flushed. A device that names no cause (Linux siw) only does this.
    has_flushed: AtomicBool,
}

impl FirstFailure {
    /// Notes a failure, unless one was noted before.
    pub(crate) fn note(&self, reason: Reason) {
        let _ = self.reason.set(reason);
    }

    pub(crate) fn get(&self) -> Option<Reason> {
        let by_device = || self.has_flushed.load(Relaxed).then_some(Reason::Device);
        self.reason.get().copied().or_else(by_device)
    }
}

/// Where completions report the failures of queue pairs, by number.
#[derive(Debug, Default)]
pub(crate) struct FailureTable {
    queue_pairs: Mutex<HashMap<u32, Weak<FirstFailure>>>,
}

impl FailureTable {
    pub(crate) fn enter(&self, qpn: u32) -> Arc<FirstFailure> {
        let failure = Arc::new(FirstFailure::default());
        self.queue_pairs.lock().insert(qpn, Arc::downgrade(&failure));
        failure
    }

    /// Forgets a queue pair, unless its number has a new owner.
    pub(crate) fn leave(&self, qpn: u32, failure: &Arc<FirstFailure>) {
        let mut queue_pairs = self.queue_pairs.lock();
        if queue_pairs.get(&qpn).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(failure))) {
            queue_pairs.remove(&qpn);
        }
    }

    /// Notes the status of a failed work request. Flushed ones are consequences, not causes.
    pub(crate) fn report(&self, qpn: u32, status: Status, vendor_err: u32) {
        let Some(failure) = self.queue_pairs.lock().get(&qpn).and_then(Weak::upgrade) else { return };
        match status {
            Status::WorkRequestFlushed => failure.has_flushed.store(true, Relaxed),
            _ => failure.note(Reason::Reported { status, vendor_err }),
        }
    }
}
