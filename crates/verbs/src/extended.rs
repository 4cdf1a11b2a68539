//! Operations that `ibv_post_send(3)` does not have: ATOMIC WRITE and FLUSH, by `ibv_wr_post(3)`.
//!
//! They need a queue pair that was made with them, by `ibv_create_qp_ex(3)`. Its other requests go by `ibv_post_send`, as
//! on all queue pairs: the manual page allows both on one queue pair.

use std::mem::{offset_of, size_of};
use std::ptr::{NonNull, null, null_mut};

use abi::{
    IBV_DEVICE_ATOMIC_WRITE, IBV_DEVICE_FLUSH_GLOBAL, IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_FLUSH,
    IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QPT_RC, Zeroed, ibv_context, ibv_device_attr_ex, ibv_pd,
    ibv_qp, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, verbs_context,
};
use device::{Capabilities, Error};
use transport::{Payload, QpType, SendOp, SendWr};

use crate::device_handle::DeviceHandle;
use crate::failure::{check, last};
use crate::library::Verbs;

/// The operations of this module that a device reports and its library carries out, as bits of `send_ops_flags`.
pub(crate) fn operations(handle: &DeviceHandle) -> u64 {
    // SAFETY: the handle keeps its object, an open context.
    let flags = unsafe { device_flags(handle.context()) };
    let known =
        [(IBV_DEVICE_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE), (IBV_DEVICE_FLUSH_GLOBAL, IBV_QP_EX_WITH_FLUSH)];
    let reported = known.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, operation)| operation);
    // The kernel reports them; the library may be older.
    reported.filter(|operation| is_made_with(handle, *operation)).fold(0, |all, one| all | one)
}

/// The operations that a queue pair is made with.
pub(crate) fn of_service(qp_type: QpType, abilities: &Capabilities) -> u64 {
    let there = [(abilities.atomic_write, IBV_QP_EX_WITH_ATOMIC_WRITE), (abilities.flush, IBV_QP_EX_WITH_FLUSH)];
    let reliable = there.into_iter().filter(|(there, _)| *there && qp_type == QpType::Rc);
    reliable.fold(0, |all, (_, one)| all | one)
}

/// Whether a request goes by [`post`].
pub(crate) fn has(op: &SendOp) -> bool {
    matches!(op, SendOp::AtomicWrite(_) | SendOp::Flush { .. })
}

/// `device_cap_flags_ex` of `ibv_query_device_ex(3)`; zero if the library is too old for it.
///
/// # Safety
/// A context that is open.
unsafe fn device_flags(context: *mut ibv_context) -> u64 {
    let mut attr = ibv_device_attr_ex::zeroed();
    // SAFETY: the contract of this function; there is room for the attributes.
    unsafe {
        let Some(whole) = whole(context, offset_of!(verbs_context, query_device_ex)) else { return 0 };
        let Some(query) = whole.as_ref().query_device_ex else { return 0 };
        if query(context, null(), &mut attr, size_of::<ibv_device_attr_ex>()) != 0 {
            return 0;
        }
    }
    attr.device_cap_flags_ex
}

/// The whole context, if it has the entry at `offset` of our structure. The structure grows at its front.
///
/// # Safety
/// A context that is open.
unsafe fn whole(context: *mut ibv_context, offset: usize) -> Option<NonNull<verbs_context>> {
    // SAFETY: a context that is open. `__VERBS_ABI_IS_EXTENDED` says that it is the end of a `verbs_context`, whose size is
    // right in front of it.
    unsafe {
        if (*context).abi_compat.addr() != usize::MAX {
            return None;
        }
        let whole = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        let has_entry = (&raw const (*whole).sz).read() >= size_of::<verbs_context>() - offset;
        NonNull::new(whole).filter(|_| has_entry)
    }
}

/// Makes a queue pair that has these operations, too.
///
/// # Safety
/// As [`create_qp`].
unsafe fn create(
    library: &Verbs,
    pd: *mut ibv_pd,
    init: &mut ibv_qp_init_attr,
    operations: u64,
) -> Option<(NonNull<ibv_qp>, NonNull<ibv_qp_ex>)> {
    let mut wanted = ibv_qp_init_attr_ex::of(init);
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    (wanted.pd, wanted.send_ops_flags) = (pd, operations);
    // SAFETY: the contract of this function; a domain knows its context, which is open.
    unsafe {
        let context = (*pd).context;
        let make = whole(context, offset_of!(verbs_context, create_qp_ex))?.as_ref().create_qp_ex?;
        let qp = NonNull::new(make(context, &mut wanted))?;
        let Some(extended) = NonNull::new((library.ibv_qp_to_qp_ex)(qp.as_ptr())) else {
            (library.ibv_destroy_qp)(qp.as_ptr());
            return None;
        };
        init.cap = wanted.cap;
        Some((qp, extended))
    }
}

/// Makes a queue pair, with operations of this module if there are any; `init` gets the sizes that it has.
///
/// # Safety
/// The domain and the queues of `init` exist.
pub(crate) unsafe fn create_qp(
    library: &Verbs,
    pd: *mut ibv_pd,
    init: &mut ibv_qp_init_attr,
    operations: u64,
) -> Result<(NonNull<ibv_qp>, Option<NonNull<ibv_qp_ex>>), Error> {
    // SAFETY: the contract of this function.
    unsafe {
        if operations == 0 {
            let qp = (library.ibv_create_qp)(pd, init);
            return Ok((NonNull::new(qp).ok_or_else(|| last("ibv_create_qp"))?, None));
        }
        let (qp, extended) = create(library, pd, init, operations).ok_or_else(|| last("ibv_create_qp_ex"))?;
        Ok((qp, Some(extended)))
    }
}

/// Whether the library makes a queue pair with the operation.
fn is_made_with(handle: &DeviceHandle, operation: u64) -> bool {
    let library = handle.library;
    // SAFETY: the handle keeps its object, an open context; each object is destroyed once, after those made from it.
    unsafe {
        let pd = (library.ibv_alloc_pd)(handle.context());
        if pd.is_null() {
            return false;
        }
        let cq = (library.ibv_create_cq)(handle.context(), 1, null_mut(), null_mut(), 0);
        let made = NonNull::new(cq).and_then(|cq| {
            let mut init = ibv_qp_init_attr {
                send_cq: cq.as_ptr(),
                recv_cq: cq.as_ptr(),
                cap: ibv_qp_cap {
                    max_send_wr: 1,
                    max_recv_wr: 1,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: IBV_QPT_RC,
                ..ibv_qp_init_attr_ex::zeroed().plain()
            };
            let made = create(library, pd, &mut init, operation);
            if let Some((qp, _)) = made {
                (library.ibv_destroy_qp)(qp.as_ptr());
            }
            (library.ibv_destroy_cq)(cq.as_ptr());
            made
        });
        (library.ibv_dealloc_pd)(pd);
        made.is_some()
    }
}

/// Posts an ATOMIC WRITE or a FLUSH.
///
/// # Errors
/// If the request has no bytes of its own, and those of `ibv_wr_complete(3)`.
///
/// # Safety
/// A queue pair that exists and was [created](create_qp) with the operation.
pub(crate) unsafe fn post(qp: NonNull<ibv_qp_ex>, wr: &SendWr) -> Result<(), Error> {
    const MISSING: Error = Error::Invalid("the device's library has no functions for this request");
    let qp = qp.as_ptr();
    // SAFETY: the contract of this function. The fields are for one thread at a time, between `wr_start` and `wr_complete`.
    unsafe {
        let (Some(start), Some(complete)) = ((*qp).wr_start, (*qp).wr_complete) else { return Err(MISSING) };
        let begin = |qp: *mut ibv_qp_ex| {
            start(qp);
            (*qp).wr_id = wr.wr_id;
            (*qp).wr_flags = wr.flags.verbs_bits();
        };
        match &wr.op {
            SendOp::AtomicWrite(at) => {
                let (write, value) = ((*qp).wr_atomic_write.ok_or(MISSING)?, word(&wr.payload)?);
                begin(qp);
                write(qp, at.rkey.0, at.addr, (&raw const value).cast());
            }
            SendOp::Flush { remote, len_bytes, placement, level } => {
                let flush = (*qp).wr_flush.ok_or(MISSING)?;
                begin(qp);
                flush(qp, remote.rkey.0, remote.addr, *len_bytes as usize, placement.bits(), level.0);
            }
            _ => return Err(Error::Invalid("this request goes by ibv_post_send")),
        }
        check("ibv_wr_complete", complete(qp))
    }
}

/// The word that an ATOMIC WRITE brings along.
fn word(payload: &Payload) -> Result<u64, Error> {
    let bytes = match payload {
        Payload::Inline(bytes) => <[u8; 8]>::try_from(&bytes[..]).ok(),
        Payload::Sgl(_) | Payload::Call(_) => None,
    };
    bytes.map(u64::from_ne_bytes).ok_or(Error::Invalid("an ATOMIC WRITE has eight bytes of inline data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_older_libraries_lack_entries() {
        let mut old = verbs_context::zeroed();
        let entry = offset_of!(verbs_context, create_qp_ex);
        old.sz = size_of::<verbs_context>() - entry;
        old.context.abi_compat = std::ptr::without_provenance_mut(usize::MAX);
        let start = &raw mut old;
        // SAFETY: a context within its structure.
        unsafe {
            let context = start.byte_add(offset_of!(verbs_context, context)).cast::<ibv_context>();
            assert_eq!(whole(context, entry), NonNull::new(start));
            assert_eq!(
                whole(context, offset_of!(verbs_context, query_device_ex)),
                None,
                "it lies further to the front"
            );
            (*context).abi_compat = null_mut();
            assert_eq!(whole(context, entry), None, "it is no extended context");
        }
    }

    #[test]
    fn an_atomic_write_needs_its_word() {
        assert_eq!(word(&Payload::Inline(7u64.to_ne_bytes().into_iter().collect())).unwrap(), 7);
        assert!(word(&Payload::empty()).is_err());
    }
}
