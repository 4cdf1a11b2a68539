//! The events of the connection manager: one thread hands each to whom it concerns.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::connect::{Event, EventQueue, IdKey};
use parking_lot::Mutex;

use crate::descriptor::wait_readable;
use crate::error::ConnectError;

/// What a forked child waits for a lock that its parent may have held when it forked.
const FORK_WAIT: Duration = Duration::from_secs(5);

static DISPATCHER: Mutex<Option<Arc<Dispatcher>>> = Mutex::new(None);

/// Whom the events of an id concern.
pub(super) trait CmEventHandler: Send + Sync {
    /// Something happened to its id. Called by the dispatcher's thread, with no lock held.
    fn happened(&self, event: Event);
}

/// The queue of all connections and listeners of the process, with who they are.
pub(super) struct Dispatcher {
    pid: u32,
    queue: EventQueue,
    concerned: Mutex<HashMap<IdKey, Weak<dyn CmEventHandler>>>,
}

impl Dispatcher {
    /// That of this process, started now if there is none. A forked child has its own.
    pub(super) fn get() -> Result<Arc<Dispatcher>, ConnectError> {
        let mut place = DISPATCHER.try_lock_for(FORK_WAIT).ok_or(ConnectError::Forked)?;
        if let Some(dispatcher) = place.as_ref().filter(|dispatcher| dispatcher.is_ours()) {
            return Ok(Arc::clone(dispatcher));
        }
        let dispatcher = start()?;
        // The parent's, if there is one, is left as it is: somebody may have held its locks.
        std::mem::forget(place.replace(Arc::clone(&dispatcher)));
        Ok(dispatcher)
    }

    /// Whether this process made it, not one that it was forked from.
    pub(super) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Where ids send their events.
    pub(super) fn queue(&self) -> &EventQueue {
        &self.queue
    }

    /// Events of this id concern `whom` from now on.
    pub(super) fn enter(&self, key: IdKey, whom: Weak<dyn CmEventHandler>) {
        self.concerned.lock().insert(key, whom);
    }

    /// Its events concern nobody any more.
    pub(super) fn forget(&self, key: IdKey) {
        if self.is_ours() {
            self.concerned.lock().remove(&key);
        }
    }

    fn dispatch(&self, event: Event) {
        let key = event.listener.as_ref().unwrap_or(&event.id).key();
        let whom = self.concerned.lock().get(&key).and_then(Weak::upgrade);
        if let Some(whom) = whom {
            whom.happened(event);
        }
    }
}

fn start() -> Result<Arc<Dispatcher>, ConnectError> {
    let queue = EventQueue::new()?;
    let dispatcher = Arc::new(Dispatcher { pid: std::process::id(), queue, concerned: Mutex::default() });
    let serving = Arc::clone(&dispatcher);
    guest::spawn("longarm-connect", move || serve(&serving)).map_err(::connect::Error::from)?;
    Ok(dispatcher)
}

/// The thread: lasts as long as the process.
fn serve(dispatcher: &Dispatcher) {
    loop {
        while let Some(event) = dispatcher.queue.next() {
            dispatcher.dispatch(event);
        }
        // If the system cannot wait, look again.
        let _ = wait_readable(dispatcher.queue.fd(), Duration::MAX);
    }
}
