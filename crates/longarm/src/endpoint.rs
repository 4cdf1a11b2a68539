//! Endpoints: a queue pair with everything around it, in one value.

use std::net::ToSocketAddrs;
use std::ops::Deref;
use std::time::Duration;

use transport::Access;

use crate::buffer::Buffer;
use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::domain::ProtectionDomain;
use crate::error::{ConnectError, OpenError, ResourceError};
use crate::exchange::{self, Listener};
use crate::qp::{Connected, QueuePair, Rc, Uc, UdEndpoint, Unconnected};
use crate::region::MemoryRegion;

/// A queue pair together with the default device, a protection domain and a completion queue of
/// its own: what a program with one connection needs.
///
/// It is made unconnected, and [connected](Endpoint::connect) or
/// [accepted](Endpoint::accept) like a socket. It dereferences to its queue pair.
///
/// Programs with more than one connection share a [`ProtectionDomain`] and a
/// [`CompletionQueue`] among them, and make the queue pairs themselves.
#[derive(Debug)]
pub struct Endpoint<Q> {
    qp: Q,
    cq: CompletionQueue,
    domain: ProtectionDomain,
}

/// Why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The device could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something could not be made.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

fn surroundings() -> Result<(ProtectionDomain, CompletionQueue), EndpointError> {
    let context = Context::open()?;
    Ok((context.protection_domain()?, context.completion_queue()?))
}

impl Endpoint<Unconnected<Rc>> {
    /// An endpoint for a reliable connection, on the default device.
    ///
    /// # Errors
    /// If the device cannot be opened, or has no resources left.
    pub fn rc() -> Result<Endpoint<Unconnected<Rc>>, EndpointError> {
        let (domain, cq) = surroundings()?;
        let qp = domain.rc(&cq).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl Endpoint<Unconnected<Uc>> {
    /// An endpoint for an unreliable connection, on the default device.
    ///
    /// # Errors
    /// As [`rc`](Endpoint::rc).
    pub fn uc() -> Result<Endpoint<Unconnected<Uc>>, EndpointError> {
        let (domain, cq) = surroundings()?;
        let qp = domain.uc(&cq).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl Endpoint<UdEndpoint> {
    /// An endpoint for datagrams, on the default device.
    ///
    /// # Errors
    /// As [`rc`](Endpoint::rc).
    pub fn ud() -> Result<Endpoint<UdEndpoint>, EndpointError> {
        let (domain, cq) = surroundings()?;
        let qp = domain.ud(&cq).build()?;
        Ok(Endpoint { qp, cq, domain })
    }
}

impl<S: Connected> Endpoint<Unconnected<S>> {
    /// Connects to an endpoint that listens at `address`, and hands it `blob`. Returns the peer's
    /// bytes as well. See [`exchange::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(
        self,
        address: impl ToSocketAddrs,
        blob: &[u8],
        timeout: Duration,
    ) -> Result<(Endpoint<QueuePair<S>>, Vec<u8>), ConnectError> {
        let Endpoint { qp, cq, domain } = self;
        let (qp, theirs) = exchange::connect(address, qp, blob, timeout)?;
        Ok((Endpoint { qp, cq, domain }, theirs))
    }

    /// Waits for a peer and connects to it. See [`Listener::accept`].
    ///
    /// # Errors
    /// As there.
    pub fn accept(
        self,
        listener: &Listener,
        blob: &[u8],
        timeout: Duration,
    ) -> Result<(Endpoint<QueuePair<S>>, Vec<u8>), ConnectError> {
        let Endpoint { qp, cq, domain } = self;
        let (qp, theirs) = listener.accept(qp, blob, timeout)?;
        Ok((Endpoint { qp, cq, domain }, theirs))
    }
}

impl<Q> Endpoint<Q> {
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
