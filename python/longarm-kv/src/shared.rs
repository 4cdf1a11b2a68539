//! One client that the threads of a program share.

use longarm_kv::{KvError, KvTable};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::{ClosedError, exception};

/// A client that threads share: one operates at a time. None holds the interpreter's lock while it waits.
pub(crate) struct SharedTable {
    open: Mutex<Option<KvTable>>,
    /// The process that opened it. The threads of the device do not exist in a process that was forked.
    process: u32,
}

impl SharedTable {
    pub(crate) fn new(table: KvTable) -> SharedTable {
        SharedTable { open: Mutex::new(Some(table)), process: std::process::id() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open.lock().is_none()
    }

    /// Ends the client; also in a process that was forked, where nothing may be sent.
    pub(crate) fn close(&self, py: Python<'_>) {
        let closed = py.detach(|| self.open.lock().take());
        if std::process::id() == self.process {
            py.detach(|| drop(closed));
        } else {
            std::mem::forget(closed);
        }
    }

    /// Does something with the client, without the interpreter's lock.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        operate: impl FnOnce(&mut KvTable) -> Result<T, KvError> + Send,
    ) -> PyResult<T> {
        if std::process::id() != self.process {
            return Err(ClosedError::new_err("the table was opened before this process was forked: open another one"));
        }
        let done = py.detach(|| self.open.lock().as_mut().map(operate));
        match done {
            None => Err(ClosedError::new_err("the table was closed")),
            Some(Err(error)) => Err(exception(py, error)),
            Some(Ok(value)) => Ok(value),
        }
    }
}

impl Drop for SharedTable {
    fn drop(&mut self) {
        Python::attach(|py| self.close(py));
    }
}
