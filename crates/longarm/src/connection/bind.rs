//! Listeners that come about: futures, since a name may have to be looked up.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use device::{OpenError, Provider};

use super::attempts::blocks;
use super::dispatch::Dispatcher;
use super::{Listener, Target};
use crate::blocking_call::BlockingCall;
use crate::error::ConnectError;
use crate::qp::{Rc, Service, Uc, Ud};
use crate::wait::park;

impl Listener<Rc> {
    /// Listens for reliable connections. The address may be a wildcard (that of IPv6 takes IPv4 in as well);
    /// port 0 takes a free one. Of the addresses of a name, the first that can be had is taken.
    ///
    /// The result is a future; it can be awaited on any executor, or [waited for](Bind::wait) by a thread. Neither the
    /// call nor the future blocks: another thread looks names up. The errors are those of [`wait`](Bind::wait).
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = longarm::Listener::bind("host.example:7471").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind(address: impl Into<Target>) -> Bind<Rc> {
        Bind::start(provider::preferred(), address.into())
    }
}

impl Listener<Uc> {
    /// Listens for unreliable connections; otherwise as [`bind`](Listener::bind).
    pub fn bind_uc(address: impl Into<Target>) -> Bind<Uc> {
        Bind::start(provider::preferred(), address.into())
    }
}

impl Listener<Ud> {
    /// Listens for peers that look up the destination of datagrams; otherwise as [`bind`](Listener::bind).
    pub fn bind_ud(address: impl Into<Target>) -> Bind<Ud> {
        Bind::start(provider::preferred(), address.into())
    }
}

impl<S: Service> Listener<S> {
    /// Listens on the devices of one provider; the other functions take the preferred one, as
    /// [`Device::open`](crate::Device::open) does. It fails if the system has no RDMA library.
    pub fn bind_by(provider: Provider, address: impl Into<Target>) -> Bind<S> {
        Bind::start(Ok(provider), address.into())
    }
}

/// A future of a [`Listener`], from [`Listener::bind`].
///
/// It listens as soon as the name is looked up, even if nobody polls the future. Dropping it frees the port.
#[must_use = "dropping it ends the listening"]
pub struct Bind<S = Rc> {
    at: String,
    state: BindState<S>,
}

enum BindState<S> {
    /// `None` once the result is taken.
    Done(Option<Result<Listener<S>, ConnectError>>),
    /// Another thread looks the name up, or calls the system's connection manager.
    Elsewhere(BlockingCall<Result<Listener<S>, ConnectError>>),
}

impl<S: Service> Bind<S> {
    fn start(provider: Result<Provider, OpenError>, target: Target) -> Bind<S> {
        let at = target.to_string();
        let state = match provider {
            Err(error) => BindState::Done(Some(Err(error.into()))),
            Ok(provider) if blocks(&target, provider) => {
                BindState::Elsewhere(BlockingCall::run(move || listen(provider, target)))
            }
            Ok(provider) => BindState::Done(Some(listen(provider, target))),
        };
        Bind { at, state }
    }

    /// Waits with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If the name has no address or was not looked up in time, or the port is in use. Also if no device of this host has
    /// the address, or no hub can be reached or started.
    pub fn wait(mut self, timeout: Duration) -> Result<Listener<S>, ConnectError> {
        let found = park(timeout, |task| Pin::new(&mut self).poll(task));
        found.unwrap_or_else(|| Err(ConnectError::TimedOut { who: self.at, timeout }))
    }
}

fn listen<S: Service>(provider: Provider, target: Target) -> Result<Listener<S>, ConnectError> {
    let addresses = target.resolve().map_err(ConnectError::Name)?;
    let dispatcher = Dispatcher::get(provider)?;
    let mut error = ConnectError::Name(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in addresses {
        match Listener::open(&dispatcher, address) {
            Ok(listener) => return Ok(listener),
            Err(why) => error = why,
        }
    }
    Err(error)
}

impl<S> Unpin for Bind<S> {}

impl<S: Service> Future for Bind<S> {
    type Output = Result<Listener<S>, ConnectError>;

    /// # Panics
    /// If the result was taken already.
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            BindState::Done(result) => Poll::Ready(result.take().expect("the result of a bind is taken once")),
            BindState::Elsewhere(call) => call.poll(task).map(|done| done.unwrap_or(Err(ConnectError::Forked))),
        }
    }
}

impl<S> fmt::Debug for Bind<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bind(at {})", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking_call::testing::AllThreadsBusy;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_name_is_looked_up_by_another_thread() {
        let busy = AllThreadsBusy::begin();
        let mut bind: Bind = Bind::start(Ok(Provider::Longarm), "no-such-host.invalid:7471".into());
        assert!(
            park(Duration::from_millis(1), |task| Pin::new(&mut bind).poll(task)).is_none(),
            "it waits for a thread"
        );
        drop(busy);
        assert!(matches!(bind.wait(PATIENCE), Err(ConnectError::Name(_))));
    }
}
