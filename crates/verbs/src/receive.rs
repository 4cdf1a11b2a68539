//! Posting receive work requests.

use std::ffi::c_int;
use std::ptr::null_mut;

use abi::{Zeroed, ibv_recv_wr, ibv_sge};
use device::PostFailure;
use smallvec::SmallVec;
use transport::RecvWr;

use crate::failure::check;
use crate::quirks::DeviceQuirks;
use crate::send::sge;

/// Posts receive work requests one by one with `post`, which gets a request and a place for the refused one.
///
/// # Errors
/// The first that is refused; those before it are posted.
pub(crate) fn post(
    wrs: impl IntoIterator<Item = RecvWr>,
    quirks: &DeviceQuirks,
    mut post: impl FnMut(*mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
) -> Result<(), PostFailure> {
    for (index, wr) in wrs.into_iter().enumerate() {
        let mut sges: SmallVec<[ibv_sge; 4]> = wr.sgl.iter().filter_map(sge).collect();
        if sges.is_empty() && !quirks.receives_without_entries {
            sges.push(ibv_sge { addr: 0, length: 0, lkey: 0 });
        }
        let mut c = ibv_recv_wr::zeroed();
        (c.wr_id, c.sg_list, c.num_sge) = (wr.wr_id, sges.as_mut_ptr(), sges.len() as c_int);
        let mut bad = null_mut();
        check("ibv_post_recv", post(&mut c, &mut bad)).map_err(|error| PostFailure { index, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use transport::Sgl;

    use super::*;

    #[test]
    fn a_receive_of_no_bytes_has_an_entry_where_the_driver_needs_one() {
        for (vendor_id, entries) in [(0x15b3, 0), (crate::quirks::SIW, 1)] {
            let mut posted = None;
            let wr = RecvWr { wr_id: 7, sgl: Sgl::default() };
            let record = |wr: *mut ibv_recv_wr, _| {
                // SAFETY: the request exists during the call.
                posted = Some(unsafe { ((*wr).wr_id, (*wr).num_sge) });
                0
            };
            post([wr], &DeviceQuirks::of(vendor_id), record).unwrap();
            assert_eq!(posted, Some((7, entries)));
        }
    }
}
