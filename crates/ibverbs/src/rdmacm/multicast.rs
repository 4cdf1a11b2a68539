//! Multicast groups of an id, and its queue pair's attachment to them.

use device::Gid;
use libc::sockaddr;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::of;
use crate::rdmacm::id_state::MulticastGroup;
use crate::rdmacm::{address, sync};
use crate::verbs::multicast;
use abi::*;

/// `rdma_join_multicast(3)`.
///
/// # Safety
/// Null or an id that exists; null or an address.
pub(crate) unsafe extern "C" fn rdma_join_multicast(
    c: *mut rdma_cm_id,
    group: *mut sockaddr,
    context: *mut c_void,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_join_multicast`: null or an id that exists; null or an address.
        unsafe { join(c, group, context, true) }?;
        Ok(0)
    })
}

/// `rdma_join_multicast_ex(3)`: as a full member, or to send only.
///
/// # Safety
/// Null or an id that exists; null or readable attributes.
pub(crate) unsafe extern "C" fn rdma_join_multicast_ex(
    c: *mut rdma_cm_id,
    attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_join_multicast_ex`: null or an id that exists; null or readable attributes.
        unsafe {
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            if attr.comp_mask != RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS {
                return Err(Errno::INVAL);
            }
            let receives = match attr.join_flags {
                RDMA_MC_JOIN_FLAG_FULLMEMBER => true,
                RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => false,
                _ => return Err(Errno::INVAL),
            };
            join(c, attr.addr, context, receives)?;
        }
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_join_multicast`].
unsafe fn join(c: *mut rdma_cm_id, group: *const sockaddr, context: *mut c_void, receives: bool) -> Result<(), Errno> {
    // SAFETY: the contract of `join`, which is that of `rdma_join_multicast`.
    unsafe {
        let own = of(c)?;
        let address = address::read(group)?.ip();
        // Before its event can be there.
        own.state.lock().groups.push(MulticastGroup { address, context, receives, joined: false, attached: false });
        if let Err(error) = own.id.join(address, None) {
            let groups = &mut own.state.lock().groups;
            let place = groups.iter().rposition(|group| group.address == address);
            place.map(|place| groups.remove(place));
            return Err(error.into());
        }
        sync::complete(c)
    }
}

/// `rdma_leave_multicast(3)`: EADDRNOTAVAIL if the id is not in the group.
///
/// # Safety
/// Null or an id that exists; null or an address.
pub(crate) unsafe extern "C" fn rdma_leave_multicast(c: *mut rdma_cm_id, group: *mut sockaddr) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_leave_multicast`: null or an id that exists; null or an address.
        unsafe {
            let own = of(c)?;
            let address = address::read(group)?.ip();
            let group = {
                let groups = &mut own.state.lock().groups;
                let place = groups.iter().position(|group| group.address == address);
                groups.remove(place.ok_or(Errno(libc::EADDRNOTAVAIL))?)
            };
            own.id.leave(address)?;
            if group.attached && !(*c).qp.is_null() {
                // The id may have another queue pair, which is not attached; then this fails.
                multicast::ibv_detach_mcast((*c).qp, &ibv_gid { raw: Gid::from(address).0 }, 0);
            }
        }
        Ok(0)
    })
}
