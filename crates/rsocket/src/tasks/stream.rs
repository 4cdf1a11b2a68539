//! Connections of tasks.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use connect::Event;

use super::manager::StreamManager;
use super::sizes::TaskSettings;
use crate::errno::Result;
use crate::stream::StreamSocket;

/// A connection. One task may read while another writes; of several tasks that wait for the same, the last one is
/// woken.
///
/// Dropping it ends the connection in good order, behind the caller's back: what was sent still arrives, as long as
/// the process lives. [`poll_shutdown`](TaskStream::poll_shutdown) tells when it has.
pub struct TaskStream {
    manager: Arc<StreamManager>,
    socket: Arc<StreamSocket>,
}

impl TaskStream {
    /// Connects. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// As connect(2), and if no hub can be found or started.
    pub async fn connect(address: SocketAddr, settings: TaskSettings) -> Result<TaskStream> {
        let manager = StreamManager::get()?;
        let stream = manager.result_of(move |manager| TaskStream::connecting(manager, address, &settings)).await?;
        std::future::poll_fn(|task| stream.socket.poll_open(task)).await?;
        stream.keep_alive(&settings)?;
        Ok(stream)
    }

    fn connecting(manager: &Arc<StreamManager>, address: SocketAddr, settings: &TaskSettings) -> Result<TaskStream> {
        let enter = |key, socket: &Arc<StreamSocket>| manager.enter_stream(key, socket);
        let socket = StreamSocket::connecting(manager.queue(), settings.settings(), address, enter)?;
        Ok(TaskStream { manager: Arc::clone(manager), socket })
    }

    pub(super) fn welcomed(
        manager: &Arc<StreamManager>,
        request: Event,
        settings: &TaskSettings,
    ) -> Result<TaskStream> {
        let enter = |key, socket: &Arc<StreamSocket>| manager.enter_stream(key, socket);
        let socket = StreamSocket::welcomed(request, manager.queue(), settings.settings(), enter)?;
        let stream = TaskStream { manager: Arc::clone(manager), socket };
        stream.keep_alive(settings)?;
        Ok(stream)
    }

    fn keep_alive(&self, settings: &TaskSettings) -> Result<()> {
        let Some(every) = settings.keepalive else { return Ok(()) };
        let seconds = i32::try_from(every.as_secs().max(1)).unwrap_or(i32::MAX);
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &seconds.to_ne_bytes())?;
        self.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32.to_ne_bytes())
    }

    /// Receives the bytes that are there; zero bytes are the end.
    ///
    /// # Errors
    /// `EAGAIN` without any; `ECONNRESET` if the peer ended without saying so.
    pub fn try_recv(&self, parts: &mut [IoSliceMut<'_>]) -> Result<usize> {
        self.socket.recv_now(parts)
    }

    /// As [`try_recv`](TaskStream::try_recv), but without any bytes the task is woken when there are some.
    ///
    /// # Errors
    /// As there, without `EAGAIN`.
    pub fn poll_recv(&self, task: &mut Context<'_>, parts: &mut [IoSliceMut<'_>]) -> Poll<Result<usize>> {
        self.socket.poll_recv(task, parts)
    }

    /// Sends as many bytes as there is room for.
    ///
    /// # Errors
    /// `EAGAIN` without any; otherwise as send(2).
    pub fn try_send(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        self.socket.send_now(parts)
    }

    /// As [`try_send`](TaskStream::try_send), but without any room the task is woken when there is some.
    ///
    /// # Errors
    /// As there, without `EAGAIN`.
    pub fn poll_send(&self, task: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        self.socket.poll_send(task, parts)
    }

    /// Ends our sending, or the connection. Ready when everything that was sent has arrived.
    ///
    /// # Errors
    /// If the connection broke before that.
    pub fn poll_shutdown(&self, task: &mut Context<'_>, how: Shutdown) -> Poll<Result<()>> {
        self.socket.poll_shutdown(task, how)
    }

    /// Ends our sending behind the caller's back.
    pub fn finish_sending(&self) {
        if !self.manager.is_ours() {
            return;
        }
        self.socket.begin_end(Shutdown::Write);
        self.manager.end(Arc::clone(&self.socket), Shutdown::Write);
    }

    /// The local address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// `ENOTCONN` before there is a connection.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// Sets an option from the bytes of its value, as [`set_option`](crate::set_option).
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.socket.set_option(level, name, value)
    }

    /// The bytes of an option's value.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        self.socket.option(level, name)
    }
}

impl Drop for TaskStream {
    fn drop(&mut self) {
        if !self.manager.is_ours() {
            return;
        }
        // At once: the process may be about to end.
        self.socket.begin_end(Shutdown::Both);
        self.manager.end(Arc::clone(&self.socket), Shutdown::Both);
    }
}

impl std::fmt::Debug for TaskStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskStream")
            .field("local", &self.local_addr())
            .field("peer", &self.peer_addr().ok())
            .finish_non_exhaustive()
    }
}
