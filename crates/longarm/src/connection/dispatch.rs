//! The events of the connection manager: one thread hands each to its handler.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::connect::IdKey;
use device::Provider;
use parking_lot::Mutex;
use provider::cm::{Event, EventQueue};

use crate::descriptor::wait_readable;
use crate::error::ConnectError;

/// The time for which a forked child waits for a lock that its parent may have held at the fork.
const FORK_WAIT: Duration = Duration::from_secs(5);

/// The dispatchers of the process, one for each provider that it uses.
static DISPATCHERS: [Mutex<Option<Arc<Dispatcher>>>; 2] = [Mutex::new(None), Mutex::new(None)];

/// The receiver of an id's events.
pub(super) trait CmEventHandler: Send + Sync {
    /// Handles one event. The dispatcher's thread calls this with no lock held.
    fn handle(&self, event: Event);
}

/// The event queue of all connections and listeners that the process has with one provider, and their handlers.
pub(super) struct Dispatcher {
    pid: u32,
    queue: EventQueue,
    handlers: Mutex<HashMap<IdKey, Weak<dyn CmEventHandler>>>,
}

impl Dispatcher {
    /// The dispatcher of this process for one provider; the first call starts it. A forked child has its own.
    pub(super) fn get(provider: Provider) -> Result<Arc<Dispatcher>, ConnectError> {
        let mut place = DISPATCHERS[provider as usize].try_lock_for(FORK_WAIT).ok_or(ConnectError::Forked)?;
        if let Some(dispatcher) = place.as_ref().filter(|dispatcher| dispatcher.is_ours()) {
            return Ok(Arc::clone(dispatcher));
        }
        let dispatcher = start(provider)?;
        // A parent's dispatcher is never dropped: a thread may have held its locks at the fork.
        std::mem::forget(place.replace(Arc::clone(&dispatcher)));
        Ok(dispatcher)
    }

    /// True if this process made it, not one that it was forked from.
    pub(super) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// The queue that ids send their events to.
    pub(super) fn queue(&self) -> &EventQueue {
        &self.queue
    }

    /// Registers the handler for the events of an id.
    pub(super) fn enter(&self, key: IdKey, handler: Weak<dyn CmEventHandler>) {
        self.handlers.lock().insert(key, handler);
    }

    /// Removes the handler of an id.
    pub(super) fn forget(&self, key: IdKey) {
        if self.is_ours() {
            self.handlers.lock().remove(&key);
        }
    }

    fn dispatch(&self, event: Event) {
        let key = event.listener.as_ref().unwrap_or(&event.id).key();
        let handler = self.handlers.lock().get(&key).and_then(Weak::upgrade);
        if let Some(handler) = handler {
            handler.handle(event);
        }
    }
}

fn start(provider: Provider) -> Result<Arc<Dispatcher>, ConnectError> {
    let queue = EventQueue::new(provider)?;
    let dispatcher = Arc::new(Dispatcher { pid: std::process::id(), queue, handlers: Mutex::default() });
    let serving = Arc::clone(&dispatcher);
    guest::spawn("longarm-connect", move || serve(&serving)).map_err(::connect::Error::from)?;
    Ok(dispatcher)
}

/// The thread's loop. It lasts as long as the process.
fn serve(dispatcher: &Dispatcher) {
    loop {
        while let Some(event) = dispatcher.queue.next() {
            dispatcher.dispatch(event);
        }
        // If the wait fails, the next round polls the queue again.
        let _ = wait_readable(dispatcher.queue.fd(), Duration::MAX);
    }
}
