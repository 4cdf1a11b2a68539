//! The connection manager: ids and their events.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use connect::{Binding, ConnParam, Error, EventKind, IdKey, Param, PortSpace};
use device::Provider;
use transport::{AttrMask, Mtu, QpAttr, QpState, QpType};

/// A queue of events of ids.
#[derive(Clone, Debug)]
pub enum EventQueue {
    /// For ids of Longarm.
    Longarm(connect::EventQueue),
    /// For ids of the system.
    Verbs(verbs::cm::EventQueue),
}

impl EventQueue {
    /// An empty queue.
    ///
    /// # Errors
    /// If the process has no descriptor left, or the system has no `librdmacm.so.1`.
    pub fn new(provider: Provider) -> Result<EventQueue, Error> {
        Ok(match provider {
            Provider::Longarm => EventQueue::Longarm(connect::EventQueue::new()?),
            Provider::Verbs => EventQueue::Verbs(verbs::cm::EventQueue::new()?),
        })
    }

    /// Takes the oldest event. Never waits.
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<Event> {
        match self {
            EventQueue::Longarm(queue) => queue.next().map(|event| Event {
                id: Id::Longarm(event.id),
                listener: event.listener.map(Id::Longarm),
                kind: event.kind,
                status: event.status,
                param: event.param,
            }),
            EventQueue::Verbs(queue) => queue.next().map(|event| Event {
                id: Id::Verbs(event.id),
                listener: event.listener.map(Id::Verbs),
                kind: event.kind,
                status: event.status,
                param: event.param,
            }),
        }
    }

    /// Readable exactly while the queue holds events. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        either!(self, queue => queue.fd())
    }
}

/// An event of an id.
#[derive(Clone, Debug)]
pub struct Event {
    /// The id. That of a connect request is the new one, and this its only handle: dropping the event rejects the request.
    pub id: Id,
    /// The listening id of a connect request.
    pub listener: Option<Id>,
    /// The kind of event.
    pub kind: EventKind,
    /// Zero; a negative errno; or the reason of a rejection, positive.
    pub status: i32,
    /// The event's parameters.
    pub param: Param,
}

/// An id: one end of a connection, or a listener.
#[derive(Clone, Debug)]
pub enum Id {
    /// See [`Provider::Longarm`].
    Longarm(connect::Id),
    /// See [`Provider::Verbs`].
    Verbs(verbs::cm::Id),
}

impl Id {
    /// An id whose events go to `queue`.
    ///
    /// # Errors
    /// If the provider refuses.
    pub fn new(queue: &EventQueue, space: PortSpace, qp_type: QpType) -> Result<Id, Error> {
        Ok(match queue {
            EventQueue::Longarm(queue) => Id::Longarm(connect::Id::new(queue, space, qp_type)?),
            EventQueue::Verbs(queue) => Id::Verbs(verbs::cm::Id::new(queue, space, qp_type)?),
        })
    }

    /// Its provider.
    pub fn provider(&self) -> Provider {
        match self {
            Id::Longarm(_) => Provider::Longarm,
            Id::Verbs(_) => Provider::Verbs,
        }
    }

    /// Names it among the ids of its provider.
    pub fn key(&self) -> IdKey {
        either!(self, id => id.key())
    }

    /// The service of its queue pair.
    pub fn qp_type(&self) -> QpType {
        either!(self, id => id.qp_type())
    }

    /// Our address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        either!(self, id => id.local_addr())
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        either!(self, id => id.peer_addr())
    }

    /// The device that it is bound to.
    pub fn binding(&self) -> Option<Binding> {
        either!(self, id => id.binding())
    }

    /// Ends it. No event about it follows.
    pub fn destroy(&self) {
        either!(self, id => id.destroy());
    }

    /// Binds it to our address.
    ///
    /// # Errors
    /// If the port is in use, or no device has the address.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        either!(self, id => id.bind(address))
    }

    /// Accepts requests for connections from now on.
    ///
    /// # Errors
    /// If it is not bound.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        either!(self, id => id.listen(backlog))
    }

    /// Finds the device that leads to a destination. This may block.
    ///
    /// # Errors
    /// If none does.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr) -> Result<(), Error> {
        either!(self, id => id.resolve_addr(source, destination))
    }

    /// Finds the path to the destination. This may block.
    ///
    /// # Errors
    /// If there is none.
    pub fn resolve_route(&self) -> Result<(), Error> {
        either!(self, id => id.resolve_route())
    }

    /// Asks the peer for a connection.
    ///
    /// # Errors
    /// If the id is in no state for it.
    pub fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        either!(self, id => id.connect(param))
    }

    /// Tells the peer that our queue pair is ready.
    ///
    /// # Errors
    /// If the id is in no state for it.
    pub fn establish(&self) -> Result<(), Error> {
        either!(self, id => id.establish())
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// If the peer has given up, or the id is in no state for it.
    pub fn accept(&self, param: &ConnParam) -> Result<(), Error> {
        either!(self, id => id.accept(param))
    }

    /// Refuses a request. The system's library tells the peer no reason of ours.
    ///
    /// # Errors
    /// As [`accept`](Id::accept).
    pub fn reject(&self, private_data: &[u8], reason: u16) -> Result<(), Error> {
        either!(self, id => id.reject(private_data, reason))
    }

    /// Ends the connection.
    ///
    /// # Errors
    /// If there is none.
    pub fn disconnect(&self) -> Result<(), Error> {
        either!(self, id => id.disconnect())
    }

    /// The attributes for a state of the queue pair.
    ///
    /// # Errors
    /// If the id does not know them yet.
    pub fn qp_attr(&self, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
        either!(self, id => id.qp_attr(state))
    }

    /// Sets the path MTU to offer.
    ///
    /// # Errors
    /// If the id is in no state for it.
    pub fn set_mtu(&self, mtu: Mtu) -> Result<(), Error> {
        either!(self, id => id.set_mtu(mtu))
    }
}
