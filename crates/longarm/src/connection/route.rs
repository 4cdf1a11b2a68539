//! Routes: which device leads to an address.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use device::{OpenError, Provider};
use transport::QpType;

use super::Target;
use super::attempts::Attempts;
use crate::blocking_call::BlockingCall;
use crate::endpoint::Endpoint;
use crate::error::{ConnectError, EndpointError};
use crate::open_device::Device;
use crate::qp::{Rc, Uc, UdQueuePair, Unconnected};
use crate::wait::park;

/// The route to an address, for programs that make their queue pair before they [`connect`](crate::connect) it:
/// it names the right device.
///
/// ```no_run
/// # use std::time::Duration;
/// # use longarm::Route;
/// let route = Route::to("192.0.2.7:7471").wait(Duration::from_secs(5))?;
/// let endpoint = route.rc()?;                                     // or route.open_device()? for the rest
/// let answer = endpoint.recv(endpoint.allocate(64)?).start();
/// let endpoint = longarm::connect(&route, endpoint, b"").wait(Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    provider: Provider,
    device: String,
    local: IpAddr,
    /// The addresses that the device leads to. The first determined the device.
    peers: Vec<SocketAddr>,
}

impl Route {
    /// Finds the route to an address. If a name has several addresses, the first reachable one determines the
    /// device, and the others that this device leads to count as alternatives.
    ///
    /// The result is a future; it can be awaited on any executor, or [waited for](FindRoute::wait) by a thread.
    pub fn to(target: impl Into<Target>) -> FindRoute {
        FindRoute::new(None, target.into())
    }

    /// Finds the route on the devices of one provider; [`to`](Route::to) takes the preferred one.
    pub fn by(provider: Provider, target: impl Into<Target>) -> FindRoute {
        FindRoute::new(Some(provider), target.into())
    }

    /// Finds the route. This may block for seconds.
    pub(super) fn find(provider: Option<Provider>, target: Target) -> Result<Route, ConnectError> {
        let provider = provider.map_or_else(provider::preferred, Ok)?;
        let mut attempts = Attempts::of(target, QpType::Rc, provider)?;
        let (id, binding) = attempts.next()?;
        attempts.on(Some(binding.device.clone()));
        let mut peers: Vec<_> = id.peer_addr().into_iter().collect();
        while let Ok((id, _)) = attempts.next() {
            peers.extend(id.peer_addr());
        }
        Ok(Route { provider, device: binding.device, local: binding.gid.ip(), peers })
    }

    /// The provider of the device that leads there.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// The name of the device that leads there.
    pub fn device_name(&self) -> &str {
        &self.device
    }

    /// The address that packets leave from.
    pub fn local_ip(&self) -> IpAddr {
        self.local
    }

    /// The first address that it leads to.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peers[0]
    }

    /// All addresses that it leads to, in the order of the attempts.
    pub fn peer_addrs(&self) -> &[SocketAddr] {
        &self.peers
    }

    /// Opens the device, for a domain or for [`QpBuilder::on`](crate::QpBuilder::on).
    ///
    /// # Errors
    /// If the device is gone.
    pub fn open_device(&self) -> Result<Device, OpenError> {
        Device::open_on(Some(self.provider), Some(self.device.clone()))
    }

    /// An endpoint for a reliable connection, with everything of its own.
    ///
    /// # Errors
    /// If the device is gone, or has no resources left.
    pub fn rc(&self) -> Result<Endpoint<Unconnected<Rc>>, EndpointError> {
        Endpoint::connected_on(&self.open_device()?, self.local)
    }

    /// An endpoint for an unreliable connection.
    ///
    /// # Errors
    /// As [`rc`](Route::rc).
    pub fn uc(&self) -> Result<Endpoint<Unconnected<Uc>>, EndpointError> {
        Endpoint::connected_on(&self.open_device()?, self.local)
    }

    /// An endpoint for datagrams.
    ///
    /// # Errors
    /// As [`rc`](Route::rc).
    pub fn ud(&self) -> Result<Endpoint<UdQueuePair>, EndpointError> {
        Endpoint::ud_on(&self.open_device()?, self.local)
    }
}

/// A future of a [`Route`].
#[must_use = "it does nothing until it is awaited or waited for"]
pub struct FindRoute {
    target: Target,
    finding: BlockingCall<Result<Route, ConnectError>>,
}

impl FindRoute {
    fn new(provider: Option<Provider>, target: Target) -> FindRoute {
        let to = target.clone();
        FindRoute { target, finding: BlockingCall::run(move || Route::find(provider, to)) }
    }

    /// Waits with the thread, at most `timeout`.
    ///
    /// # Errors
    /// If the name has no address, no route leads to any, or it was not found in time.
    pub fn wait(mut self, timeout: Duration) -> Result<Route, ConnectError> {
        let found = park(timeout, |task| Pin::new(&mut self).poll(task));
        found.unwrap_or_else(|| Err(ConnectError::TimedOut { who: self.target.to_string(), timeout }))
    }
}

impl Future for FindRoute {
    type Output = Result<Route, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.finding.poll(task).map(|found| found.unwrap_or(Err(ConnectError::Forked)))
    }
}

impl fmt::Debug for FindRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FindRoute(to {})", self.target)
    }
}
