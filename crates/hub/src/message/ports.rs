//! What clients say about ports.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A port that a client wants, or has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindSpec {
    /// The port space: `RDMA_PS_TCP` (0x0106), `RDMA_PS_UDP` (0x0111), `RDMA_PS_IB` (0x013f) or
    /// `RDMA_PS_IPOIB` (2).
    pub space: u16,
    /// The address, which may be unspecified, and the port; 0 is any port of the ephemeral range.
    pub address: SocketAddr,
    /// Whether it shares the port with others that say so, too, as long as nobody listens.
    pub reuse: bool,
    /// Whether the unspecified IPv6 address stands for IPv6 only.
    pub afonly: bool,
}

/// Why a port is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindRefusal {
    /// Somebody has it.
    InUse,
    /// The address is not one of this host's.
    NotAvailable,
    /// No port of the ephemeral range is free.
    NoPort,
    /// The client has as many ports as it may have.
    TooMany,
    /// There is no such port space.
    UnknownSpace,
    /// A link-local address without its interface, or no address of a host at all.
    InvalidAddress,
    /// The client has no such port, or has it already.
    UnknownToken,
}
