//! The thread that makes and ends connections.
//!
//! To open a device, to ask the hub, to register memory: each may take milliseconds, so no task does it. The thread
//! takes jobs, hands the events of the connection manager to their sockets, and ends sockets that were dropped. It
//! lasts as long as the process; a forked child has its own.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use connect::{Event, EventKind, EventQueue, IdKey};
use futures_channel::oneshot;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::listener::ListenerState;
use crate::errno::{Errno, Result};
use crate::stream::StreamSocket;

/// The time for which a forked child waits for a lock that its parent may have held at the fork.
const FORK_WAIT: Duration = Duration::from_secs(5);

static MANAGER: Mutex<Option<Arc<StreamManager>>> = Mutex::new(None);

type ManagerCall = Box<dyn FnOnce(&Arc<StreamManager>) + Send>;

/// A piece of work for the thread.
enum ManagerJob {
    Run(ManagerCall),
    /// Ends a direction of a socket, or the socket.
    End(Arc<StreamSocket>, Shutdown),
}

/// Sockets that end.
type EndingStreams = HashMap<IdKey, (Arc<StreamSocket>, Shutdown)>;

/// The receiver of an id's events.
#[derive(Clone, Debug)]
enum EventTarget {
    Stream(Weak<StreamSocket>),
    Listener(Weak<ListenerState>),
}

/// See the module.
pub(super) struct StreamManager {
    process: u32,
    queue: EventQueue,
    wake: OwnedFd,
    inbox: Mutex<ManagerInbox>,
    targets: Mutex<HashMap<IdKey, EventTarget>>,
}

#[derive(Default)]
struct ManagerInbox {
    jobs: Vec<ManagerJob>,
    /// Sockets whose next step towards the end can be taken.
    due: Vec<IdKey>,
}

/// Tells the thread that a socket can take its next step towards the end.
struct EndWaker {
    manager: Weak<StreamManager>,
    key: IdKey,
}

impl StreamManager {
    /// This process's; the first call starts the thread.
    pub(super) fn get() -> Result<Arc<StreamManager>> {
        let mut place = MANAGER.try_lock_for(FORK_WAIT).ok_or(Errno(libc::EDEADLK))?;
        if let Some(manager) = place.as_ref().filter(|manager| manager.is_ours()) {
            return Ok(Arc::clone(manager));
        }
        let manager = Arc::new(StreamManager {
            process: std::process::id(),
            queue: EventQueue::new()?,
            wake: guest::high(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
            inbox: Mutex::default(),
            targets: Mutex::default(),
        });
        let serving = Arc::clone(&manager);
        guest::spawn("longarm-stream", move || serving.serve())?;
        // A parent's manager is never dropped: a thread may have held its locks at the fork.
        std::mem::forget(place.replace(Arc::clone(&manager)));
        Ok(manager)
    }

    /// True if this process made it, not one that it was forked from.
    pub(super) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// The queue of its events.
    pub(super) fn queue(&self) -> &EventQueue {
        &self.queue
    }

    /// Lets the thread do something.
    pub(super) fn submit(&self, job: impl FnOnce(&Arc<StreamManager>) + Send + 'static) {
        self.push(ManagerJob::Run(Box::new(job)));
    }

    /// Lets the thread do something, and waits for the result without blocking.
    pub(super) async fn result_of<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<StreamManager>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (put, result) = oneshot::channel();
        self.submit(move |manager| drop(put.send(job(manager))));
        result.await.unwrap_or(Err(Errno(libc::ECANCELED)))
    }

    /// Enters a socket as the receiver of the events of its id.
    pub(super) fn enter_stream(&self, key: IdKey, socket: &Arc<StreamSocket>) {
        self.targets.lock().insert(key, EventTarget::Stream(Arc::downgrade(socket)));
    }

    /// The same for a listener.
    pub(super) fn enter_listener(&self, key: IdKey, listener: &Arc<ListenerState>) {
        self.targets.lock().insert(key, EventTarget::Listener(Arc::downgrade(listener)));
    }

    /// Hands no more events to the receiver of that id.
    pub(super) fn forget(&self, key: IdKey) {
        self.targets.lock().remove(&key);
    }

    /// Ends a direction of a socket, or the socket, when everything sent has arrived.
    pub(super) fn end(&self, socket: Arc<StreamSocket>, how: Shutdown) {
        if self.is_ours() {
            self.push(ManagerJob::End(socket, how));
        }
    }

    fn push(&self, job: ManagerJob) {
        self.inbox.lock().jobs.push(job);
        self.ring();
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The thread's loop.
    fn serve(self: &Arc<StreamManager>) {
        let mut ending = EndingStreams::new();
        loop {
            let ManagerInbox { jobs, due } = std::mem::take(&mut *self.inbox.lock());
            let idle = jobs.is_empty() && due.is_empty();
            for job in jobs {
                match job {
                    ManagerJob::Run(job) => job(self),
                    ManagerJob::End(socket, how) => self.begin_end(&mut ending, socket, how),
                }
            }
            due.into_iter().for_each(|key| self.continue_end(&mut ending, key));
            while let Some(event) = self.queue.next() {
                self.dispatch(event);
            }
            if idle {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        let (events, wake) = (self.queue.fd(), self.wake.as_fd());
        let mut fds = [events, wake].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // If the wait fails, the next round looks again.
        let _ = rustix::event::poll(&mut fds, None);
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    fn dispatch(self: &Arc<StreamManager>, event: Event) {
        let key = event.listener.as_ref().unwrap_or(&event.id).key();
        let target = self.targets.lock().get(&key).cloned();
        match target {
            Some(EventTarget::Stream(socket)) => {
                if let Some(socket) = socket.upgrade() {
                    socket.handed(event);
                }
            }
            Some(EventTarget::Listener(listener)) if event.kind == EventKind::ConnectRequest => {
                if let Some(listener) = listener.upgrade() {
                    listener.welcome(self, event);
                }
            }
            _ => log::debug!("{:?} of an id without a socket", event.kind),
        }
    }

    fn begin_end(self: &Arc<StreamManager>, ending: &mut EndingStreams, socket: Arc<StreamSocket>, how: Shutdown) {
        let key = socket.key();
        if how == Shutdown::Both {
            socket.forget_keepalive();
        }
        ending.insert(key, (socket, how));
        self.continue_end(ending, key);
    }

    fn continue_end(self: &Arc<StreamManager>, ending: &mut EndingStreams, key: IdKey) {
        let Some((socket, how)) = ending.get(&key) else { return };
        let waker = Waker::from(Arc::new(EndWaker { manager: Arc::downgrade(self), key }));
        let is_known = *how == Shutdown::Write || socket.is_accepted();
        let has_ended = |socket: &StreamSocket| socket.poll_shutdown(&mut Context::from_waker(&waker), *how).is_ready();
        if is_known && !has_ended(socket) {
            return;
        }
        if *how == Shutdown::Both {
            socket.abandon();
            self.forget(key);
        }
        ending.remove(&key);
    }
}

impl Wake for EndWaker {
    fn wake(self: Arc<Self>) {
        if let Some(manager) = self.manager.upgrade() {
            manager.inbox.lock().due.push(self.key);
            manager.ring();
        }
    }
}
