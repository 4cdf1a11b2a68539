//! Incoming connection requests.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use ::connect::{ConnParam, Param};
use device::Provider;

use super::cm_connection::CmConnection;
use super::connecting::PendingConnection;
use super::{Connectable, Connecting};
use crate::endpoint::Endpoint;
use crate::error::{ConnectError, EndpointError, OpenError, Refusal};
use crate::open_device::Device;
use crate::qp::{Connected, Rc, Service, Ud, UdQueuePair, Unconnected};

/// A peer's request to connect, from [`Listener::incoming`](crate::Listener::incoming). Dropping it
/// refuses the request.
pub struct Incoming<S: Service = Rc> {
    cm: Option<Arc<CmConnection>>,
    peer: SocketAddr,
    local: SocketAddr,
    provider: Provider,
    device: String,
    param: Param,
    service: PhantomData<S>,
}

impl<S: Service> Incoming<S> {
    pub(super) fn new(cm: Arc<CmConnection>, param: Param) -> Incoming<S> {
        let peer = cm.peer_addr();
        let local = cm.id().local_addr().unwrap_or_else(|| SocketAddr::new(peer.ip(), 0));
        let device = cm.id().binding().map_or_else(String::new, |binding| binding.device);
        let provider = cm.id().provider();
        Incoming { cm: Some(cm), peer, local, provider, device, param, service: PhantomData }
    }

    /// The peer's address. The connection manager of its host vouches for the address, and answers go
    /// there. Nothing else about the peer is proven.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The local address that the peer asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's private data, followed by zeros: 56 bytes, 180 for
    /// datagrams.
    pub fn private_data(&self) -> &[u8] {
        match &self.param {
            Param::Conn(param) => &param.private_data,
            Param::Datagram(param) => &param.private_data,
            _ => &[],
        }
    }

    /// The name of the device that it came to.
    pub fn device_name(&self) -> &str {
        &self.device
    }

    /// Opens the device that it came to, for a domain or for [`QpBuilder::on`](crate::QpBuilder::on).
    ///
    /// # Errors
    /// If the device is gone.
    pub fn open_device(&self) -> Result<Device, OpenError> {
        Device::open_on(Some(self.provider), Some(self.device.clone()))
    }

    /// Refuses, with up to 148 bytes for the peer (datagrams: 136).
    ///
    /// # Errors
    /// If there are more bytes; the peer is then refused without them.
    pub fn reject(mut self, private_data: &[u8]) -> Result<(), ConnectError> {
        let result = self.take().reject(Refusal::PROGRAM, private_data);
        match result {
            // The peer has given up by itself.
            Err(ConnectError::Gone(_)) => Ok(()),
            other => other,
        }
    }

    fn take(&mut self) -> Arc<CmConnection> {
        self.cm.take().expect("is taken only by those who consume the request")
    }
}

impl<S: Connected> Incoming<S> {
    /// An endpoint with everything of its own, on the device that the request came to: for
    /// [`accept`](Incoming::accept), after receives were posted.
    ///
    /// # Errors
    /// If the device is gone, or has no resources left.
    pub fn endpoint(&self) -> Result<Endpoint<Unconnected<S>>, EndpointError> {
        Endpoint::connected_on(&self.open_device()?, self.local.ip())
    }

    /// Connects `qp` to the peer and hands it up to 196 bytes of private data. The result is a future
    /// of the connection, which stands when the peer has confirmed it.
    pub fn accept<Q: Connectable<Service = S>>(self, qp: Q, private_data: &[u8]) -> Connecting<Q> {
        Connecting::of(self.peer, self.begin(qp, private_data))
    }

    fn begin<Q: Connectable<Service = S>>(
        mut self,
        qp: Q,
        private_data: &[u8],
    ) -> Result<PendingConnection<Q>, ConnectError> {
        let (qp, rest) = qp.place(&self.device)?;
        let cm = self.take();
        let wanted = match std::mem::take(&mut self.param) {
            Param::Conn(wanted) => wanted,
            _ => ConnParam::default(),
        };
        let accepted = cm.accept(&qp.connector(), &wanted, private_data);
        if let Err(error) = accepted {
            let refusal = if matches!(error, ConnectError::Mtu { .. }) { Refusal::MTU } else { Refusal::PROGRAM };
            // The peer may have given up.
            let _ = cm.reject(refusal, &[]);
            return Err(error);
        }
        Ok(PendingConnection::accepted(cm, qp, rest))
    }
}

impl Incoming<Ud> {
    /// An endpoint for datagrams with everything of its own, on the device that the request came to.
    ///
    /// # Errors
    /// If the device is gone, or has no resources left.
    pub fn endpoint(&self) -> Result<Endpoint<UdQueuePair>, EndpointError> {
        Endpoint::ud_on(&self.open_device()?, self.local.ip())
    }

    /// Tells the peer to send its datagrams to `endpoint`, and hands it up to 136 bytes of private data.
    ///
    /// # Errors
    /// If the endpoint is on another device, or there is more private data.
    pub fn answer(mut self, endpoint: &UdQueuePair, private_data: &[u8]) -> Result<(), ConnectError> {
        let device = endpoint.device().info().name;
        if device != self.device {
            return Err(ConnectError::OtherDevice { device, needed: self.device.clone() });
        }
        let cm = self.take();
        let answered = cm.answer(&endpoint.address_handle(), private_data);
        answered.inspect_err(|_| drop(cm.reject(Refusal::PROGRAM, &[])))
    }
}

impl<S: Service> Drop for Incoming<S> {
    fn drop(&mut self) {
        if let Some(cm) = self.cm.take() {
            // The peer may have given up, and a forked child has nothing to refuse.
            let _ = cm.reject(Refusal::PROGRAM, &[]);
        }
    }
}

impl<S: Service> fmt::Debug for Incoming<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({:?} from {} to {})", S::TYPE, self.peer, self.local)
    }
}
