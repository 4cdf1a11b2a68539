//! Events, options and counters of a session for managing connections.

use crate::mad::AddressedMad;
use crate::record::DeviceRecord;

/// An event of [`ManagerSession::next_event`](super::ManagerSession::next_event).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerEvent {
    /// A MAD arrived.
    Mad(AddressedMad),
    /// The network could not deliver a REQ or SIDR_REQ. Only a hint: any host on the
    /// path can forge it. The local address is not known.
    Undelivered {
        /// The MAD.
        packet: AddressedMad,
        /// The reason: `ECONNREFUSED` if the other host has no RDMA, `EHOSTUNREACH` if there is none.
        errno: i32,
    },
    /// Addresses, MTU or link state changed: the whole new list.
    DevicesChanged(Vec<DeviceRecord>),
    /// The hub is gone. The session looks for a new one; MADs are dropped until then.
    HubLost,
    /// A new hub knows this process, its ports and its closing messages.
    Reattached,
    /// The process has a new number for future communication ids: another process had
    /// its old one when it came back.
    Renumbered(u16),
    /// Another process had the port when this one came back to a new hub. The token is
    /// invalid.
    BindingLost {
        /// The port's token.
        token: u64,
    },
}

/// Options of a binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOptions {
    /// `RDMA_OPTION_ID_REUSEADDR`: shares the port with other bindings that have this set, as long as
    /// none listens.
    pub reuse: bool,
    /// `RDMA_OPTION_ID_AFONLY`: the unspecified IPv6 address does not include IPv4.
    pub afonly: bool,
}

/// A port of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundPort {
    /// Identifies the port for [`ManagerSession::listen`](super::ManagerSession::listen) and
    /// [`ManagerSession::unbind`](super::ManagerSession::unbind). Never used again.
    pub token: u64,
    /// The port.
    pub port: u16,
}

/// The messages that a session has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// MADs dropped because there was no hub, or it did not read.
    pub mads_dropped: u64,
    /// Closing messages dropped because there were too many (131,072).
    pub closing_dropped: u64,
}
