//! The key that a bind gives a memory window, as the window's structure shows it.

use device::SendOp;

use abi::*;

/// The key that a bind gives a type 2 window. The program finds it in the window's structure once the bind is posted:
/// of the key that it chose, only the low byte counts.
pub(crate) struct WindowKey {
    window: *mut ibv_mw,
    before: u32,
    after: u32,
}

impl Default for WindowKey {
    fn default() -> WindowKey {
        WindowKey { window: std::ptr::null_mut(), before: 0, after: 0 }
    }
}

impl WindowKey {
    /// # Safety
    /// A window that exists for as long as this is used.
    pub(crate) unsafe fn of(window: *mut ibv_mw, op: &SendOp) -> WindowKey {
        // SAFETY: the contract of `of`: a window that exists for as long as this is used.
        let (before, kind) = unsafe { ((*window).rkey, (*window).r#type) };
        match op {
            SendOp::Bind(bind) if kind == IBV_MW_TYPE_2 => WindowKey { window, before, after: bind.bound_rkey().0 },
            _ => WindowKey::default(),
        }
    }

    pub(crate) fn tell(&self) {
        self.write(self.after);
    }

    pub(crate) fn take_back(&self) {
        self.write(self.before);
    }

    fn write(&self, rkey: u32) {
        if !self.window.is_null() {
            // SAFETY: the contract of `WindowKey::of`: the window exists as long as its key is used.
            unsafe { (&raw mut (*self.window).rkey).write(rkey) };
        }
    }
}
