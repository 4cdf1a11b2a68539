//! Routes: which device leads to an address.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use device::{OpenError, Provider};
use transport::QpType;

use super::attempts::Attempts;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::error::{ConnectError, EndpointError};
use crate::qp::{Rc, Uc, UdEndpoint, Unconnected};

/// The route to an address, for programs that make their queue pair before they [`connect`](crate::connect) it:
/// it names the right device.
///
/// ```no_run
/// # use std::time::Duration;
/// # use longarm::Route;
/// let route = Route::to("192.0.2.7:7471")?;
/// let endpoint = route.rc()?;                                     // or route.context()? for the rest
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
    /// # Errors
    /// If the name has no address, or no route leads to any.
    pub fn to(address: impl ToSocketAddrs) -> Result<Route, ConnectError> {
        Route::by(provider::preferred()?, address)
    }

    /// Finds the route on the devices of one provider; [`to`](Route::to) takes the preferred one.
    ///
    /// # Errors
    /// As [`to`](Route::to), and if the system has no RDMA library.
    pub fn by(provider: Provider, address: impl ToSocketAddrs) -> Result<Route, ConnectError> {
        let mut attempts = Attempts::of(address, QpType::Rc, Some(provider))?;
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
    pub fn device(&self) -> &str {
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

    /// Opens the device, for a domain or for [`QpBuilder::on`](crate::QpBuilder::on).
    ///
    /// # Errors
    /// If the device is gone.
    pub fn context(&self) -> Result<Context, OpenError> {
        Context::open_on(Some(self.provider), Some(self.device.clone()))
    }

    /// An endpoint for a reliable connection, with everything of its own.
    ///
    /// # Errors
    /// If the device is gone, or has no resources left.
    pub fn rc(&self) -> Result<Endpoint<Unconnected<Rc>>, EndpointError> {
        Endpoint::connected_on(&self.context()?, self.local)
    }

    /// An endpoint for an unreliable connection.
    ///
    /// # Errors
    /// As [`rc`](Route::rc).
    pub fn uc(&self) -> Result<Endpoint<Unconnected<Uc>>, EndpointError> {
        Endpoint::connected_on(&self.context()?, self.local)
    }

    /// An endpoint for datagrams.
    ///
    /// # Errors
    /// As [`rc`](Route::rc).
    pub fn ud(&self) -> Result<Endpoint<UdEndpoint>, EndpointError> {
        Endpoint::ud_on(&self.context()?, self.local)
    }
}

impl ToSocketAddrs for Route {
    type Iter = std::vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> std::io::Result<Self::Iter> {
        Ok(self.peers.clone().into_iter())
    }
}
