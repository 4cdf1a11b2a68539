//! Endpoints: a queue pair with everything around it, in one value.

use std::net::IpAddr;
use std::ops::Deref;

use transport::Access;

use crate::buffer::Buffer;
use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::domain::ProtectionDomain;
use crate::error::{EndpointError, ResourceError};
use crate::qp::{Connected, QpBuilder, UdEndpoint, Unconnected};
use crate::region::MemoryRegion;

/// A queue pair together with a context, a protection domain and a completion queue of
/// its own, for programs with one connection.
///
/// It comes from [`Endpoint::connect`], or from [`Route::rc`](crate::Route::rc) and [`connect`](crate::connect), or from
/// [`Request::endpoint`](crate::Request::endpoint) and [`accept`](crate::Request::accept). It dereferences to
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

impl Endpoint<UdEndpoint> {
    /// An endpoint for datagrams, on the default device. One on the device that leads to an address
    /// comes from [`Route::ud`](crate::Route::ud).
    ///
    /// # Errors
    /// If the device cannot be opened, or has no resources left.
    pub fn ud() -> Result<Endpoint<UdEndpoint>, EndpointError> {
        let context = Context::open()?;
        let (domain, cq) = (context.protection_domain()?, context.completion_queue()?);
        let qp = domain.ud(&cq).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl<S: Connected> Endpoint<Unconnected<S>> {
    /// For a connection from one address of the device's.
    pub(crate) fn connected_on(context: &Context, ip: IpAddr) -> Result<Endpoint<Unconnected<S>>, EndpointError> {
        let (domain, cq) = (context.protection_domain()?, context.completion_queue()?);
        let qp = QpBuilder::<S>::new(&domain, &cq).gid(ip.into()).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl Endpoint<UdEndpoint> {
    /// For datagrams from one address of the device's.
    pub(crate) fn ud_on(context: &Context, ip: IpAddr) -> Result<Endpoint<UdEndpoint>, EndpointError> {
        let (domain, cq) = (context.protection_domain()?, context.completion_queue()?);
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

    /// The context.
    pub fn context(&self) -> &Context {
        self.domain.context()
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
