//! Completion queues.

use std::ffi::c_int;
use std::ptr::{NonNull, without_provenance_mut};
use std::sync::Arc;
use std::task::Waker;

use abi::{Zeroed, ibv_cq, ibv_wc};
use device::{CqError, CqId, Error};
use transport::{Completion, Status};

use crate::channel::{CompChannel, CqEvents};
use crate::completion;
use crate::device_handle::DeviceHandle;
use crate::failure::{check, last};

/// Completions that one call of `ibv_poll_cq(3)` takes at most.
const BATCH: usize = 32;

/// A completion queue. It is destroyed when its last clone and the queue pairs that use it are gone.
#[derive(Clone, Debug)]
pub struct Cq {
    handle: Arc<OwnedCq>,
}

#[derive(Debug)]
struct OwnedCq {
    device: Arc<DeviceHandle>,
    cq: NonNull<ibv_cq>,
    key: u64,
    events: Arc<CqEvents>,
}

// SAFETY: the functions of libibverbs may be called with a completion queue by any thread.
unsafe impl Send for OwnedCq {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OwnedCq {}

impl Cq {
    pub(crate) fn new(
        device: &Arc<DeviceHandle>,
        capacity: u32,
        channel: Option<&CompChannel>,
        cookie: u64,
    ) -> Result<Cq, Error> {
        let events = Arc::new(CqEvents::new(cookie, channel.cloned()));
        let key = device.reactor.enter(&events);
        // Larger than asked for, if the device allows: many devices cannot resize them.
        let made = Cq::create(device, capacity.max(device.quirks().usual_cqe), key);
        let made = made.or_else(|_| Cq::create(device, capacity, key));
        let cq = made.inspect_err(|_| device.reactor.leave(key))?;
        Ok(Cq { handle: Arc::new(OwnedCq { device: device.clone(), cq, key, events }) })
    }

    fn create(device: &DeviceHandle, capacity: u32, key: u64) -> Result<NonNull<ibv_cq>, Error> {
        let (context, channel) = (device.context(), device.reactor.channel());
        let capacity = c_int::try_from(capacity.max(1)).unwrap_or(c_int::MAX);
        let key = without_provenance_mut(key as usize);
        // SAFETY: the handle keeps its object, an open context, and the channel is its own.
        let cq = unsafe { (device.library.ibv_create_cq)(context, capacity, key, channel, 0) };
        NonNull::new(cq).ok_or_else(|| last("ibv_create_cq"))
    }

    /// Its number.
    pub fn id(&self) -> CqId {
        CqId(self.handle.key as u32)
    }

    /// Takes at most `max` completions, and appends them to `out`. Returns their number.
    ///
    /// # Errors
    /// If the device cannot tell any more.
    pub fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let OwnedCq { cq, device, .. } = &*self.handle;
        let cq = cq.as_ptr();
        let mut taken = 0;
        while taken < max {
            let mut batch = [ibv_wc::zeroed(); BATCH];
            let room = (max - taken).min(BATCH);
            // SAFETY: the handle keeps its object, and its context's table of functions. There is room for the answers.
            let count = unsafe {
                let poll = (*(*cq).context).ops.poll_cq.ok_or(CqError::Failed)?;
                poll(cq, room as c_int, batch.as_mut_ptr())
            };
            let count = usize::try_from(count).map_err(|_| CqError::Failed)?;
            let completions = batch.iter().take(count).map(|wc| completion::of(wc, device.quirks()));
            out.extend(completions.inspect(|completion| {
                if completion.status != Status::Success {
                    device.failures.report(completion.qpn.get(), completion.status, completion.vendor_err);
                }
            }));
            taken += count;
            if count < room {
                break;
            }
        }
        Ok(taken)
    }

    /// Asks for one event at the next completion; with `solicited_only` at the next that the peer wants noticed, or
    /// that failed.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn arm(&self, solicited_only: bool) -> Result<(), CqError> {
        let cq = self.handle.cq.as_ptr();
        // SAFETY: the handle keeps its object, and its context's table of functions.
        let returned = unsafe {
            let arm = (*(*cq).context).ops.req_notify_cq.ok_or(CqError::Failed)?;
            arm(cq, (solicited_only && self.handle.device.quirks().tells_solicited).into())
        };
        if returned == 0 { Ok(()) } else { Err(CqError::Failed) }
    }

    /// Sets the waker for the next event; it is called once.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.handle.events.set_waker(waker);
    }

    /// The completions that it can hold.
    pub fn capacity(&self) -> u32 {
        // SAFETY: the handle keeps its object. Only a call of `resize` changes the number; a torn one is impossible.
        let capacity = unsafe { (&raw const (*self.handle.cq.as_ptr()).cqe).read_volatile() };
        u32::try_from(capacity).unwrap_or(0)
    }

    /// Changes its capacity. Not every device can.
    ///
    /// # Errors
    /// Those of `ibv_resize_cq(3)`.
    pub fn resize(&self, capacity: u32) -> Result<(), Error> {
        let capacity = c_int::try_from(capacity).map_err(|_| Error::Invalid("the queue cannot be that long"))?;
        // SAFETY: the handle keeps its object.
        let resized =
            check("ibv_resize_cq", unsafe { (self.handle.device.library.ibv_resize_cq)(self.as_ptr(), capacity) });
        match resized {
            Err(Error::Call { error, .. }) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                let (asked, max) = (capacity.unsigned_abs().into(), self.capacity().into());
                Err(Error::Limit { what: "completion queue size, on a device that cannot resize", asked, max })
            }
            other => other,
        }
    }

    pub(crate) fn device(&self) -> &Arc<DeviceHandle> {
        &self.handle.device
    }

    pub(crate) fn as_ptr(&self) -> *mut ibv_cq {
        self.handle.cq.as_ptr()
    }
}

impl Drop for OwnedCq {
    fn drop(&mut self) {
        self.device.reactor.leave(self.key);
        // SAFETY: the last handle; queue pairs that use the queue keep one. Events are ACKed as soon as they are fetched.
        let returned = unsafe { (self.device.library.ibv_destroy_cq)(self.cq.as_ptr()) };
        let _ = check("ibv_destroy_cq", returned).inspect_err(|error| log::warn!("{error}"));
    }
}
