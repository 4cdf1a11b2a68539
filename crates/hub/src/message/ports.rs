//! Ports in requests and refusals.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The port that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindSpec {
    /// The port space: `RDMA_PS_TCP` (0x0106), `RDMA_PS_UDP` (0x0111), `RDMA_PS_IB` (0x013f) or
    /// `RDMA_PS_IPOIB` (2).
    pub space: u16,
    /// The address, which may be unspecified, and the port. Port 0 is any port of the ephemeral range.
    pub address: SocketAddr,
    /// Whether it shares the port with other bindings that have this set, as long as none listens.
    pub reuse: bool,
    /// Whether the unspecified IPv6 address excludes IPv4.
    pub afonly: bool,
}

/// The reason why the hub does not bind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindRefusal {
    /// Another binding has it.
    InUse,
    /// The address is not one of this host's.
    NotAvailable,
    /// No port of the ephemeral range is free.
    NoPort,
    /// The client has its most ports already.
    TooMany,
    /// There is no such port space.
    UnknownSpace,
    /// A link-local address without its interface, or no address of a host at all.
    InvalidAddress,
    /// The client has no port with this token; to bind, it has one already.
    UnknownToken,
}
