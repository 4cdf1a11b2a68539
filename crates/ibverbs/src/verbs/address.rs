//! Address handles, and paths as the device takes them.

use std::net::IpAddr;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use device::{AddressVector, Gid, PortInfo};

use crate::boundary::{Errno, errno, minus_one, pointer, set_errno};
use crate::object::{CObject, next_handle};
use crate::verbs::context::ContextOwn;
use crate::verbs::domain::PdObject;
use abi::*;

/// Address handles of this process.
static HANDLES: AtomicU32 = AtomicU32::new(0);

pub(crate) type AhObject = CObject<ibv_ah, AddressVector>;

/// The hop limit of packets if the program sets none.
const HOP_LIMIT: u8 = 64;

/// The port's LID: RoCE has none, and programs that know nothing else get the low half of the
/// port's first IPv4 address.
pub(crate) fn lid(port: &PortInfo) -> u16 {
    first_v4(port).map_or(0, |gid| u16::from_be_bytes([gid.0[14], gid.0[15]]))
}

fn first_v4(port: &PortInfo) -> Option<Gid> {
    port.gids.iter().copied().find(|gid| gid.0[..12] == MAPPED_PREFIX)
}

/// The first bytes of an IPv4 address's GID.
const MAPPED_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The address behind a LID: the port's own with another low half.
fn by_lid(port: &PortInfo, lid: u16) -> Result<AddressVector, Errno> {
    let source = first_v4(port).filter(|_| lid != 0).ok_or(Errno::INVAL)?;
    let mut destination = source;
    destination.0[14..].copy_from_slice(&lid.to_be_bytes());
    Ok(AddressVector::new(source, destination))
}

/// An address as the device takes it. RoCE addresses by GID, so there should be a global route; without
/// one the LID decides, see [`lid`].
pub(crate) fn vector(context: &ContextOwn, attr: &ibv_ah_attr) -> Result<AddressVector, Errno> {
    if attr.port_num > 1 {
        return Err(Errno::INVAL);
    }
    let port = context.device.port();
    if attr.is_global == 0 {
        return by_lid(&port, attr.dlid);
    }
    let source = port.gids.get(usize::from(attr.grh.sgid_index)).copied().unwrap_or_default();
    // SAFETY: all bytes of a GID are valid.
    let destination = Gid(unsafe { attr.grh.dgid.raw });
    if source == Gid::default() || destination == Gid::default() {
        return Err(Errno::INVAL);
    }
    Ok(AddressVector {
        source,
        destination,
        flow_label: attr.grh.flow_label & 0xf_ffff,
        // Programs that know InfiniBand subnets only set zero or one. The kernel's RoCE takes
        // the route's limit then.
        hop_limit: if attr.grh.hop_limit > 1 { attr.grh.hop_limit } else { HOP_LIMIT },
        traffic_class: attr.grh.traffic_class,
    })
}

/// An address vector in C's structure, as `ibv_query_qp` reports it.
pub(crate) fn attr_of(context: &ContextOwn, vector: &AddressVector) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr::zeroed();
    if vector.destination == Gid::default() {
        return attr;
    }
    let port = context.device.port();
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh = ibv_global_route {
        dgid: ibv_gid { raw: vector.destination.0 },
        flow_label: vector.flow_label,
        sgid_index: port.gids.iter().position(|gid| *gid == vector.source).unwrap_or(0) as u8,
        hop_limit: vector.hop_limit,
        traffic_class: vector.traffic_class,
    };
    attr
}

/// `ibv_create_ah(3)`.
///
/// # Safety
/// An allocated domain and readable attributes.
pub(crate) unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    pointer(|| {
        // SAFETY: the contract of `ibv_create_ah`: an allocated domain and readable attributes.
        let (context, attr) = unsafe {
            PdObject::of(pd)?;
            ((*pd).context, attr.as_ref().ok_or(Errno::INVAL)?)
        };
        if attr.port_num != 1 {
            return Err(Errno::INVAL);
        }
        // SAFETY: a context stays open while domains are allocated on it.
        let vector = vector(unsafe { ContextOwn::of(context) }?, attr)?;
        // SAFETY: `PdObject::of` found the domain allocated.
        let (own, most) = unsafe { (PdObject::of(pd)?, ContextOwn::of(context)?.device.limits().max_ah) };
        let one_more = |handles: u32| (handles < most).then(|| handles + 1);
        HANDLES.fetch_update(Relaxed, Relaxed, one_more).map_err(|_| Errno::NOMEM)?;
        own.count_user(true);
        Ok(AhObject::leak(ibv_ah { context, pd, handle: next_handle() }, vector))
    })
}

/// `ibv_destroy_ah(3)`.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_destroy_ah`: null, or created.
        unsafe {
            AhObject::of(ah)?;
            // The domain lives as long as it has users.
            PdObject::whatever_handle((*ah).pd)?.count_user(false);
            AhObject::free(ah);
            HANDLES.fetch_sub(1, Relaxed);
        }
        Ok(())
    })
}

/// `ibv_init_ah_from_wc(3)`: the address of a datagram's sender.
///
/// # Safety
/// An open context, a completion and its GRH to read, and attributes to write.
pub(crate) unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `ibv_init_ah_from_wc` (see its Safety section).
        let (context, wc, attr) =
            unsafe { (ContextOwn::of(context)?, wc.as_ref().ok_or(Errno::INVAL)?, attr.as_mut().ok_or(Errno::INVAL)?) };
        if port != 1 {
            return Err(Errno::INVAL);
        }
        *attr = ibv_ah_attr::zeroed();
        (attr.port_num, attr.sl, attr.src_path_bits, attr.dlid) = (port, wc.sl, wc.dlid_path_bits, wc.slid);
        if wc.wc_flags & IBV_WC_GRH != 0 {
            // SAFETY: the contract of `ibv_init_ah_from_wc` (see its Safety section).
            attr.grh = answer(context, unsafe { grh.as_ref() }.ok_or(Errno::INVAL)?)?;
            attr.is_global = 1;
        }
        Ok(0)
    })
}

/// The route back along a received GRH. A GRH that stands for an IPv4 header has it in its last 20
/// bytes (RoCEv2 annex A17.4.5.2). No other GRH has a 4 in the first half byte there without the
/// version of IPv6 in front.
fn answer(context: &ContextOwn, grh: &ibv_grh) -> Result<ibv_global_route, Errno> {
    // SAFETY: a GRH is 40 bytes, all of them valid.
    let bytes: [u8; 40] = unsafe { std::mem::transmute_copy(grh) };
    let (sender, receiver, flow_label, traffic_class) = match (bytes[0] >> 4, bytes[20] >> 4) {
        (6, _) => {
            let word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            // SAFETY: all bytes of a GID are valid.
            let (sender, receiver) = unsafe { (Gid(grh.sgid.raw), Gid(grh.dgid.raw)) };
            (sender, receiver, word & 0xf_ffff, (word >> 20) as u8)
        }
        (_, 4) => (mapped(&bytes[32..36]), mapped(&bytes[36..40]), 0, bytes[21]),
        _ => return Err(Errno::INVAL),
    };
    let gids = context.device.port().gids;
    let sgid_index = gids.iter().position(|gid| *gid == receiver).unwrap_or(0);
    Ok(ibv_global_route {
        dgid: ibv_gid { raw: sender.0 },
        flow_label,
        sgid_index: sgid_index as u8,
        hop_limit: 0xff,
        traffic_class,
    })
}

fn mapped(address: &[u8]) -> Gid {
    let address: [u8; 4] = address.try_into().unwrap_or_default();
    Gid::from(IpAddr::from(address))
}

/// `ibv_create_ah_from_wc(3)`.
///
/// # Safety
/// As [`ibv_init_ah_from_wc`], and an allocated domain.
pub(crate) unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let mut attr = ibv_ah_attr::zeroed();
    if pd.is_null() {
        set_errno(Errno::INVAL);
        return std::ptr::null_mut();
    }
    // SAFETY: the contract of `ibv_create_ah_from_wc` includes that of `ibv_init_ah_from_wc`.
    unsafe {
        match ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attr) {
            0 => ibv_create_ah(pd, &raw mut attr),
            _ => std::ptr::null_mut(),
        }
    }
}

/// `ibv_resolve_eth_l2_from_gid`: for providers that build Ethernet headers. This device has none:
/// the host's network does that.
pub(crate) extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut ibv_context,
    _attr: *mut ibv_ah_attr,
    _mac: *mut u8,
    _vid: *mut u16,
) -> c_int {
    set_errno(Errno::NOT_SUPPORTED);
    -1
}
