//! Buffers that libibverbs allocates (`ibv_alloc_buf`, rdma-core 64), and `ibv_reg_mr_ex` (59).
//!
//! Programs see the size that they asked for: nothing beyond it can be registered.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::boundary::{Errno, minus_one, otherwise, pointer};
use crate::verbs::domain::PdObject;
use crate::verbs::mr;
use abi::*;

/// Behind the opaque `struct ibv_buf`: ordinary memory of whole pages.
pub(crate) struct AllocatedBuffer {
    pd: *mut ibv_pd,
    start: *mut u8,
    /// As the program asked for it; the pages have room for more.
    len_bytes: usize,
    layout: Layout,
}

const PAGE_BYTES: usize = 4096;

/// `ibv_alloc_buf(3)`.
///
/// # Safety
/// A domain that exists and a place for the handle.
pub(crate) unsafe extern "C" fn ibv_alloc_buf(pd: *mut ibv_pd, size: size_t, handle: *mut *mut ibv_buf) -> *mut c_void {
    pointer(|| {
        // SAFETY: the contract of `ibv_alloc_buf`: a domain that exists and a place for the handle.
        let handle = unsafe {
            PdObject::of(pd)?;
            handle.as_mut().ok_or(Errno::INVAL)?
        };
        let whole = size.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(Errno::NOMEM)?;
        let layout = Layout::from_size_align(whole, PAGE_BYTES).map_err(|_| Errno::NOMEM)?;
        // SAFETY: not of size zero, whatever the program asked for.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Errno::NOMEM);
        }
        *handle = Box::into_raw(Box::new(AllocatedBuffer { pd, start, len_bytes: size, layout })).cast();
        Ok(start.cast())
    })
}

/// `ibv_free_buf(3)`.
///
/// # Safety
/// Null, or allocated and not registered any more.
pub(crate) unsafe extern "C" fn ibv_free_buf(buf: *mut ibv_buf) {
    otherwise((), || {
        if !buf.is_null() {
            // SAFETY: the contract of `ibv_free_buf`: null, or allocated and not registered any more; made above.
            unsafe {
                let buf = Box::from_raw(buf.cast::<AllocatedBuffer>());
                dealloc(buf.start, buf.layout);
            }
        }
    });
}

impl AllocatedBuffer {
    /// # Safety
    /// Null, or allocated.
    unsafe fn of<'a>(buf: *mut ibv_buf) -> Result<&'a AllocatedBuffer, Errno> {
        // SAFETY: the contract of `of`: null, or allocated.
        unsafe { buf.cast::<AllocatedBuffer>().as_ref() }.ok_or(Errno::INVAL)
    }

    /// Checks that a region of that domain may cover that part of the buffer.
    fn admits(&self, pd: *mut ibv_pd, addr: *mut c_void, length: size_t) -> Result<(), Errno> {
        let offset = (addr as usize).checked_sub(self.start as usize).ok_or(Errno::INVAL)?;
        let end = offset.checked_add(length).ok_or(Errno::INVAL)?;
        if pd != self.pd || end > self.len_bytes { Err(Errno::INVAL) } else { Ok(()) }
    }
}

/// `ibv_export_buf_dmabuf_fd`: ENODATA, since these buffers are ordinary memory and no dma-buf.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    // SAFETY: the contract of `ibv_export_buf_dmabuf_fd`: null, or allocated.
    minus_one(|| unsafe { AllocatedBuffer::of(buf) }.and(Err(Errno(libc::ENODATA))))
}

/// `ibv_reg_buf_mr(3)`.
///
/// # Safety
/// A domain and a buffer that exist.
pub(crate) unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the contract of `ibv_reg_buf_mr`: a domain and a buffer that exist.
        unsafe {
            AllocatedBuffer::of(buf)?.admits(pd, addr, length)?;
            mr::register(pd, addr, length, addr as u64, access as c_uint)
        }
    })
}

const MASK_IOVA: u64 = 1;
const MASK_ADDR: u64 = 1 << 1;
const MASK_FD: u64 = 1 << 2;
const MASK_FD_OFFSET: u64 = 1 << 3;
const MASK_DMAH: u64 = 1 << 4;
const MASK_BUF: u64 = 1 << 5;

/// `ibv_reg_mr_ex(3)`. Memory of other devices (FD) and steering tags (DMAH) are not supported.
///
/// # Safety
/// A domain that exists and readable attributes.
pub(crate) unsafe extern "C" fn ibv_reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the contract of `ibv_reg_mr_ex`: a domain that exists and readable attributes.
        let attr = unsafe { attr.as_ref().ok_or(Errno::INVAL)? };
        let has = |flag| attr.comp_mask & flag != 0;
        let known = MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET | MASK_DMAH | MASK_BUF;
        if attr.comp_mask & !known != 0 || has(MASK_BUF) && (has(MASK_FD) || has(MASK_FD_OFFSET)) {
            return Err(Errno::INVAL);
        }
        if has(MASK_FD) || has(MASK_DMAH) {
            return Err(Errno::NOT_SUPPORTED);
        }
        if !has(MASK_ADDR) {
            return Err(Errno::INVAL);
        }
        if has(MASK_BUF) {
            // SAFETY: the mask says that the structure has the member.
            unsafe { AllocatedBuffer::of(attr.buf) }?.admits(pd, attr.addr, attr.length)?;
        }
        let iova = if has(MASK_IOVA) { attr.iova } else { attr.addr as u64 };
        // SAFETY: the contract of `ibv_reg_mr_ex` includes that of `mr::register`.
        unsafe { mr::register(pd, attr.addr, attr.length, iova, attr.access as c_uint) }
    })
}
