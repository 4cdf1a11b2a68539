//! The list of requests that `ibv_wr_*` builds.

use std::cell::UnsafeCell;

use device::{Qp, SendWr};
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;

use crate::boundary::Errno;
use crate::verbs::window_key::WindowKey;

/// The list under construction.
pub(crate) struct WrBuilder {
    pub(super) lock: RawMutex,
    pub(super) list: UnsafeCell<WrList>,
}

#[derive(Default)]
pub(super) struct WrList {
    pub(super) requests: Vec<SendWr>,
    /// Keys of the windows that the list binds.
    pub(super) keys: Vec<WindowKey>,
    pub(super) error: Option<Errno>,
}

impl Default for WrBuilder {
    fn default() -> WrBuilder {
        WrBuilder { lock: RawMutex::INIT, list: UnsafeCell::default() }
    }
}

impl WrList {
    /// Posts all or nothing: there must be room for the whole list.
    pub(super) fn post(&mut self, qp: &Qp) -> Result<(), Errno> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.requests.len() > qp.send_room() as usize {
            return Err(Errno::NOMEM);
        }
        qp.post_send(self.requests.drain(..)).map_err(|failure| Errno::from(failure.error))?;
        self.keys.iter().for_each(WindowKey::tell);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.keys.clear();
        self.error = None;
    }
}
