//! The client for asynchronous programs: any number of tasks share it.
//!
//! ```text
//!  task ── Calling ──┐                      ┌── spins: the task drives the session itself, for some microseconds
//!  task ── Calling ──┼── Mutex<Sessions> ──►│
//!  task ── Calling ──┘                      └── waits: the driver's thread sleeps on completions and wakes the task
//! ```

mod calling;
mod connected;
mod driver;
mod state;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use longarm::Target;

pub use calling::Calling;
use calling::FirstSession;
pub use connected::ConnectedChannel;
pub use state::ChannelStats;

use crate::channel::driver::start_driver;
use crate::channel::state::ChannelCore;
use crate::message::{Request, Response};
use crate::options::ClientOptions;
use crate::service::{Call, Method};
use crate::status::Status;

/// A connection to a server that makes itself anew when it is lost. A clone names the same one.
///
/// Generated clients, `tower` and `tarpc` use it as a [`tower_service::Service`] of [`Call`]s.
///
/// ```no_run
/// use bytes::Bytes;
/// use longarm_rpc::{Channel, ClientOptions, Method, Request};
///
/// const SAY: Method = Method::new("/echo.Echo/Say");
/// # async fn example() -> Result<(), longarm_rpc::Status> {
/// let channel = Channel::connect("host:7471", ClientOptions::default()).await?;
/// let reply = channel.call(SAY, Request::new(Bytes::from("hello"))).await?;
/// println!("{:?}", reply.into_inner());
/// # Ok(())
/// # }
/// ```
///
/// No runtime is needed: a thread of the channel's own wakes the tasks. A call that is dropped is withdrawn.
#[derive(Clone)]
pub struct Channel {
    handle: Arc<ChannelOwner>,
}

/// Ends the driver with the last clone.
struct ChannelOwner {
    shared: Arc<ChannelCore>,
}

impl Drop for ChannelOwner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Channel {
    /// Connects to a server.
    ///
    /// # Errors
    /// [`Code::Unavailable`](crate::Code::Unavailable) if nobody answers there,
    /// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition) if the way is forced and one side has it not.
    pub async fn connect(to: impl Into<Target>, options: ClientOptions) -> Result<Channel, Status> {
        let channel = Channel::lazy(to, options)?;
        FirstSession::new(&channel.handle.shared).await?;
        Ok(channel)
    }

    /// A channel that connects with the first call.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn lazy(to: impl Into<Target>, options: ClientOptions) -> Result<Channel, Status> {
        let shared = ChannelCore::new(to.into(), options)?;
        start_driver(&shared)?;
        Ok(Channel { handle: Arc::new(ChannelOwner { shared }) })
    }

    /// Calls a method. The request goes out when the future is first polled, as soon as the session has room.
    pub fn call(&self, method: Method, request: Request<Bytes>) -> Calling {
        Calling::new(&self.handle.shared, method, request)
    }

    /// The same channel, ready only while it is connected: for a balancer over several servers, such as
    /// `tower::balance::p2c::Balance`.
    pub fn when_connected(&self) -> ConnectedChannel {
        ConnectedChannel(self.clone())
    }

    /// Its figures, and the way of its session with the reason.
    pub fn stats(&self) -> ChannelStats {
        self.handle.shared.stats()
    }
}

impl tower_service::Service<Call> for Channel {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = Calling;

    /// Always ready: a call that finds no room waits in its own future.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Calling {
        Channel::call(self, call.method, call.request)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({:?})", self.stats())
    }
}
