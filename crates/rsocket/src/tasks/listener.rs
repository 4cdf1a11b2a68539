//! Listeners of tasks.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use connect::{Event, Id, PortSpace};
use parking_lot::Mutex;

use super::manager::StreamManager;
use super::sizes::TaskSettings;
use super::stream::TaskStream;
use crate::errno::{Errno, Result};

/// Waits for connections. Dropping it frees the port and ends connections that were not taken.
#[derive(Debug)]
pub struct TaskListener {
    state: Arc<ListenerState>,
}

/// The listening id, and the connections that came.
pub(super) struct ListenerState {
    manager: Arc<StreamManager>,
    id: Id,
    settings: TaskSettings,
    backlog: usize,
    arrivals: Mutex<ListenerArrivals>,
}

#[derive(Default)]
struct ListenerArrivals {
    streams: VecDeque<TaskStream>,
    wakers: Vec<Waker>,
}

impl TaskListener {
    /// Listens at an address; port 0 takes a free one. Up to `backlog` connections wait to be taken, further ones are
    /// refused.
    ///
    /// # Errors
    /// As bind(2) and listen(2), and if no hub can be found or started.
    pub async fn bind(address: SocketAddr, backlog: usize, settings: TaskSettings) -> Result<TaskListener> {
        let manager = StreamManager::get()?;
        let listen = move |manager: &Arc<StreamManager>| {
            let state = ListenerState::open(manager, address, backlog, settings)?;
            Ok(TaskListener { state })
        };
        manager.result_of(listen).await
    }

    /// The next connection. Its peer may still have to confirm it: calls on data wait for that.
    ///
    /// # Errors
    /// `EPERM` in a forked child of its process.
    pub fn poll_accept(&self, task: &mut Context<'_>) -> Poll<Result<TaskStream>> {
        let state = &*self.state;
        if !state.manager.is_ours() {
            return Poll::Ready(Err(Errno(libc::EPERM)));
        }
        let mut arrivals = state.arrivals.lock();
        match arrivals.streams.pop_front() {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => {
                if !arrivals.wakers.iter().any(|waker| waker.will_wake(task.waker())) {
                    arrivals.wakers.push(task.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// The next connection, as a future. Dropping it loses none.
    ///
    /// # Errors
    /// As [`poll_accept`](TaskListener::poll_accept).
    pub async fn accept(&self) -> Result<TaskStream> {
        std::future::poll_fn(|task| self.poll_accept(task)).await
    }

    /// The address it listens at.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.state.id.local_addr()
    }
}

impl Drop for TaskListener {
    fn drop(&mut self) {
        let state = Arc::clone(&self.state);
        if state.manager.is_ours() {
            self.state.manager.submit(move |manager| {
                manager.forget(state.id.key());
                state.id.destroy();
                let waiting = std::mem::take(&mut *state.arrivals.lock());
                drop(waiting);
            });
        }
    }
}

impl ListenerState {
    fn open(
        manager: &Arc<StreamManager>,
        address: SocketAddr,
        backlog: usize,
        settings: TaskSettings,
    ) -> Result<Arc<ListenerState>> {
        let id = Id::new(manager.queue(), PortSpace::Tcp, device::QpType::Rc)?;
        id.bind(address)?;
        let (manager_of, arrivals) = (Arc::clone(manager), Mutex::default());
        let state = Arc::new(ListenerState { manager: manager_of, id, settings, backlog: backlog.max(1), arrivals });
        manager.enter_listener(state.id.key(), &state);
        state.id.listen(u32::try_from(backlog).unwrap_or(u32::MAX))?;
        Ok(state)
    }

    /// Accepts a connection, unless too many wait.
    pub(super) fn welcome(&self, manager: &Arc<StreamManager>, request: Event) {
        if self.arrivals.lock().streams.len() >= self.backlog {
            log::info!("a connection request was refused: {} connections wait to be taken", self.backlog);
            return;
        }
        let stream = match TaskStream::welcomed(manager, request, &self.settings) {
            Ok(stream) => stream,
            Err(error) => return log::info!("a connection request was refused: {error}"),
        };
        let wakers = {
            let mut arrivals = self.arrivals.lock();
            arrivals.streams.push_back(stream);
            std::mem::take(&mut arrivals.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Debug for ListenerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListenerState").field("id", &self.id.key()).finish_non_exhaustive()
    }
}
