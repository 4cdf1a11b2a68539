//! Things that can be connected.

use std::net::IpAddr;

use device::Provider;

use super::Connection;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::open_device::Device;
use crate::qp::{Connected, QpBuilder, Unconnected};

/// The parts of a connection that the argument has decided.
#[doc(hidden)]
#[derive(Debug)]
pub struct Demands {
    pub(super) provider: Provider,
    pub(super) device: Option<String>,
    /// The local address.
    pub(super) source: Option<IpAddr>,
}

mod sealed {
    pub trait Sealed {}
}

/// The argument of [`connect`](crate::connect) and [`Incoming::accept`](crate::Incoming::accept): an
/// [`Unconnected`] queue pair, a [`QpBuilder`], or an [`Endpoint`]. See [which
/// device](crate::connection#which-device).
pub trait Connectable: sealed::Sealed + Send + Sized + 'static {
    /// The transport service.
    type Service: Connected;
    /// Its connected form.
    type Output;
    /// The remaining parts of the argument while the queue pair connects.
    #[doc(hidden)]
    type Rest: Send;

    #[doc(hidden)]
    fn demands(&self) -> Demands;

    /// Its queue pair, on the given device.
    #[doc(hidden)]
    fn place(self, device: &str) -> Result<(Unconnected<Self::Service>, Self::Rest), ConnectError>;

    /// The whole, connected.
    #[doc(hidden)]
    fn finish(rest: Self::Rest, connection: Connection<Self::Service>) -> Self::Output;
}

impl<S> sealed::Sealed for Unconnected<S> {}
impl<S> sealed::Sealed for QpBuilder<S> {}
impl<Q> sealed::Sealed for Endpoint<Q> {}

impl<S: Connected> Connectable for Unconnected<S> {
    type Service = S;
    type Output = Connection<S>;
    type Rest = ();

    fn demands(&self) -> Demands {
        let (device, source) = (self.device(), self.chosen_address());
        Demands { provider: device.provider(), device: Some(device.info().name), source }
    }

    fn place(self, needed: &str) -> Result<(Unconnected<S>, ()), ConnectError> {
        let device = self.device().info().name;
        match device == needed {
            true => Ok((self, ())),
            false => Err(ConnectError::OtherDevice { device, needed: needed.to_owned() }),
        }
    }

    fn finish((): (), connection: Connection<S>) -> Connection<S> {
        connection
    }
}

impl<S: Connected> Connectable for QpBuilder<S> {
    type Service = S;
    type Output = Connection<S>;
    type Rest = ();

    fn demands(&self) -> Demands {
        Demands { provider: self.device().provider(), device: None, source: self.chosen_address() }
    }

    fn place(self, device: &str) -> Result<(Unconnected<S>, ()), ConnectError> {
        let here = self.device().info().name == device;
        let other = || Device::open_on(Some(self.device().provider()), Some(device.to_owned()));
        let builder = if here {
            self
        } else {
            let other = other()?;
            self.on(&other)
        };
        Ok((builder.build()?, ()))
    }

    fn finish((): (), connection: Connection<S>) -> Connection<S> {
        connection
    }
}

impl<S: Connected> Connectable for Endpoint<Unconnected<S>> {
    type Service = S;
    type Output = Endpoint<Connection<S>>;
    type Rest = Endpoint<()>;

    fn demands(&self) -> Demands {
        Unconnected::demands(self)
    }

    fn place(self, device: &str) -> Result<(Unconnected<S>, Endpoint<()>), ConnectError> {
        let (qp, rest) = self.take(());
        Ok((qp.place(device)?.0, rest))
    }

    fn finish(rest: Endpoint<()>, connection: Connection<S>) -> Endpoint<Connection<S>> {
        rest.take(connection).1
    }
}
