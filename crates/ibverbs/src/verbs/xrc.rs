//! XRC domains, and second handles of their queue pairs.

use std::collections::HashMap;
use std::sync::Arc;

use device::{Qp, Qpn, Xrcd};
use parking_lot::Mutex;

use crate::boundary::{Errno, errno, pointer};
use crate::object::{CObject, next_handle};
use crate::verbs::context::ContextOwn;
use crate::verbs::qp_ex;
use crate::verbs::qp_object::{QpObject, QpOwn};
use crate::verbs::shared::{FileIdentity, file_id};
use crate::verbs::unacked::Unacked;
use crate::verbs::wr_builder::WrBuilder;
use abi::*;

/// Our part of an XRC domain's handle. Handles opened on one file share the domain.
pub(crate) struct XrcdOwn {
    pub(crate) xrcd: Arc<Xrcd>,
    file: Option<FileIdentity>,
}

pub(crate) type XrcdObject = CObject<ibv_xrcd, XrcdOwn>;

/// Domains of this process that are known by a file.
static BY_FILE: Mutex<Option<HashMap<FileIdentity, Arc<Xrcd>>>> = Mutex::new(None);

/// `ibv_open_xrcd(3)`. Without a file (fd −1) the domain is this handle's alone. With one, all
/// handles of this process on that file share it; processes do not share domains here.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    pointer(|| {
        // SAFETY: the contract of `open_xrcd`: an open context and readable attributes.
        let (own, attr) = unsafe { (ContextOwn::of(context)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        let needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask != needed || attr.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno::INVAL);
        }
        let part = match attr.fd {
            -1 if attr.oflags & libc::O_CREAT == 0 => return Err(Errno::INVAL),
            -1 => XrcdOwn { xrcd: Arc::new(own.device.open_xrcd()?), file: None },
            fd => of_file(own, file_id(fd)?, attr.oflags)?,
        };
        Ok(XrcdObject::leak(ibv_xrcd { context }, part))
    })
}

fn of_file(own: &ContextOwn, file: FileIdentity, oflags: c_int) -> Result<XrcdOwn, Errno> {
    let mut known = BY_FILE.lock();
    let known = known.get_or_insert_default();
    let xrcd = match known.get(&file) {
        Some(_) if oflags & libc::O_EXCL != 0 => return Err(Errno(libc::EEXIST)),
        Some(xrcd) => xrcd.clone(),
        None if oflags & libc::O_CREAT == 0 => return Err(Errno(libc::ENOENT)),
        None => {
            let xrcd = Arc::new(own.device.open_xrcd()?);
            known.insert(file, xrcd.clone());
            xrcd
        }
    };
    Ok(XrcdOwn { xrcd, file: Some(file) })
}

/// `ibv_close_xrcd(3)`: EBUSY if it is the last handle and something uses the domain.
///
/// # Safety
/// Null, or open.
pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    errno(|| {
        // SAFETY: the contract of `close_xrcd`: null, or open.
        let own = unsafe { XrcdObject::of(xrcd) }?;
        let mut known = BY_FILE.lock();
        // The table of files holds one more.
        let last = Arc::strong_count(&own.xrcd) <= 1 + usize::from(own.file.is_some());
        if last {
            own.xrcd.destroy()?;
            if let (Some(file), Some(known)) = (own.file, known.as_mut()) {
                known.remove(&file);
            }
        }
        // SAFETY: the contract of `close_xrcd`: null, or open.
        unsafe { XrcdObject::free(xrcd) };
        Ok(())
    })
}

const OPEN_NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

/// `ibv_open_qp(3)`: another handle of a target queue pair of this process.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the contract of `open_qp`: an open context and readable attributes.
        let (own, attr) = unsafe { (ContextOwn::of(context)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        let known = OPEN_NEEDED | IBV_QP_OPEN_ATTR_CONTEXT;
        if attr.comp_mask & OPEN_NEEDED != OPEN_NEEDED || attr.comp_mask & !known != 0 {
            return Err(Errno::INVAL);
        }
        if attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `open_qp`: an open context and readable attributes.
        unsafe { XrcdObject::of(attr.xrcd) }?;
        let (qp, handles) = target(own, attr.qp_num)?;
        let qp_context = match attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT {
            0 => std::ptr::null_mut(),
            _ => attr.qp_context,
        };
        Ok(second_handle(context, qp, handles, qp_context))
    })
}

/// The target queue pair of that number.
fn target(own: &ContextOwn, qp_num: u32) -> Result<(Qp, Arc<()>), Errno> {
    let targets = own.targets.lock();
    let found = targets.qps.get(&Qpn::new(qp_num)).ok_or(Errno::INVAL)?;
    // SAFETY: an object exists while the table of event targets knows it; its lock is held.
    let own = unsafe { QpObject::whatever_handle(found.0) }?;
    if own.qp.qp_type() == device::QpType::XrcRecv {
        Ok((own.qp.clone(), own.handles.clone()))
    } else {
        Err(Errno::INVAL)
    }
}

fn second_handle(context: *mut ibv_context, qp: Qp, handles: Arc<()>, qp_context: *mut c_void) -> *mut ibv_qp {
    let c = ibv_qp {
        context,
        qp_context,
        pd: std::ptr::null_mut(),
        send_cq: std::ptr::null_mut(),
        recv_cq: std::ptr::null_mut(),
        srq: std::ptr::null_mut(),
        handle: next_handle(),
        qp_num: qp.qpn().get(),
        state: qp.state() as c_int,
        qp_type: IBV_QPT_XRC_RECV,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let own = QpOwn {
        caps: qp.caps(),
        qp,
        signal_all: false,
        unacked: Unacked::default(),
        builder: WrBuilder::default(),
        extended: false,
        handles,
    };
    CObject::leak(qp_ex::table(c), own).cast()
}
