//! Events that a program has fetched and not acknowledged yet.

use parking_lot::{Condvar, Mutex};

/// Events about an object that a program has fetched and not acknowledged: destroying the
/// object waits for them, as `ibv_get_async_event(3)` says.
#[derive(Default)]
pub(crate) struct Unacked {
    count: Mutex<u32>,
    none: Condvar,
}

impl Unacked {
    pub(crate) fn fetched(&self) {
        *self.count.lock() += 1;
    }

    pub(crate) fn acknowledged(&self) {
        let mut count = self.count.lock();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.none.notify_all();
        }
    }

    /// Waits until all are acknowledged.
    pub(crate) fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.none.wait(&mut count);
        }
    }
}
