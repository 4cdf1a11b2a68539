//! The addresses of a name, one after the other.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ::connect::{Binding, PortSpace};
use device::Provider;
use provider::cm::Id;
use transport::QpType;

use super::Target;
use super::dispatch::Dispatcher;
use crate::error::ConnectError;

/// The destinations that a request may try, and its source.
pub(super) struct Attempts {
    pub(super) dispatcher: Arc<Dispatcher>,
    addresses: std::vec::IntoIter<SocketAddr>,
    qp_type: QpType,
    source: Option<IpAddr>,
    /// The device that the queue pair is on, once there is one.
    device: Option<String>,
}

/// The port space of a service. A port of one is free in the others.
pub(super) fn space(qp_type: QpType) -> PortSpace {
    match qp_type {
        QpType::Rc => PortSpace::Tcp,
        QpType::Ud => PortSpace::Udp,
        _ => PortSpace::Ib,
    }
}

impl Attempts {
    /// The addresses of `to`, on the devices of one provider. Looks a name up, which may block for seconds.
    pub(super) fn of(to: Target, qp_type: QpType, provider: Provider) -> Result<Attempts, ConnectError> {
        let addresses = to.resolve().map_err(ConnectError::Name)?;
        let dispatcher = Dispatcher::get(provider)?;
        Ok(Attempts { dispatcher, addresses: addresses.into_iter(), qp_type, source: None, device: None })
    }

    /// Sets the source address of packets.
    pub(super) fn from(self, source: Option<IpAddr>) -> Attempts {
        Attempts { source, ..self }
    }

    /// Only addresses that this device leads to.
    pub(super) fn on(&mut self, device: Option<String>) {
        self.device = device.or(self.device.take());
    }

    /// An id that may connect to the next address, and the device that leads there. Addresses that none
    /// leads to are passed over.
    ///
    /// # Errors
    /// If no address is left: the error of the last one.
    pub(super) fn next(&mut self) -> Result<(Id, Binding), ConnectError> {
        let mut error = None;
        while let Some(address) = self.addresses.next() {
            match self.resolve(address) {
                Ok(found) => return Ok(found),
                Err(why) => error = Some(why),
            }
        }
        let no_address = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        Err(error.unwrap_or_else(|| ConnectError::Name(no_address())))
    }

    /// True if no address is left.
    pub(super) fn is_over(&self) -> bool {
        self.addresses.as_slice().is_empty()
    }

    fn resolve(&self, address: SocketAddr) -> Result<(Id, Binding), ConnectError> {
        let id = Id::new(self.dispatcher.queue(), space(self.qp_type), self.qp_type)?;
        let source = self.source.map(|ip| SocketAddr::new(ip, 0));
        id.resolve_addr(source, address)?;
        id.resolve_route()?;
        let binding = id.binding().ok_or(ConnectError::NoRoute { peer: address.ip() })?;
        match &self.device {
            Some(device) if *device != binding.device => {
                let (device, needed) = (device.clone(), binding.device);
                Err(ConnectError::OtherDevice { device, needed })
            }
            _ => Ok((id, binding)),
        }
    }
}

/// True if the first attempt would block its thread: to look a name up, or in the connection manager of the system.
pub(super) fn blocks(to: &Target, provider: Provider) -> bool {
    to.addresses().is_none() || provider != Provider::Longarm
}

/// True if the next address may succeed where this one failed.
pub(super) fn is_worth_another(error: &ConnectError) -> bool {
    use crate::error::Refusal;
    match error {
        ConnectError::Refused { refusal, .. } => *refusal == Refusal::NO_LISTENER,
        ConnectError::Unreachable(_) => true,
        _ => false,
    }
}
