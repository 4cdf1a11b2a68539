//! The calls of tasks: as those of threads, but where a thread would wait they remember the task and return.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, ready};

use connect::{Event, EventQueue, Id, IdKey, Param, PortSpace};

use super::StreamSocket;
use super::core::{StreamPhase, StreamState};
use super::option_state::StreamOptions;
use super::waiting_tasks::TaskWant;
use crate::errno::{Errno, Result};
use crate::settings::Settings;

impl StreamSocket {
    /// Begins to connect. The caller hands in the events that come to `queue`.
    pub(crate) fn connecting(
        queue: &EventQueue,
        settings: Settings,
        address: SocketAddr,
        enter: impl FnOnce(IdKey, &Arc<StreamSocket>),
    ) -> Result<Arc<StreamSocket>> {
        let id = Id::new(queue, PortSpace::Tcp, device::QpType::Rc)?;
        let key = id.key();
        let socket = StreamSocket::for_tasks(id, queue, settings);
        enter(key, &socket);
        socket.shared.lock().open(address)?;
        Ok(socket)
    }

    /// Accepts the connection of a request. The caller hands in the events that come to `queue`.
    pub(crate) fn welcomed(
        event: Event,
        queue: &EventQueue,
        settings: Settings,
        enter: impl FnOnce(IdKey, &Arc<StreamSocket>),
    ) -> Result<Arc<StreamSocket>> {
        let Param::Conn(conn) = event.param else { return Err(Errno(libc::EPROTO)) };
        let key = event.id.key();
        let socket = StreamSocket::for_tasks(event.id, queue, settings);
        enter(key, &socket);
        socket.shared.lock().accept(&conn.private_data)?;
        Ok(socket)
    }

    fn for_tasks(id: Id, queue: &EventQueue, settings: Settings) -> Arc<StreamSocket> {
        let state = StreamState::new(id, None, settings, StreamOptions::default());
        let socket = Arc::new(StreamSocket::with(queue.clone(), state));
        socket.shared.set_task_waker(Arc::new(StreamWaker(Arc::downgrade(&socket))).into());
        socket
    }

    /// Handles an event of its id.
    pub(crate) fn handed(&self, event: Event) {
        self.shared.lock().handed(event);
    }

    /// Identifies its id within the process.
    pub(crate) fn key(&self) -> IdKey {
        self.shared.lock().id.key()
    }

    /// The outcome of connecting.
    pub(crate) fn poll_open(&self, task: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_for(TaskWant::Open, task))?;
        Poll::Ready(self.shared.lock().outcome())
    }

    /// Receives the bytes that are there; zero bytes are the end. `EAGAIN` without any.
    pub(crate) fn recv_now(&self, parts: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.open_now()?;
        match self.receiver.recv_now(&self.shared, parts)? {
            0 if parts.iter().any(|part| !part.is_empty()) && self.shared.lock().has_died() => {
                Err(Errno(libc::ECONNRESET))
            }
            len => Ok(len),
        }
    }

    /// Sends as many bytes as there is room for. `EAGAIN` without any.
    pub(crate) fn send_now(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        self.open_now()?;
        self.sender.send_now(&self.shared, parts)
    }

    /// `EAGAIN` while the connection is being made; an error if it was not.
    fn open_now(&self) -> Result<()> {
        let mut state = self.shared.lock();
        match state.phase {
            StreamPhase::Connected => Ok(()),
            _ if state.is_opening() => {
                state.pump();
                if state.is_opening() { Err(Errno::AGAIN) } else { Ok(()) }
            }
            StreamPhase::Failed => state.outcome().and(Err(Errno(libc::ENOTCONN))),
            _ => Ok(()),
        }
    }

    /// Receives bytes; the task is woken when there are some.
    pub(crate) fn poll_recv(&self, task: &mut Context<'_>, parts: &mut [IoSliceMut<'_>]) -> Poll<Result<usize>> {
        loop {
            ready!(self.poll_for(TaskWant::Read, task))?;
            match self.recv_now(parts) {
                Err(Errno::AGAIN) => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Sends bytes; the task is woken when there is room.
    pub(crate) fn poll_send(&self, task: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        loop {
            ready!(self.poll_for(TaskWant::Write, task))?;
            match self.send_now(parts) {
                Err(Errno::AGAIN) => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Ends our sending, or the connection. Ready when everything sent has arrived.
    pub(crate) fn poll_shutdown(&self, task: &mut Context<'_>, how: Shutdown) -> Poll<Result<()>> {
        ready!(self.poll_for(TaskWant::Open, task))?;
        self.begin_end(how);
        loop {
            ready!(self.poll_for(TaskWant::End, task))?;
            if !self.shared.lock().say_farewell() {
                break;
            }
        }
        let mut state = self.shared.lock();
        if state.phase == StreamPhase::Disconnected && state.flow.is_some() {
            // The peer may have been first.
            let _ = state.id.disconnect();
        }
        match state.phase {
            StreamPhase::Broken => Poll::Ready(state.take_error().map_or(Ok(()), Err)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Ends our sending, or the connection, and tells the peer if that can be done at once.
    pub(crate) fn begin_end(&self, how: Shutdown) {
        let mut state = self.shared.lock();
        state.part(how);
        state.say_farewell();
    }

    /// Whether the peer knows or will know of a connection.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.shared.lock().phase, StreamPhase::Connected | StreamPhase::Accepting)
    }

    /// Ends the connection at once and gives everything back.
    pub(crate) fn abandon(&self) {
        self.forget_keepalive();
        self.shared.lock().close();
    }

    /// Pumps, and tests whether the news is there. If not, the task is woken when it is.
    fn poll_for(&self, want: TaskWant, task: &mut Context<'_>) -> Poll<Result<()>> {
        {
            let mut state = self.shared.lock();
            state.tasks.forget(want);
            state.pump();
            if state.has(want) {
                return Poll::Ready(Ok(()));
            }
            state.tasks.note(want, task.waker());
        }
        match self.shared.arm_for_tasks() {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// The waker that the device calls.
struct StreamWaker(Weak<StreamSocket>);

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(socket) = self.0.upgrade() {
            socket.shared.woken();
        }
    }
}
