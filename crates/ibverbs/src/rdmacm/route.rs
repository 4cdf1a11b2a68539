//! The fields of a structure that show its id's device, addresses and path.

use std::net::SocketAddr;

use ::connect::{Binding, Id};
use device::{AddressVector, Gid};

use crate::boundary::Errno;
use crate::rdmacm::devices;
use crate::rdmacm::id_object::IdOwn;
use crate::verbs::context::ContextOwn;
use abi::*;

/// The one partition, big-endian in every structure.
const PKEY: u16 = 0xffff;
/// "Exactly", of MTU, rate and lifetime (IB specification 15.2.5.16).
const EXACTLY: u8 = 2;
/// The lifetime of a packet: 4.096 µs · 2^16, as Linux has it for Ethernet.
const PACKET_LIFE_TIME: u8 = 16;

/// Brings the structure up to date.
///
/// # Errors
/// If the id's device cannot be opened.
///
/// # Safety
/// `c` is the structure that `own` belongs to.
pub(super) unsafe fn refresh(c: *mut rdma_cm_id, own: &IdOwn) -> Result<(), Errno> {
    // SAFETY: the contract of `refresh`: `c` is the structure that `own` belongs to; programs may write to it, so
    // nothing refers to it.
    unsafe {
        addresses(c, &own.id);
        let Some(binding) = own.id.binding() else { return Ok(()) };
        if (*c).verbs.is_null() {
            if may_be_any_device(&own.id) {
                return Ok(());
            }
            let opened = devices::open(&binding.device)?;
            (&raw mut (*c).verbs).write(opened.context);
            (&raw mut (*c).port_num).write(1);
            if (*c).pd.is_null() {
                (&raw mut (*c).pd).write(opened.pd);
            }
        }
        gids(c, &binding, own.id.peer_addr());
    }
    Ok(())
}

/// True if an id that is bound to a loop-back address shows no device yet. Linux takes such an address as a wildcard,
/// and programs such as libfabric count on it: they bind to "localhost" and then use another device. Where the
/// loop-back device is the only one, it is meant.
fn may_be_any_device(id: &Id) -> bool {
    let is_loopback = id.peer_addr().is_none() && id.local_addr().is_some_and(|local| local.ip().is_loopback());
    is_loopback && devices::reach_a_network()
}

/// # Safety
/// A structure that exists.
unsafe fn addresses(c: *mut rdma_cm_id, id: &Id) {
    // SAFETY: the contract of `addresses`: a structure that exists.
    unsafe {
        if let Some(local) = id.local_addr() {
            (&raw mut (*c).route.addr.src_storage).write(socket_address::storage(local));
        }
        if let Some(peer) = id.peer_addr() {
            (&raw mut (*c).route.addr.dst_storage).write(socket_address::storage(peer));
        }
    }
}

/// # Safety
/// A structure that exists.
unsafe fn gids(c: *mut rdma_cm_id, binding: &Binding, peer: Option<SocketAddr>) {
    let dgid = peer.map(|peer| Gid::from(peer.ip())).unwrap_or_default();
    let shown =
        rdma_ib_addr { sgid: ibv_gid { raw: binding.gid.0 }, dgid: ibv_gid { raw: dgid.0 }, pkey: PKEY.to_be() };
    // SAFETY: the contract of `gids`: a structure that exists.
    unsafe { (&raw mut (*c).route.addr.addr).write(shown) };
}

/// Shows the one path of an id whose route is resolved, or that came with a request.
///
/// # Safety
/// As [`refresh`].
pub(super) unsafe fn show_path(c: *mut rdma_cm_id, own: &IdOwn) {
    let (Some(binding), Some(path)) = (own.id.binding(), own.id.path()) else { return };
    // SAFETY: `verbs` is null or the open context that `refresh` wrote.
    let speed_mbps = unsafe { ContextOwn::of((*c).verbs) }.map_or(0, |context| context.device.port().speed_mbps);
    let mut record = Box::new(record(&binding, &path, speed_mbps));
    // SAFETY: the contract of `show_path`, which is that of `refresh`. The record lives until the next one is shown,
    // or as long as the id.
    unsafe {
        (&raw mut (*c).route.path_rec).write(&raw mut *record);
        (&raw mut (*c).route.num_paths).write(1);
    }
    own.state.lock().path = Some(record);
}

fn record(binding: &Binding, path: &AddressVector, speed_mbps: u32) -> ibv_sa_path_rec {
    let mut record = ibv_sa_path_rec::zeroed();
    record.dgid = ibv_gid { raw: path.destination.0 };
    record.sgid = ibv_gid { raw: path.source.0 };
    record.flow_label = path.flow_label.to_be();
    record.hop_limit = path.hop_limit;
    record.traffic_class = path.traffic_class;
    record.reversible = 1;
    record.numb_path = 1;
    record.pkey = PKEY.to_be();
    (record.mtu_selector, record.mtu) = (EXACTLY, binding.mtu as u8);
    (record.rate_selector, record.rate) = (EXACTLY, rate(speed_mbps));
    (record.packet_life_time_selector, record.packet_life_time) = (EXACTLY, PACKET_LIFE_TIME);
    record
}

/// The largest `enum ibv_rate` of Ethernet that is not faster than the link; 10 Gb/s if the speed is unknown.
fn rate(speed_mbps: u32) -> u8 {
    const RATES: [(u32, u8); 7] =
        [(400_000, 21), (200_000, 17), (100_000, 16), (40_000, 7), (25_000, 15), (10_000, 3), (2_500, 2)];
    match speed_mbps {
        0 => 3,
        speed => RATES.iter().find(|(mbps, _)| *mbps <= speed).map_or(2, |(_, rate)| *rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_never_faster_than_the_link_but_the_slowest() {
        for (mbps, expected) in [(0, 3), (100, 2), (1_000, 2), (10_000, 3), (25_000, 15), (50_000, 7), (400_000, 21)] {
            assert_eq!(rate(mbps), expected, "{mbps}");
        }
    }
}
