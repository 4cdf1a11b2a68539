//! Things that can be connected.

use std::net::IpAddr;

use super::Connection;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::qp::{Connected, QpBuilder, Unconnected};

mod sealed {
    pub trait Sealed {}
}

/// The argument of [`connect`](crate::connect) and [`Request::accept`](crate::Request::accept): an
/// [`Unconnected`] queue pair, a [`QpBuilder`], or an [`Endpoint`]. See [which
/// device](crate::connection#which-device).
pub trait Connectable: sealed::Sealed {
    /// The transport service.
    type Service: Connected;
    /// Its connected form.
    type Output;
    /// The remaining parts of the argument while the queue pair connects.
    #[doc(hidden)]
    type Rest;

    /// The device and the local address that it requires.
    #[doc(hidden)]
    fn insists(&self) -> (Option<String>, Option<IpAddr>);

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

    fn insists(&self) -> (Option<String>, Option<IpAddr>) {
        (Some(self.context().info().name), self.chosen_address())
    }

    fn place(self, needed: &str) -> Result<(Unconnected<S>, ()), ConnectError> {
        let device = self.context().info().name;
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

    fn insists(&self) -> (Option<String>, Option<IpAddr>) {
        (None, self.chosen_address())
    }

    fn place(self, device: &str) -> Result<(Unconnected<S>, ()), ConnectError> {
        let here = self.context().info().name == device;
        let builder = if here { self } else { self.on(&Context::open_named(device)?) };
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

    fn insists(&self) -> (Option<String>, Option<IpAddr>) {
        Unconnected::insists(self)
    }

    fn place(self, device: &str) -> Result<(Unconnected<S>, Endpoint<()>), ConnectError> {
        let (qp, rest) = self.take(());
        Ok((qp.place(device)?.0, rest))
    }

    fn finish(rest: Endpoint<()>, connection: Connection<S>) -> Endpoint<Connection<S>> {
        rest.take(connection).1
    }
}
