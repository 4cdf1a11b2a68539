//! Memory windows.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;

use abi::{IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mw};
use device::{Error, MwType};
use wire::RKey;

use crate::failure::{check, last};
use crate::info;
use crate::pd::Pd;

/// A memory window. The last clone frees it, bound or not.
#[derive(Clone, Debug)]
pub struct Mw {
    handle: Arc<OwnedMw>,
}

#[derive(Debug)]
struct OwnedMw {
    pd: Pd,
    mw: NonNull<ibv_mw>,
    mw_type: MwType,
}

// SAFETY: the functions of libibverbs may be called with a window by any thread.
unsafe impl Send for OwnedMw {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OwnedMw {}

impl Mw {
    pub(crate) fn new(pd: &Pd, mw_type: MwType) -> Result<Mw, Error> {
        let abilities = pd.device().capabilities(|| info::capabilities(pd.device()));
        let has = if mw_type == MwType::One { abilities.windows_1 } else { abilities.windows_2 };
        if !has {
            return Err(Error::Invalid("this device has no memory windows of this type"));
        }
        // SAFETY: the handle keeps its object, an open context with its table of functions.
        let alloc = unsafe { (*pd.device().context()).ops.alloc_mw };
        let alloc = alloc.ok_or(Error::Invalid("this device has no memory windows"))?;
        // SAFETY: the handle keeps its object, a domain.
        let mw = unsafe { alloc(pd.as_ptr(), number(mw_type)) };
        let mw = NonNull::new(mw).ok_or_else(|| last("ibv_alloc_mw"))?;
        let mw = Mw { handle: Arc::new(OwnedMw { pd: pd.clone(), mw, mw_type }) };
        pd.enter_window(mw.rkey(), mw.handle.mw);
        Ok(mw)
    }

    /// Its present key, as the library knows it.
    pub fn rkey(&self) -> RKey {
        self.handle.rkey()
    }

    /// Its type.
    pub fn mw_type(&self) -> MwType {
        self.handle.mw_type
    }
}

impl OwnedMw {
    fn rkey(&self) -> RKey {
        // SAFETY: the handle keeps its object. Binds change the low byte of the key while others read it.
        RKey(unsafe { (&raw const (*self.mw.as_ptr()).rkey).read_volatile() })
    }
}

fn number(mw_type: MwType) -> c_int {
    match mw_type {
        MwType::One => IBV_MW_TYPE_1,
        MwType::Two => IBV_MW_TYPE_2,
    }
}

impl Drop for OwnedMw {
    fn drop(&mut self) {
        self.pd.leave_window(self.rkey());
        // SAFETY: the handle keeps its object, an open context with its table of functions.
        let Some(free) = (unsafe { (*self.pd.device().context()).ops.dealloc_mw }) else { return };
        // SAFETY: the last handle of the window.
        let _ = check("ibv_dealloc_mw", unsafe { free(self.mw.as_ptr()) }).inspect_err(|error| log::warn!("{error}"));
    }
}
