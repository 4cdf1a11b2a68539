//! Opening and closing devices: contexts with their table of functions.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use device::Device;

use crate::boundary::{Errno, minus_one, pointer};
use crate::device_list::{self, ListedDevice};
use crate::verbs::shared::SharedState;
use crate::verbs::{
    buffer, context, cq, cq_create, device_memory, domain, mr, mw, port, post, qp_create, query_device, refused, srq,
    teardown, xrc,
};
use abi::*;

/// `ibv_open_device(3)`.
///
/// # Safety
/// Null, or from a list that was not freed.
pub(crate) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(|| {
        // SAFETY: the contract of `ibv_open_device`: null, or from a list that was not freed.
        let listed = unsafe { ListedDevice::hold(device) }?;
        open(SharedState::new(listed)?)
    })
}

/// A context of its own on a device, with events of its own.
pub(crate) fn open(shared: Arc<SharedState>) -> Result<*mut ibv_context, Errno> {
    let own = context::start(shared)?;
    let c = table(&own.device, &own.shared);
    Ok(context::present(own, c))
}

/// `ibv_close_device(3)`: objects made on the context live until the process ends.
///
/// # Safety
/// Null, or open.
pub(crate) unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    minus_one(|| {
        if context.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `ibv_close_device`: an open context.
        unsafe { context::destroy(context) };
        teardown::object_destroyed();
        Ok(0)
    })
}

/// The structure of a context that programs read.
fn table(device: &Device, shared: &SharedState) -> verbs_context {
    let mut table = verbs_context::zeroed();
    table.sz = size_of::<verbs_context>();
    extended(&mut table);
    let context = &mut table.context;
    context.device = device_list::as_c(&shared.listed);
    context.cmd_fd = shared.cmd_fd();
    context.async_fd = device.event_fd().as_raw_fd();
    context.num_comp_vectors = context::comp_vectors();
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
    table.create_cq_ex = Some(cq_create::create_cq_ex);
    table.query_device_ex = Some(query_device::query_device_ex);
    table.open_qp = Some(xrc::open_qp);
    table.create_qp_ex = Some(qp_create::create_qp_ex);
    table.get_srq_num = Some(srq::get_srq_num);
    table.create_srq_ex = Some(srq::create_srq_ex);
    table.open_xrcd = Some(xrc::open_xrcd);
    table.close_xrcd = Some(xrc::close_xrcd);
}
