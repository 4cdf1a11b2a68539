//! Open contexts: the structure that programs see, and our part.

use std::collections::HashMap;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

use device::{Device, OpenOptions, Qpn, SrqId};
use parking_lot::Mutex;

use crate::boundary::Errno;
use crate::device_list::ListedDevice;
use crate::object::ObjectPointer;
use crate::verbs::advised::AdvisedRegions;
use crate::verbs::shared::SharedState;
use crate::verbs::wait;
use abi::*;

/// A context: the structure that programs see lies in the middle of the first part.
#[repr(C)]
struct ContextObject {
    c: verbs_context,
    /// True while `own` is initialised.
    open: AtomicBool,
    own: MaybeUninit<ContextOwn>,
    /// The device that `c` points to.
    _listed: Arc<ListedDevice>,
    /// Opens the context again after it was retired.
    reopen: OnceLock<Reopen>,
}

/// Opens a retired context again.
pub(crate) type Reopen = fn(*mut ibv_context) -> Result<(), Errno>;

/// Our part of an open context.
pub(crate) struct ContextOwn {
    pub(crate) device: Device,
    /// The state that it shares with contexts imported from it.
    pub(crate) shared: Arc<SharedState>,
    /// Queue pairs and shared receive queues by number, for events about them.
    pub(crate) targets: Mutex<EventTargets>,
    /// Regions by lkey, for `ibv_advise_mr`.
    pub(crate) regions: Mutex<AdvisedRegions>,
    /// Bytes of device memory in use.
    pub(crate) dm_bytes: Mutex<u64>,
}

impl ContextOwn {
    /// Our part of a context that a program gave us.
    ///
    /// # Safety
    /// Null, or open.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a ContextOwn, Errno> {
        if context.is_null() {
            return Err(Errno::INVAL);
        }
        let object = whole(context);
        // SAFETY: the contract of `of`: null, or open; only our part is referred to, and it is there while `open`
        // says so.
        unsafe {
            if !(*object).open.load(Acquire) {
                let reopen = (*object).reopen.get().ok_or(Errno(libc::ENODEV))?;
                reopen(context)?;
            }
            Ok((*object).own.assume_init_ref())
        }
    }

    /// Removes a handle of a queue pair from the targets of events.
    pub(crate) fn forget_qp(&self, qpn: Qpn, handle: *mut ibv_qp) {
        let mut targets = self.targets.lock();
        if targets.qps.get(&qpn).is_some_and(|known| known.0 == handle) {
            targets.qps.remove(&qpn);
        }
    }

    pub(crate) fn forget_srq(&self, srq: SrqId) {
        self.targets.lock().srqs.remove(&srq);
    }
}

/// Objects that events may be about. A holder of the lock may use the pointers.
#[derive(Default)]
pub(crate) struct EventTargets {
    pub(crate) qps: HashMap<Qpn, ObjectPointer<ibv_qp>>,
    pub(crate) srqs: HashMap<SrqId, ObjectPointer<ibv_srq>>,
    pub(crate) cqs: HashMap<u64, ObjectPointer<ibv_cq>>,
}

/// Objects that are used together must be of one context.
pub(crate) fn same(one: *mut ibv_context, other: *mut ibv_context) -> Result<(), Errno> {
    if std::ptr::eq(one, other) { Ok(()) } else { Err(Errno::INVAL) }
}

fn whole(context: *mut ibv_context) -> *mut ContextObject {
    context.wrapping_byte_sub(offset_of!(ContextObject, c) + offset_of!(verbs_context, context)).cast()
}

/// Our part of a context on a device.
pub(super) fn start(shared: Arc<SharedState>) -> Result<ContextOwn, Errno> {
    let device = Device::open(&OpenOptions { name: Some(shared.listed.info().name.clone()) })?;
    wait::make_blocking(device.event_fd())?;
    crate::advice::watch();
    if let Err(error) = device::survive_unmapping() {
        log::warn!("memory that is unmapped before it is deregistered may end this program: {error}");
    }
    Ok(ContextOwn { device, shared, targets: Mutex::default(), regions: Mutex::default(), dm_bytes: Mutex::new(0) })
}

/// Makes a context, with the structure that programs see.
pub(super) fn present(own: ContextOwn, c: verbs_context) -> *mut ibv_context {
    let listed = own.shared.listed.clone();
    let (open, reopen) = (AtomicBool::new(true), OnceLock::new());
    let object = ContextObject { c, open, own: MaybeUninit::new(own), _listed: listed, reopen };
    let object = Box::into_raw(Box::new(object));
    // SAFETY: `object` was boxed in the line above.
    unsafe { &raw mut (*object).c.context }
}

/// Ends a context for good.
///
/// # Safety
/// Open, made by [`present`], and never used again.
pub(super) unsafe fn destroy(context: *mut ibv_context) {
    // SAFETY: the contract of this function; `present` boxed it.
    unsafe {
        (*whole(context)).open.store(false, Release);
        (*whole(context)).own.assume_init_drop();
        drop(Box::from_raw(whole(context)));
    }
}

/// Gives back everything that a context holds. The structure stays in place for programs that have remembered it. The
/// next call with it opens the context again, by `reopen`.
///
/// # Safety
/// Open, with nothing made on it that is still there.
pub(crate) unsafe fn retire(context: *mut ibv_context, reopen: Reopen) {
    let object = whole(context);
    // SAFETY: the contract of `retire`: open, without live objects on it; later callers see that it is gone.
    unsafe {
        let _ = (*object).reopen.set(reopen);
        (*object).open.store(false, Release);
        (*object).own.assume_init_drop();
    }
}

/// Opens a retired context again.
///
/// # Safety
/// [Retired](retire), and no other thread does the same.
pub(crate) unsafe fn revive(context: *mut ibv_context, shared: Arc<SharedState>) -> Result<(), Errno> {
    let own = start(shared)?;
    let object = whole(context);
    // SAFETY: the contract of `revive`: [Retired](retire), and no other thread does the same; nothing is in its
    // place.
    unsafe {
        (&raw mut (*context).cmd_fd).write(own.shared.cmd_fd());
        (&raw mut (*context).async_fd).write(own.device.event_fd().as_raw_fd());
        (&raw mut (*object).own).write(MaybeUninit::new(own));
        (*object).open.store(true, Release);
    }
    Ok(())
}

/// Completion vectors: as many as processors, as in the kernel's drivers. They have no effect.
pub(crate) fn comp_vectors() -> c_int {
    std::thread::available_parallelism().map_or(1, |n| n.get() as c_int)
}
