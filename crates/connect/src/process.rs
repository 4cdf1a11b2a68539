//! The one instance of a process: its session with the hub, its thread. It ends with the last id, and with the last
//! [`Hold`] on it.

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

use crate::error::Error;
use crate::id::IdKey;
use crate::state::State;
use crate::unreliable::Unreliable;

/// What a child waits for a lock that its parent may have held when it forked.
const FORK_WAIT: Duration = Duration::from_secs(20);

pub(crate) mod takeover;

static PROCESS: Mutex<Option<Weak<Guard>>> = Mutex::new(None);

/// Everything that the ids of a process share.
pub(crate) struct Process {
    /// Whose it is: of the process that made it, or of the child that took it over.
    pid: AtomicU32,
    state: Mutex<State>,
    /// Ids whose last handle went while the state was in use.
    dropped: Mutex<Vec<IdKey>>,
    /// Wakes the thread.
    wake: OwnedFd,
    stop: AtomicBool,
    guard: OnceLock<Weak<Guard>>,
}

/// A counted hold on the instance. With the last one the thread ends, and the session with the hub.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRef(Arc<Guard>);

/// Keeps this process's session with the hub while there is no id: the next id needs no new one.
#[derive(Clone, Debug)]
pub struct Hold(#[allow(dead_code, reason = "it holds, that is all")] ProcessRef);

#[derive(Debug)]
struct Guard {
    process: Arc<Process>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Process {
    /// Without the state: every id prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid.load(SeqCst)).finish_non_exhaustive()
    }
}

impl Process {
    /// A hold on it for a new id; none if it is about to end.
    pub(crate) fn hold(&self) -> Option<ProcessRef> {
        self.guard.get().and_then(Weak::upgrade).map(ProcessRef)
    }

    fn is_ours(&self) -> bool {
        self.pid.load(SeqCst) == std::process::id()
    }

    /// The state, to look at.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        if self.is_ours() || takeover::attempt(self) { Ok(self.state.lock()) } else { Err(Error::Forked) }
    }

    /// Changes the state and sees to what follows from it: messages, events, timers, wills.
    pub(crate) fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.lock()?;
        let before = state.next_wake();
        let result = change(&mut state);
        self.finish(state, before);
        result
    }

    /// Ends an id.
    pub(crate) fn destroy(self: &Arc<Self>, key: IdKey) {
        // A child of a fork has nothing to end.
        if !self.is_ours() {
            return;
        }
        let _ = self.change(|state| {
            state.destroy(key);
            Ok(())
        });
    }

    /// The last handle of an id is gone, maybe while the state is locked by this very thread.
    pub(crate) fn drop_id(self: &Arc<Self>, key: IdKey) {
        if !self.is_ours() {
            return;
        }
        self.dropped.lock().push(key);
        match self.state.try_lock() {
            Some(state) => {
                let before = state.next_wake();
                self.finish(state, before);
            }
            None => self.wake(),
        }
    }

    /// Ends what was dropped and carries out what was decided.
    fn settle(self: &Arc<Self>, state: &mut State) {
        for key in std::mem::take(&mut *self.dropped.lock()) {
            state.destroy(key);
        }
        state.settle(self);
    }

    /// Settles, wakes the thread if it would sleep longer than it should now, and unlocks.
    fn finish(self: &Arc<Self>, mut state: MutexGuard<'_, State>, before: Option<Duration>) {
        self.settle(&mut state);
        let sooner = state.next_wake().is_some_and(|now| before.is_none_or(|before| now < before));
        if sooner || state.take_unsettled() {
            self.wake();
        }
        let rubbish = state.take_rubbish();
        drop(state);
        drop(rubbish);
    }

    fn wake(&self) {
        // A full counter wakes as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// One round of the thread: what the hub sent, timers, dropped ids.
    fn round(self: &Arc<Self>) -> Option<Duration> {
        let mut state = self.state.lock();
        state.maintain(self);
        self.settle(&mut state);
        let wait = state.next_wake().map(|at| at.saturating_sub(state.now()));
        let rubbish = state.take_rubbish();
        drop(state);
        drop(rubbish);
        wait
    }
}

impl ProcessRef {
    /// The instance, started now if there is none. A forked child begins afresh.
    pub(crate) fn get() -> Result<ProcessRef, Error> {
        let mut place = PROCESS.try_lock_for(FORK_WAIT).ok_or(Error::Forked)?;
        let known = place.as_ref().and_then(Weak::upgrade).map(ProcessRef);
        match known {
            Some(process) if process.is_ours() || takeover::attempt(&process) => return Ok(process),
            // The parent's is left as it is: its session is not ours to end.
            Some(parents) => std::mem::forget(parents),
            None => {}
        }
        let process = start().inspect_err(complain)?;
        *place = Some(Arc::downgrade(&process.0));
        Ok(process)
    }

    /// A hold that outlives ids.
    pub(crate) fn keep(&self) -> Hold {
        Hold(self.clone())
    }
}

impl Deref for ProcessRef {
    type Target = Arc<Process>;

    fn deref(&self) -> &Arc<Process> {
        &self.0.process
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().take();
        if !self.process.is_ours() {
            // The parent's: its session is not ours to end, and the thread is not here.
            std::mem::forget((self.process.clone(), thread));
            return;
        }
        self.process.stop.store(true, SeqCst);
        self.process.wake();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends at once, unless the hub makes it wait for its last words.
            let _ = thread.join();
        }
    }
}

/// Says once why nothing works: programs print no more than an errno.
fn complain(error: &Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| log::error!("{error}"));
}

fn start() -> Result<ProcessRef, Error> {
    let unreliable = Unreliable::of_environment()?;
    let session = manage(&AttachOptions::default())?;
    let watched = guest::copy(session.poll_fd())?;
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let wake = guest::high(wake);
    let state = State::new(session, unreliable, Instant::now());
    let process = Arc::new(Process {
        pid: AtomicU32::new(std::process::id()),
        state: Mutex::new(state),
        dropped: Mutex::default(),
        wake,
        stop: AtomicBool::new(false),
        guard: OnceLock::new(),
    });
    let serving = Arc::clone(&process);
    let guard = Arc::new(Guard { process, thread: Mutex::default() });
    let _ = guard.process.guard.set(Arc::downgrade(&guard));
    *guard.thread.lock() = Some(guest::spawn("longarm-cm", move || serve(&serving, &watched))?);
    Ok(ProcessRef(guard))
}

/// The thread.
fn serve(process: &Arc<Process>, session: &OwnedFd) {
    while !process.stop.load(SeqCst) {
        let timeout = process.round().map(|wait| {
            // A little later rather than a little early.
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
    // Ids that were dropped while the state was in use.
    process.round();
}
