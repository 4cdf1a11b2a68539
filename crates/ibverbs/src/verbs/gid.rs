//! The GID and P_Key tables.

use device::{DeviceInfo, Gid, PortInfo};

use crate::boundary::{Errno, minus_one};
use crate::verbs::context::ContextOwn;
use abi::*;

/// Entries of the GID table that are shown, used or not: as a NIC has a fixed number.
const GID_TABLE: usize = 16;
/// The one partition.
const DEFAULT_PKEY: u16 = 0xffff;

/// The length of the GID table.
pub(crate) fn table_len(port: &PortInfo) -> usize {
    port.gids.len().max(GID_TABLE)
}

/// `ibv_query_gid(3)`: an unused entry is all zeros.
///
/// # Safety
/// An open context and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `ibv_query_gid`: an open context and a place for the answer.
        let (context, gid) = unsafe { (ContextOwn::of(context)?, gid.as_mut().ok_or(Errno::INVAL)?) };
        *gid = ibv_gid { raw: at(context, port.into(), i64::from(index))?.0 };
        Ok(0)
    })
}

fn at(context: &ContextOwn, port: u32, index: i64) -> Result<Gid, Errno> {
    let info = context.device.port();
    match usize::try_from(index) {
        Ok(index) if port == 1 && index < table_len(&info) => Ok(info.gids.get(index).copied().unwrap_or_default()),
        _ => Err(Errno::INVAL),
    }
}

/// Checks the caller's size of `struct ibv_gid_entry`, which has had one size so far.
fn check_entry_size(entry_size: size_t) -> Result<(), Errno> {
    if entry_size < size_of::<ibv_gid_entry>() { Err(Errno::INVAL) } else { Ok(()) }
}

fn entry(info: &DeviceInfo, index: usize, gid: Gid) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: gid.0 },
        gid_index: index as u32,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: info.interface_index,
    }
}

/// `ibv_query_gid_ex(3)`: ENODATA for an unused entry.
///
/// # Safety
/// An open context and a place of `entry_size` bytes for the answer.
pub(crate) unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    out: *mut ibv_gid_entry,
    flags: u32,
    entry_size: size_t,
) -> c_int {
    crate::boundary::errno(|| {
        // SAFETY: the contract of `_ibv_query_gid_ex` (see its Safety section).
        let context = unsafe { ContextOwn::of(context) }?;
        if flags != 0 || out.is_null() {
            return Err(Errno::INVAL);
        }
        check_entry_size(entry_size)?;
        let gid = at(context, port, index.into())?;
        if gid == Gid::default() {
            return Err(Errno(libc::ENODATA));
        }
        // SAFETY: the contract of `_ibv_query_gid_ex` (see its Safety section).
        unsafe { out.write(entry(&context.device.info(), index as usize, gid)) };
        Ok(())
    })
}

/// `ibv_query_gid_table(3)`: how many entries are used, or a negative errno.
///
/// # Safety
/// An open context and room for `max_entries` entries of `entry_size` bytes.
pub(crate) unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    out: *mut ibv_gid_entry,
    max_entries: size_t,
    flags: u32,
    entry_size: size_t,
) -> isize {
    let listed = || {
        // SAFETY: the contract of `_ibv_query_gid_table` (see its Safety section).
        let context = unsafe { ContextOwn::of(context) }?;
        if flags != 0 || out.is_null() {
            return Err(Errno::INVAL);
        }
        check_entry_size(entry_size)?;
        let info = context.device.info();
        let mut count = 0;
        for (index, gid) in info.port.valid_gids() {
            if count == max_entries {
                return Err(Errno::INVAL);
            }
            // SAFETY: the contract of `_ibv_query_gid_table` (see its Safety section); entries lie `entry_size` bytes
            // apart.
            unsafe { out.byte_add(count * entry_size).write_unaligned(entry(&info, index, gid)) };
            count += 1;
        }
        Ok(count as isize)
    };
    crate::boundary::otherwise(-(libc::EIO as isize), || listed().unwrap_or_else(|error| -(error.0 as isize)))
}

/// `ibv_query_gid_type`, private but used by programs: RoCE v2 throughout.
///
/// # Safety
/// An open context and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_int,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `ibv_query_gid_type`: an open context and a place for the answer.
        let (context, kind) = unsafe { (ContextOwn::of(context)?, kind.as_mut().ok_or(Errno::INVAL)?) };
        at(context, port.into(), index.into())?;
        *kind = IBV_GID_TYPE_SYSFS_ROCE_V2;
        Ok(0)
    })
}

/// `ibv_query_pkey(3)`.
///
/// # Safety
/// An open context and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `ibv_query_pkey`: an open context and a place for the answer.
        let pkey = unsafe {
            ContextOwn::of(context)?;
            pkey.as_mut().ok_or(Errno::INVAL)?
        };
        if port != 1 || index != 0 {
            return Err(Errno::INVAL);
        }
        *pkey = DEFAULT_PKEY.to_be();
        Ok(0)
    })
}

/// `ibv_get_pkey_index(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_get_pkey_index(context: *mut ibv_context, port: u8, pkey: u16) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `ibv_get_pkey_index`: an open context.
        unsafe { ContextOwn::of(context) }?;
        if port != 1 || u16::from_be(pkey) != DEFAULT_PKEY {
            return Err(Errno::INVAL);
        }
        Ok(0)
    })
}
