//! What a session for managing connections takes and gives.

use crate::mad::MadPacket;
use crate::record::DeviceRecord;

/// What happened, from [`ManagerSession::next_event`](super::ManagerSession::next_event).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerEvent {
    /// A MAD arrived.
    Mad(MadPacket),
    /// The network could not deliver a MAD that begins something (REQ, SIDR_REQ). A hint: who is on
    /// the way may have made it up. The local address is not known.
    Undelivered {
        /// The MAD.
        packet: MadPacket,
        /// Why: `ECONNREFUSED` if the other host has no RDMA, `EHOSTUNREACH` if there is none.
        errno: i32,
    },
    /// Addresses, MTU or link state changed; here is the whole new list.
    DevicesChanged(Vec<DeviceRecord>),
    /// The hub is gone. The session looks for a new one; MADs are lost until then.
    HubLost,
    /// A new hub knows this process, with what it had.
    Reattached,
    /// The process has another number, for communication ids made from now on: its old one had
    /// been given away when it came back.
    Renumbered(u16),
    /// A port had been given away when the process came back to a new hub. Its token means
    /// nothing any more.
    BindingLost {
        /// The port's token.
        token: u64,
    },
}

/// How to bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOptions {
    /// `RDMA_OPTION_ID_REUSEADDR`: shares the port with others that have this set, as long as
    /// nobody listens.
    pub reuse: bool,
    /// `RDMA_OPTION_ID_AFONLY`: the unspecified IPv6 address does not stand for IPv4, too.
    pub afonly: bool,
}

/// A port of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its name for [`ManagerSession::listen`](super::ManagerSession::listen) and [`ManagerSession::unbind`](super::ManagerSession::unbind). Never used again.
    pub token: u64,
    /// The port.
    pub port: u16,
}

/// What the session has given up, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// MADs not sent because there was no hub, or it did not read.
    pub mads_dropped: u64,
    /// ClosingMessages not kept since there were too many (131,072).
    pub closing_dropped: u64,
}
