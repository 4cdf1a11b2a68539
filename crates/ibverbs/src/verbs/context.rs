//! `ibv_open_device`, and what an open context keeps.

use std::collections::HashMap;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use device::{Device, OpenOptions, Qpn, SrqId};
use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, minus_one, pointer};
use crate::device_list::{self, ListedDevice};
use crate::rdmacm::devices;
use crate::verbs::events::EventSlots;
use crate::verbs::import::Shared;
use crate::verbs::{
    buffer, cq, cq_ex, device_memory, domain, mr, mw, port, post, qp_create, query_device, refused, srq, wait, xrc,
};

/// A context: the structure that programs see lies in the middle of the first part.
#[repr(C)]
struct ContextObject {
    c: verbs_context,
    /// Whether `own` is there.
    open: AtomicBool,
    own: MaybeUninit<Context>,
    /// What `c` points to.
    _listed: Arc<ListedDevice>,
}

/// What belongs to an open context.
pub(crate) struct Context {
    pub(crate) device: Device,
    /// What it shares with contexts imported from it.
    pub(crate) shared: Arc<Shared>,
    /// Queue pairs and shared receive queues by number, for events about them.
    pub(crate) slots: Mutex<EventSlots>,
    /// Regions by lkey, for `ibv_advise_mr`.
    pub(crate) regions: Mutex<HashMap<u32, mr::Registered>>,
    /// Bytes of device memory in use.
    pub(crate) dm_bytes: Mutex<u64>,
}

impl Context {
    /// What belongs to a context that a program gave us.
    ///
    /// # Safety
    /// Null, or open.
    pub(crate) unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Context, Errno> {
        if context.is_null() {
            return Err(Errno::INVAL);
        }
        let object = whole(context);
        // SAFETY: the caller's promise; only our part is referred to, and it is there while `open` says so.
        unsafe {
            if !(*object).open.load(Acquire) {
                devices::reopen(context)?;
            }
            Ok((*object).own.assume_init_ref())
        }
    }

    /// A handle of a queue pair goes: no event is told through it any more.
    pub(crate) fn forget_qp(&self, qpn: Qpn, handle: *mut ibv_qp) {
        let mut slots = self.slots.lock();
        if slots.qps.get(&qpn).is_some_and(|known| known.0 == handle) {
            slots.qps.remove(&qpn);
        }
    }

    pub(crate) fn forget_srq(&self, srq: SrqId) {
        self.slots.lock().srqs.remove(&srq);
    }
}

/// Objects that are used together must be of one context.
pub(crate) fn same(one: *mut ibv_context, other: *mut ibv_context) -> Result<(), Errno> {
    if std::ptr::eq(one, other) { Ok(()) } else { Err(Errno::INVAL) }
}

fn whole(context: *mut ibv_context) -> *mut ContextObject {
    context.wrapping_byte_sub(offset_of!(ContextObject, c) + offset_of!(verbs_context, context)).cast()
}

/// `ibv_open_device(3)`.
///
/// # Safety
/// Null, or from a list that was not freed.
pub(crate) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: the caller's promise.
        let listed = unsafe { ListedDevice::hold(device) }?;
        open(Shared::new(listed)?)
    })
}

/// A context of its own on a device, with events of its own.
pub(crate) fn open(shared: Arc<Shared>) -> Result<*mut ibv_context, Errno> {
    let own = start(shared)?;
    let c = table(&own.device, &own.shared);
    let listed = own.shared.listed.clone();
    let object = ContextObject { c, open: AtomicBool::new(true), own: MaybeUninit::new(own), _listed: listed };
    let object = Box::into_raw(Box::new(object));
    // SAFETY: just made.
    Ok(unsafe { &raw mut (*object).c.context })
}

fn start(shared: Arc<Shared>) -> Result<Context, Errno> {
    let device = Device::open(&OpenOptions { name: Some(shared.listed.info().name.clone()) })?;
    wait::make_blocking(device.event_fd())?;
    crate::advice::watch();
    if let Err(error) = device::survive_unmapping() {
        log::warn!("memory that is unmapped before it is deregistered may end this program: {error}");
    }
    Ok(Context { device, shared, slots: Mutex::default(), regions: Mutex::default(), dm_bytes: Mutex::new(0) })
}

/// Gives back everything that a context holds. The structure stays where it is, for programs that still look at it. If it
/// is one of the connection manager's, the next call with it opens it again.
///
/// # Safety
/// Open, with nothing made on it that is still there.
pub(crate) unsafe fn retire(context: *mut ibv_context) {
    let object = whole(context);
    // SAFETY: the caller's promise; whoever comes later sees that it is gone.
    unsafe {
        (*object).open.store(false, Release);
        (*object).own.assume_init_drop();
    }
}

/// Opens a retired context again.
///
/// # Safety
/// [Retired](retire), and no other thread does the same.
pub(crate) unsafe fn revive(context: *mut ibv_context, shared: Arc<Shared>) -> Result<(), Errno> {
    let own = start(shared)?;
    let object = whole(context);
    // SAFETY: the caller's promise: nothing is in its place.
    unsafe {
        (&raw mut (*context).cmd_fd).write(own.shared.cmd_fd());
        (&raw mut (*context).async_fd).write(own.device.event_fd().as_raw_fd());
        (&raw mut (*object).own).write(MaybeUninit::new(own));
        (*object).open.store(true, Release);
    }
    Ok(())
}

/// `ibv_close_device(3)`: what was made on the context lives on until the process ends.
///
/// # Safety
/// Null, or open.
pub(crate) unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    minus_one(|| {
        if context.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise; it was boxed when it was opened.
        unsafe {
            retire(context);
            drop(Box::from_raw(whole(context)));
        }
        devices::close_if_idle();
        Ok(0)
    })
}

/// Everything that programs read of a context.
fn table(device: &Device, shared: &Shared) -> verbs_context {
    let mut table = verbs_context::zeroed();
    table.sz = size_of::<verbs_context>();
    extended(&mut table);
    let context = &mut table.context;
    context.device = device_list::as_c(&shared.listed);
    context.cmd_fd = shared.cmd_fd();
    context.async_fd = device.event_fd().as_raw_fd();
    context.num_comp_vectors = comp_vectors();
    context.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    // The mark of a context with a `verbs_context` around it.
    context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
    let ops = &mut context.ops;
    ops._compat_query_device = Some(query_device::ibv_query_device);
    ops._compat_query_port = Some(port::ibv_query_port);
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.bind_mw = Some(mw::bind_mw);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.poll_cq = Some(cq::poll_cq);
    ops.req_notify_cq = Some(cq::req_notify_cq);
    ops.post_srq_recv = Some(post::post_srq_recv);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);
    table
}

/// The entries that newer verbs call. One that is not there answers EOPNOTSUPP: flow steering,
/// work queues and their tables, counters, IPsec, packet pacing, tag matching.
fn extended(table: &mut verbs_context) {
    table.free_buf = Some(buffer::ibv_free_buf);
    table.alloc_buf = Some(buffer::ibv_alloc_buf);
    table.dm_export_dmabuf_fd = Some(refused::ibv_dm_export_dmabuf_fd);
    table.reg_mr_ex = Some(buffer::ibv_reg_mr_ex);
    table.dealloc_dmah = Some(refused::ibv_dealloc_dmah);
    table.alloc_dmah = Some(refused::ibv_alloc_dmah);
    table.query_port = Some(port::query_port);
    table.advise_mr = Some(mr::advise_mr);
    table.alloc_null_mr = Some(mr::alloc_null_mr);
    table.reg_dm_mr = Some(device_memory::reg_dm_mr);
    table.alloc_dm = Some(device_memory::alloc_dm);
    table.free_dm = Some(device_memory::free_dm);
    table.alloc_parent_domain = Some(domain::alloc_parent_domain);
    table.alloc_td = Some(domain::alloc_td);
    table.dealloc_td = Some(domain::dealloc_td);
    table.modify_cq = Some(cq::modify_cq);
    table.query_rt_values = Some(query_device::query_rt_values);
    table.create_cq_ex = Some(cq_ex::create_cq_ex);
    table.query_device_ex = Some(query_device::query_device_ex);
    table.open_qp = Some(xrc::open_qp);
    table.create_qp_ex = Some(qp_create::create_qp_ex);
    table.get_srq_num = Some(srq::get_srq_num);
    table.create_srq_ex = Some(srq::create_srq_ex);
    table.open_xrcd = Some(xrc::open_xrcd);
    table.close_xrcd = Some(xrc::close_xrcd);
}

/// Completion vectors: as many as processors, as the kernel's drivers have it. They change nothing.
pub(crate) fn comp_vectors() -> c_int {
    std::thread::available_parallelism().map_or(1, |n| n.get() as c_int)
}
