//! Events of the caller's own.

use std::sync::Arc;

use super::Id;
use crate::event::{EventKind, Param};
use crate::queue::{Pending, Whose};

impl Id {
    /// Puts an event of the caller's making behind those that wait, `rdma_write_cm_event(3)`. Nothing
    /// after [`destroy`](Id::destroy).
    pub fn post(&self, kind: EventKind, status: i32, param: Param) {
        let owner = self.key();
        let whose = Whose::Known(Arc::downgrade(&self.handle));
        // Under the lock that destroying takes: nothing is put behind it.
        self.look(|entry| entry.queue.push(Pending { owner, whose, kind, status, param }));
    }
}
