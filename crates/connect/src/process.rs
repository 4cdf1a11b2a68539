//! The one instance of a process: its session with the hub, its ids and its thread. It ends with the last id,
//! and with the last [`SessionHold`].

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hub::client::AttachOptions;
use hub::client::manager::manage;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::connections::{Connections, IdKey, Notice};
use crate::error::Error;
use crate::event_queue::{EventId, EventQueue, QueuedEvent};
use crate::id::{Id, IdHandle};
use crate::injected_faults::InjectedFaults;
use crate::takeover;

/// The time that a forked child waits for the instance's place, which its parent may have locked.
const FORK_WAIT: Duration = Duration::from_secs(20);
/// The time that it waits for the other locks.
const LOCK_WAIT: Duration = Duration::from_secs(1);

static PROCESS: Mutex<Option<Weak<ProcessGuard>>> = Mutex::new(None);

/// Everything that the ids of a process share.
pub(crate) struct ProcessInstance {
    /// The process that made it, or the child that has taken it over.
    pid: AtomicU32,
    state: Mutex<ProcessState>,
    /// Ids whose last handle is gone.
    dropped: Mutex<Vec<IdKey>>,
    /// Wakes the thread.
    wake: OwnedFd,
    stop: AtomicBool,
    guard: OnceLock<Weak<ProcessGuard>>,
}

/// The state behind the lock.
pub(crate) struct ProcessState {
    pub(crate) connections: Connections,
    /// The owner of each id's events.
    owners: HashMap<IdKey, IdOwner>,
    /// Dropped after the lock is released, as they may hold the last handle of an id.
    garbage: Vec<Garbage>,
}

/// The handle and the queue of an id.
struct IdOwner {
    handle: Weak<IdHandle>,
    queue: EventQueue,
}

/// Something that may hold the last handle of an id.
enum Garbage {
    Events(#[allow(dead_code, reason = "it is only dropped")] Vec<QueuedEvent>),
    Handle(#[allow(dead_code, reason = "it is only dropped")] Arc<IdHandle>),
}

impl ProcessState {
    /// The queue for an id's events.
    pub(crate) fn queue(&self, key: IdKey) -> Option<&EventQueue> {
        self.owners.get(&key).map(|owner| &owner.queue)
    }

    /// Gives an id its first handle.
    pub(crate) fn enter(&mut self, process: ProcessRef, key: IdKey, queue: EventQueue) -> Id {
        let handle = Arc::new(IdHandle::new(process, key));
        let id = self.connections.get_mut(key).expect("the id was just added");
        id.unfetched = handle.unfetched();
        self.owners.insert(key, IdOwner { handle: Arc::downgrade(&handle), queue });
        Id::of(handle)
    }

    /// Moves an id's events to another queue, and with them the new ids of its connect requests.
    pub(crate) fn migrate(&mut self, key: IdKey, queue: &EventQueue) {
        let Some(owner) = self.owners.get_mut(&key) else { return };
        let old = std::mem::replace(&mut owner.queue, queue.clone());
        let moved = old.take_of(key);
        let new: Vec<IdKey> = moved.iter().filter_map(QueuedEvent::new_id).collect();
        moved.into_iter().for_each(|event| queue.push(event));
        new.into_iter().for_each(|key| self.migrate(key, queue));
    }

    /// Forgets an id, drops its events, and ends its connection.
    pub(crate) fn destroy(&mut self, key: IdKey) {
        if let Some(owner) = self.owners.remove(&key) {
            self.garbage.push(Garbage::Events(owner.queue.take_of(key)));
        }
        self.connections.destroy(key);
    }

    /// Sends messages, and queues the events that the callers should hear.
    fn settle(&mut self) {
        self.connections.settle();
        while let Some(notice) = self.connections.next_notice() {
            self.deliver(notice);
        }
    }

    fn deliver(&mut self, Notice { owner: key, new_id, event: details }: Notice) {
        let Some(owner) = self.owners.get(&key) else { return new_id.into_iter().for_each(|id| self.abandon(id)) };
        let (queue, handle) = (owner.queue.clone(), owner.handle.clone());
        let id = match new_id {
            None => EventId::Known(handle),
            Some(new_id) => {
                let Some(listener) = handle.upgrade() else { return self.abandon(new_id) };
                let id = self.enter(listener.process().clone(), new_id, queue.clone());
                self.garbage.push(Garbage::Handle(listener));
                EventId::New { id, listener: handle }
            }
        };
        queue.push(QueuedEvent { owner: key, id, details });
    }

    /// The listener of a new id was dropped before it could hear of the request.
    fn abandon(&mut self, new_id: IdKey) {
        self.connections.destroy(new_id);
        self.connections.settle();
    }
}

/// A counted reference to the instance. With the last one the thread ends, and the session with the hub.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRef(Arc<ProcessGuard>);

/// Keeps this process's session with the hub while there is no id: the next id needs no new one.
#[derive(Clone, Debug)]
pub struct SessionHold(#[allow(dead_code, reason = "it only keeps the session")] ProcessRef);

#[derive(Debug)]
struct ProcessGuard {
    process: Arc<ProcessInstance>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for ProcessInstance {
    /// Without the state: every id prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessInstance").field("pid", &self.pid.load(SeqCst)).finish_non_exhaustive()
    }
}

impl ProcessInstance {
    fn is_ours(&self) -> bool {
        self.pid.load(SeqCst) == std::process::id()
    }

    /// Whether the instance is this process's, maybe since this call: a child takes over from a parent that has
    /// ended.
    fn is_usable(&self) -> bool {
        self.is_ours() || self.take_over().is_some()
    }

    /// Locks the state, to read it.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, ProcessState>, Error> {
        if self.is_usable() { Ok(self.state.lock()) } else { Err(Error::Forked) }
    }

    /// Changes the state, then sends messages and queues events.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut ProcessState) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.lock()?;
        let before = state.connections.next_wake();
        let result = change(&mut state);
        self.finish(state, before);
        result
    }

    /// Ends an id. A forked child has none to end.
    pub(crate) fn destroy(&self, key: IdKey) {
        if self.is_ours() {
            let _ = self.change(|state| {
                state.destroy(key);
                Ok(())
            });
        }
    }

    /// The last handle of an id is gone, maybe while this very thread has the state locked.
    pub(crate) fn drop_id(&self, key: IdKey) {
        if !self.is_ours() {
            return;
        }
        self.dropped.lock().push(key);
        match self.state.try_lock() {
            Some(state) => {
                let before = state.connections.next_wake();
                self.finish(state, before);
            }
            None => self.wake(),
        }
    }

    /// Ends the dropped ids, then sends messages and queues events.
    fn settle(&self, state: &mut ProcessState) {
        for key in std::mem::take(&mut *self.dropped.lock()) {
            state.destroy(key);
        }
        state.settle();
    }

    /// Settles, wakes the thread if it has something to do earlier than `before`, and unlocks.
    fn finish(&self, mut state: MutexGuard<'_, ProcessState>, before: Option<Duration>) {
        self.settle(&mut state);
        let connections = &mut state.connections;
        let is_earlier = connections.next_wake().is_some_and(|now| before.is_none_or(|before| now < before));
        if is_earlier || connections.take_needs_maintenance() {
            self.wake();
        }
        let garbage = std::mem::take(&mut state.garbage);
        drop(state);
        drop(garbage);
    }

    fn wake(&self) {
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// One round of the thread: the hub's messages, timers, dropped ids. Returns the time until the next.
    fn round(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        state.connections.maintain();
        self.settle(&mut state);
        let connections = &state.connections;
        let wait = connections.next_wake().map(|at| at.saturating_sub(connections.now()));
        let garbage = std::mem::take(&mut state.garbage);
        drop(state);
        drop(garbage);
        wait
    }

    /// A child takes the instance over from its parent. `None` if the parent lives, or something is missing.
    fn take_over(&self) -> Option<()> {
        let parent = self.pid.load(SeqCst);
        if !takeover::has_ended(parent) {
            return None;
        }
        let guard = self.guard.get()?.upgrade()?;
        let mut state = self.state.try_lock_for(LOCK_WAIT)?;
        if !takeover::reattach(&mut state.connections) {
            return None;
        }
        let session = guest::copy(state.connections.session_mut().poll_fd()).ok()?;
        self.pid.store(std::process::id(), SeqCst);
        takeover::record(parent);
        drop(state);
        let thread = spawn(Arc::clone(&guard.process), session).ok()?;
        // The parent's thread is not in this process.
        std::mem::forget(guard.thread.lock().replace(thread));
        log::info!("took over the objects of process {parent}");
        Some(())
    }
}

/// Takes over the objects of a parent that has ended, if this process is its child. Returns whether the objects are
/// this process's.
pub fn take_over() -> bool {
    let process = PROCESS.try_lock_for(LOCK_WAIT).and_then(|place| place.as_ref()?.upgrade());
    let Some(guard) = process else { return false };
    let is_usable = guard.process.is_usable();
    if !is_usable {
        // The instance is the parent's to end.
        std::mem::forget(guard);
    }
    is_usable
}

impl ProcessRef {
    /// The instance, started if there is none. A forked child starts its own.
    pub(crate) fn get() -> Result<ProcessRef, Error> {
        let mut place = PROCESS.try_lock_for(FORK_WAIT).ok_or(Error::Forked)?;
        let known = place.as_ref().and_then(Weak::upgrade).map(ProcessRef);
        match known {
            Some(process) if process.is_usable() => return Ok(process),
            // The instance is the parent's to end.
            Some(parents) => std::mem::forget(parents),
            None => {}
        }
        let process = start().inspect_err(log_once)?;
        *place = Some(Arc::downgrade(&process.0));
        Ok(process)
    }

    /// A reference for the caller.
    pub(crate) fn hold(&self) -> SessionHold {
        SessionHold(self.clone())
    }
}

impl Deref for ProcessRef {
    type Target = ProcessInstance;

    fn deref(&self) -> &ProcessInstance {
        &self.0.process
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().take();
        if !self.process.is_ours() {
            // The session is the parent's to end, and the thread is not in this process.
            std::mem::forget((self.process.clone(), thread));
            return;
        }
        self.process.stop.store(true, SeqCst);
        self.process.wake();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends immediately, unless the hub makes it wait to send its last messages.
            let _ = thread.join();
        }
    }
}

/// Logs the first error: programs print no more than an errno.
fn log_once(error: &Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| log::error!("{error}"));
}

fn start() -> Result<ProcessRef, Error> {
    let faults = InjectedFaults::of_environment()?;
    let session = manage(&AttachOptions::default())?;
    let session_fd = guest::copy(session.poll_fd())?;
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let wake = guest::high(wake);
    let connections = Connections::new(session, faults, Instant::now());
    let process = Arc::new(ProcessInstance {
        pid: AtomicU32::new(std::process::id()),
        state: Mutex::new(ProcessState { connections, owners: HashMap::new(), garbage: Vec::new() }),
        dropped: Mutex::default(),
        wake,
        stop: AtomicBool::new(false),
        guard: OnceLock::new(),
    });
    let serving = Arc::clone(&process);
    let guard = Arc::new(ProcessGuard { process, thread: Mutex::default() });
    guard.process.guard.set(Arc::downgrade(&guard)).expect("the instance is new");
    *guard.thread.lock() = Some(spawn(serving, session_fd)?);
    Ok(ProcessRef(guard))
}

fn spawn(process: Arc<ProcessInstance>, session: OwnedFd) -> std::io::Result<JoinHandle<()>> {
    guest::spawn("longarm-cm", move || serve(&process, &session))
}

/// The thread.
fn serve(process: &ProcessInstance, session: &OwnedFd) {
    while !process.stop.load(SeqCst) {
        let timeout = process.round().map(|wait| {
            // A little late rather than a little early.
            let wait = wait + Duration::from_micros(100);
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() }
        });
        let mut fds = [PollFd::new(session, PollFlags::IN), PollFd::new(&process.wake, PollFlags::IN)];
        if poll(&mut fds, timeout.as_ref()).is_err() {
            continue;
        }
        if fds[1].revents().contains(PollFlags::IN) {
            let _ = rustix::io::read(process.wake.as_fd(), &mut [0; 8]);
        }
    }
    // Ends the ids that were dropped while the state was locked.
    process.round();
}
