//! The addresses at which the connection manager finds a device.

use std::net::{IpAddr, SocketAddr};

use connect::PortSpace;
use transport::QpType;

use crate::cm::binding;
use crate::cm::owned_id::OwnedCmId;
use crate::library::rdma_cm;

/// The addresses of this host that lead to the device `name`. The GIDs of iWARP devices are made of Ethernet addresses and
/// tell none. So each address is asked for: an id that is bound to it names the device (`rdma_bind_addr(3)`).
pub(crate) fn of_device(name: &str) -> Vec<IpAddr> {
    let interfaces = udp::interfaces().unwrap_or_default();
    let up = interfaces.iter().filter(|interface| interface.up);
    let addresses = up.flat_map(|interface| &interface.addresses).map(|of_interface| of_interface.address);
    addresses.filter(|address| device_at(*address).is_some_and(|device| device == name)).collect()
}

/// The name of the device that an id gets which is bound to the address.
fn device_at(address: IpAddr) -> Option<String> {
    let service = (PortSpace::Tcp, QpType::Rc);
    let id = OwnedCmId::bound(rdma_cm().ok()?, service, SocketAddr::new(address, 0)).ok()?;
    binding::of(&id).map(|binding| binding.device)
}
