//! Port spaces.

use transport::QpType;

/// A space of port numbers, and with it the kind of service; `enum rdma_port_space`. The ports are
/// independent of those of TCP and UDP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum PortSpace {
    /// Multicast with the groups' keys of IP over InfiniBand.
    Ipoib = 0x0002,
    /// Reliable connections.
    Tcp = 0x0106,
    /// Datagrams: a connection request asks for the queue pair's number and key.
    Udp = 0x0111,
    /// Any service.
    Ib = 0x013f,
}

impl PortSpace {
    /// The space by its number in `enum rdma_port_space`.
    pub fn from_number(number: u32) -> Option<PortSpace> {
        [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib]
            .into_iter()
            .find(|space| *space as u32 == number)
    }

    /// The default transport service of an id of this space.
    pub fn qp_type(self) -> QpType {
        match self {
            PortSpace::Tcp | PortSpace::Ib => QpType::Rc,
            PortSpace::Udp | PortSpace::Ipoib => QpType::Ud,
        }
    }
}
