//! Shared receive queues.

use std::ptr::{NonNull, without_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use abi::{IBV_SRQ_LIMIT, ibv_srq, ibv_srq_attr, ibv_srq_init_attr};
use device::{Error, PostFailure, SrqId};
use parking_lot::RwLock;
use transport::RecvWr;

use crate::device_handle::DeviceHandle;
use crate::failure::{check, last};
use crate::pd::Pd;
use crate::receive;

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    handle: Arc<OwnedSrq>,
}

#[derive(Debug)]
struct OwnedSrq {
    pd: Pd,
    id: SrqId,
    address: NonNull<ibv_srq>,
    /// Whether it exists. Calls hold the lock for reading.
    exists: RwLock<bool>,
}

// SAFETY: the functions of libibverbs may be called with a shared receive queue by any thread.
unsafe impl Send for OwnedSrq {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OwnedSrq {}

const DESTROYED: Error = Error::Destroyed("shared receive queue");

impl Srq {
    pub(crate) fn new(pd: &Pd, max_wr: u32, max_sge: u32, limit: u32) -> Result<Srq, Error> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let id = SrqId(LAST.fetch_add(1, Relaxed) + 1);
        let attr = ibv_srq_attr { max_wr, max_sge, srq_limit: limit };
        let mut init = ibv_srq_init_attr { srq_context: without_provenance_mut(id.0 as usize), attr };
        // SAFETY: the handle keeps its object, a domain.
        let srq = unsafe { (pd.device().library.ibv_create_srq)(pd.as_ptr(), &mut init) };
        let address = NonNull::new(srq).ok_or_else(|| last("ibv_create_srq"))?;
        Ok(Srq { handle: Arc::new(OwnedSrq { pd: pd.clone(), id, address, exists: RwLock::new(true) }) })
    }

    /// Its number.
    pub fn id(&self) -> SrqId {
        self.handle.id
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    pub fn post(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        let exists = self.handle.exists.read();
        let refused = |error| PostFailure { index: 0, error };
        if !*exists {
            return Err(refused(DESTROYED));
        }
        let srq = self.as_ptr();
        // SAFETY: the lock keeps the queue, and that its context with the table of functions.
        let post = unsafe { (*(*srq).context).ops.post_srq_recv };
        let post = post.ok_or(refused(Error::Invalid("the device has no shared receive queues")))?;
        // SAFETY: as above; the list exists during the call.
        receive::post(wrs, self.device().quirks(), |wr, bad| unsafe { post(srq, wr, bad) })
    }

    /// Arms the limit event; zero disarms it.
    ///
    /// # Errors
    /// Those of `ibv_modify_srq(3)`.
    pub fn modify(&self, limit: u32) -> Result<(), Error> {
        let exists = self.handle.exists.read();
        if !*exists {
            return Err(DESTROYED);
        }
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: limit };
        let library = self.handle.pd.device().library;
        // SAFETY: the lock keeps the queue.
        check("ibv_modify_srq", unsafe { (library.ibv_modify_srq)(self.as_ptr(), &mut attr, IBV_SRQ_LIMIT) })
    }

    /// Destroys it, and forgets its work requests.
    ///
    /// # Errors
    /// Those of `ibv_destroy_srq(3)`: busy while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.destroy()
    }

    pub(crate) fn device(&self) -> &Arc<DeviceHandle> {
        self.handle.pd.device()
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_srq {
        self.handle.address.as_ptr()
    }
}

impl OwnedSrq {
    fn destroy(&self) -> Result<(), Error> {
        let mut exists = self.exists.write();
        if !*exists {
            return Err(DESTROYED);
        }
        let library = self.pd.device().library;
        // SAFETY: the lock keeps all other calls out, and none follows.
        check("ibv_destroy_srq", unsafe { (library.ibv_destroy_srq)(self.address.as_ptr()) })?;
        *exists = false;
        Ok(())
    }
}

impl Drop for OwnedSrq {
    fn drop(&mut self) {
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed(_)) => {}
            Err(error) => log::warn!("{error}"),
        }
    }
}
