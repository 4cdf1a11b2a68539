//! Options of an id.

use device::Mtu;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::sync;
use abi::*;

/// `rdma_set_option(3)`: ENOSYS for an unknown one.
///
/// # Safety
/// Null or an id that exists; null or `len` bytes to read.
pub(crate) unsafe extern "C" fn rdma_set_option(
    c: *mut rdma_cm_id,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: size_t,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_set_option`: null or an id that exists; null or `len` bytes to read.
        unsafe {
            let own = of(c)?;
            if value.is_null() {
                return Err(Errno::INVAL);
            }
            match level {
                RDMA_OPTION_ID => set(own, option, std::slice::from_raw_parts(value.cast(), len))?,
                RDMA_OPTION_IB if option == RDMA_OPTION_IB_PATH => set_path(c, value, len)?,
                _ => return Err(Errno(libc::ENOSYS)),
            }
        }
        Ok(0)
    })
}

fn set(own: &IdOwn, option: c_int, value: &[u8]) -> Result<(), Errno> {
    match option {
        RDMA_OPTION_ID_TOS => own.id.set_tos(byte(value)?)?,
        RDMA_OPTION_ID_REUSEADDR => own.id.set_reuse_addr(flag(value)?)?,
        RDMA_OPTION_ID_AFONLY => own.id.set_v6_only(flag(value)?)?,
        RDMA_OPTION_ID_ACK_TIMEOUT => own.id.set_ack_timeout(byte(value)?)?,
        _ => return Err(Errno(libc::ENOSYS)),
    }
    Ok(())
}

fn byte(value: &[u8]) -> Result<u8, Errno> {
    if let [byte] = value { Ok(*byte) } else { Err(Errno::INVAL) }
}

fn flag(value: &[u8]) -> Result<bool, Errno> {
    let value: [u8; 4] = value.try_into().map_err(|_| Errno::INVAL)?;
    Ok(c_int::from_ne_bytes(value) != 0)
}

/// The flags of the InfiniBand path that a connection takes, among those that a program may name.
const USED: u32 = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE;

/// Sets the path instead of resolving the route. One of the records must be usable. On Ethernet the network chooses
/// the path, so only its MTU matters.
///
/// # Safety
/// An id that exists; `len` bytes to read.
pub(super) unsafe fn set_path(c: *mut rdma_cm_id, value: *const c_void, len: size_t) -> Result<(), Errno> {
    const ENTRY: usize = size_of::<ibv_path_data>();
    if value.is_null() || len == 0 || !len.is_multiple_of(ENTRY) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the contract of `set_path`: an id that exists; `len` bytes to read.
    let path = |i: usize| unsafe { value.byte_add(i * ENTRY).cast::<ibv_path_data>().read_unaligned() };
    let used = (0..len / ENTRY).map(path).find(|path| path.flags & USED == USED).ok_or(Errno::INVAL)?;
    // SAFETY: the contract of `set_path`: an id that exists.
    unsafe {
        let id = &of(c)?.id;
        if let Some(mtu) = mtu(used.path.mtu) {
            id.set_mtu(mtu)?;
        }
        id.resolve_route()?;
        sync::complete(c)
    }
}

/// The payload per packet of a path record; `None` if it names none.
fn mtu(field: u8) -> Option<Mtu> {
    const SELECTOR: u8 = 0b1100_0000;
    Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == field & !SELECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_sizes_of_the_man_page() {
        assert_eq!((byte(&[7]), byte(&[7, 0])), (Ok(7), Err(Errno::INVAL)));
        assert_eq!(flag(&1i32.to_ne_bytes()), Ok(true));
        assert_eq!(flag(&0i32.to_ne_bytes()), Ok(false));
        assert_eq!(flag(&[1]), Err(Errno::INVAL));
    }
}
