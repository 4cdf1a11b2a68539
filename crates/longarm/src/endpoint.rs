//! Endpoints: a queue pair with everything around it, in one value.

use std::net::IpAddr;
use std::ops::Deref;

use transport::Access;

use crate::buffer::Buffer;
use crate::cq::CompletionQueue;
use crate::domain::ProtectionDomain;
use crate::error::{EndpointError, ResourceError};
use crate::open_device::Device;
use crate::qp::{Connected, QpBuilder, UdQueuePair, Unconnected};
use crate::region::MemoryRegion;

/// A queue pair together with a device, a protection domain and a completion queue of
/// its own, for programs with one connection.
///
/// It comes from [`Endpoint::connect`], or from [`Route::rc`](crate::Route::rc) and [`connect`](crate::connect), or from
/// [`Incoming::endpoint`](crate::Incoming::endpoint) and [`accept`](crate::Incoming::accept). It dereferences to
/// its queue pair.
///
/// Programs with more than one connection share a [`ProtectionDomain`] and a
/// [`CompletionQueue`] among them, and make the queue pairs themselves.
#[derive(Debug)]
pub struct Endpoint<Q> {
    qp: Q,
    cq: CompletionQueue,
    domain: ProtectionDomain,
}

impl Endpoint<UdQueuePair> {
    /// An endpoint for datagrams, on the default device. One on the device that leads to an address
    /// comes from [`Route::ud`](crate::Route::ud).
    ///
    /// # Errors
    /// If the device cannot be opened, or has no resources left.
    pub fn ud() -> Result<Endpoint<UdQueuePair>, EndpointError> {
        let device = Device::open()?;
        let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
        let qp = domain.ud(&cq).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl<S: Connected> Endpoint<Unconnected<S>> {
    /// For a connection from one address of the device's.
    pub(crate) fn connected_on(device: &Device, ip: IpAddr) -> Result<Endpoint<Unconnected<S>>, EndpointError> {
        let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
        let qp = QpBuilder::<S>::new(&domain, &cq).gid(ip.into()).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl Endpoint<UdQueuePair> {
    /// For datagrams from one address of the device's.
    pub(crate) fn ud_on(device: &Device, ip: IpAddr) -> Result<Endpoint<UdQueuePair>, EndpointError> {
        let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
        let qp = domain.ud(&cq).gid(ip.into()).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl<Q> Endpoint<Q> {
    /// The endpoint's queue pair, with another in its place.
    pub(crate) fn take<R>(self, qp: R) -> (Q, Endpoint<R>) {
        (self.qp, Endpoint { qp, cq: self.cq, domain: self.domain })
    }

    /// The protection domain.
    pub fn protection_domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// The completion queue, of sends and receives.
    pub fn completion_queue(&self) -> &CompletionQueue {
        &self.cq
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.domain.device()
    }

    /// Allocates a buffer; see [`ProtectionDomain::allocate`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate(&self, len: usize) -> Result<Buffer, ResourceError> {
        self.domain.allocate(len)
    }

    /// Exposes memory to the peer; see [`ProtectionDomain::expose`].
    ///
    /// # Errors
    /// As there.
    pub fn expose(&self, len: usize, access: Access) -> Result<MemoryRegion, ResourceError> {
        self.domain.expose(len, access)
    }
}

impl<Q> Deref for Endpoint<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.qp
    }
}
