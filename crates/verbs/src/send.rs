//! Posting: lists of work requests in C's structures.

use std::ffi::{c_int, c_uint};
use std::ptr::{NonNull, null_mut};

use abi::{
    IBV_SEND_INLINE, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
    IBV_WR_SEND_WITH_INV, Zeroed, ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_qp, ibv_qp_ex, ibv_send_wr,
    ibv_send_wr_atomic, ibv_send_wr_bind_mw, ibv_send_wr_rdma, ibv_send_wr_ud, ibv_sge,
};
use device::{Capabilities, Error, PostFailure};
use smallvec::SmallVec;
use transport::{AtomicOp, BindMw, Payload, PostError, QpCaps, RemoteAddr, SendOp, SendWr, Sge};

use crate::extended;
use crate::failure::check;
use crate::pd::Pd;

/// `IBV_MW_TYPE_1`: bound by a call of its own, not by a work request of a list.
const TYPE_1: c_int = abi::IBV_MW_TYPE_1;

/// The limits of a queue pair for its send work requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRules {
    pub(crate) sizes: QpCaps,
    /// The longest message, in bytes; UD: the longest datagram.
    pub(crate) message_bytes: u64,
    /// Entries of the list of a READ.
    pub(crate) max_read_sge: u32,
    pub(crate) abilities: Capabilities,
}

/// Posts send work requests in order.
///
/// # Errors
/// The first that is refused; those before it are posted.
///
/// # Safety
/// A queue pair that exists during the call; `extended` is the same one.
pub(crate) unsafe fn post(
    qp: *mut ibv_qp,
    extended: Option<NonNull<ibv_qp_ex>>,
    pd: &Pd,
    rules: &SendRules,
    wrs: impl IntoIterator<Item = SendWr>,
) -> Result<(), PostFailure> {
    let wrs: SmallVec<[SendWr; 4]> = wrs.into_iter().collect();
    let (mut chain, mut first) = (SendChain::default(), 0);
    for (index, wr) in wrs.iter().enumerate() {
        let mut push = |()| if extended::has(&wr.op) { Ok(Pushed::Extended) } else { chain.push(wr, pd) };
        let translated = rules.check(wr).and_then(&mut push);
        if !matches!(translated, Ok(Pushed::Entered)) {
            // SAFETY: the contract of `post`; the requests in the chain name bytes of `wrs`.
            unsafe { std::mem::take(&mut chain).post(qp) }.map_err(|failure| failure.after(first))?;
            first = index + 1;
        }
        match translated {
            Ok(Pushed::Entered | Pushed::LastOfChain) => {}
            Ok(Pushed::BindByCall(bind)) => {
                // SAFETY: the contract of `post`.
                let bound = unsafe { bind_by_call(qp, pd, wr, &bind) };
                bound.map_err(|error| PostFailure { index, error })?;
            }
            Ok(Pushed::Extended) => {
                let none = Error::Invalid("the queue pair was made without this operation");
                // SAFETY: the contract of `post`.
                let posted = extended.ok_or(none).and_then(|qp| unsafe { extended::post(qp, wr) });
                posted.map_err(|error| PostFailure { index, error })?;
            }
            Err(error) => return Err(PostFailure { index, error }),
        }
    }
    // SAFETY: as above.
    unsafe { chain.post(qp) }.map_err(|failure| failure.after(first))
}

impl SendRules {
    /// Refuses a request that the queue pair cannot carry out, in better words than the device's EINVAL. Linux rxe drops a
    /// datagram that is too long and reports success.
    fn check(&self, wr: &SendWr) -> Result<(), Error> {
        self.check_operation(&wr.op)?;
        let max_sge = if matches!(wr.op, SendOp::Read(_)) { self.max_read_sge } else { self.sizes.max_send_sge };
        let bytes = match &wr.payload {
            Payload::Inline(bytes) if !extended::has(&wr.op) && bytes.len() > self.sizes.max_inline_bytes as usize => {
                return Err(PostError::InlineTooLong { max_bytes: self.sizes.max_inline_bytes }.into());
            }
            Payload::Sgl(sgl) if sgl.len() > max_sge as usize => {
                return Err(PostError::TooManySges { max: max_sge }.into());
            }
            Payload::Call(_) => return Err(PostError::Call.into()),
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::Sgl(sgl) => sgl.iter().map(|sge| u64::from(sge.len_bytes)).sum(),
        };
        if bytes > self.message_bytes {
            return Err(PostError::MessageTooLong { max_bytes: self.message_bytes }.into());
        }
        Ok(())
    }

    fn check_operation(&self, op: &SendOp) -> Result<(), Error> {
        let missing = match op {
            SendOp::SendImm(_) | SendOp::WriteImm(..) if !self.abilities.immediate => {
                "this device has no immediate data"
            }
            SendOp::Atomic(..) if !self.abilities.atomics => "this device has no atomic operations",
            SendOp::AtomicWrite(_) if !self.abilities.atomic_write => "this device has no ATOMIC WRITE",
            SendOp::Flush { .. } if !self.abilities.flush => "this device has no FLUSH",
            op if op.is_extension() => "only Longarm's own device has this operation",
            _ => return Ok(()),
        };
        Err(Error::Invalid(missing))
    }
}

/// Where a request went.
enum Pushed {
    Entered,
    /// Into the chain, and none may follow it there.
    LastOfChain,
    BindByCall(BindMw),
    /// It is none of `ibv_post_send(3)`.
    Extended,
}

/// A failure within a chain.
struct ChainFailure {
    index: usize,
    error: Error,
}

impl ChainFailure {
    fn after(self, first: usize) -> PostFailure {
        PostFailure { index: first + self.index, error: self.error }
    }
}

/// Requests for one doorbell.
#[derive(Default)]
struct SendChain {
    wrs: SmallVec<[ibv_send_wr; 4]>,
    /// The lists of all requests, one after the other, and how many entries each has.
    sges: SmallVec<[ibv_sge; 8]>,
    counts: SmallVec<[usize; 4]>,
    /// The window that the last request binds, with its key afterwards.
    bound: Option<(NonNull<ibv_mw>, u32)>,
}

impl SendChain {
    fn push(&mut self, wr: &SendWr, pd: &Pd) -> Result<Pushed, Error> {
        let mut c = ibv_send_wr::zeroed();
        c.wr_id = wr.wr_id;
        c.send_flags = wr.flags.verbs_bits();
        if let SendOp::Bind(bind) = &wr.op {
            // SAFETY: the domain's table names windows that exist, since their owners keep them while they bind them.
            let is_type_1 = pd.window(bind.window).is_some_and(|mw| unsafe { mw.as_ref() }.r#type == TYPE_1);
            if is_type_1 {
                return Ok(Pushed::BindByCall(*bind));
            }
        }
        set_operation(&mut c, &wr.op, pd)?;
        if let Some(datagram) = &wr.datagram {
            let ah = pd.address_handle(&datagram.address)?.as_ptr();
            c.wr.ud = ibv_send_wr_ud { ah, remote_qpn: datagram.remote_qpn.get(), remote_qkey: datagram.remote_qkey.0 };
        }
        let before = self.sges.len();
        match &wr.payload {
            Payload::Sgl(sgl) => self.sges.extend(sgl.iter().filter_map(sge)),
            Payload::Call(_) => return Err(PostError::Call.into()),
            Payload::Inline(bytes) => {
                c.send_flags |= IBV_SEND_INLINE;
                let addr = bytes.as_ptr().addr() as u64;
                self.sges.extend((!bytes.is_empty()).then_some(ibv_sge { addr, length: bytes.len() as u32, lkey: 0 }));
            }
        }
        self.counts.push(self.sges.len() - before);
        self.wrs.push(c);
        let SendOp::Bind(bind) = &wr.op else { return Ok(Pushed::Entered) };
        self.bound = pd.window(bind.window).map(|mw| (mw, bind.new_rkey.0));
        // Devices read the present key of a window of type 2 from there when the request is posted.
        self.set_key(bind.window.0);
        Ok(Pushed::LastOfChain)
    }

    /// Writes the key of the window that the chain binds where programs keep it, as `ibv_post_send(3)` leaves that to them.
    fn set_key(&self, rkey: u32) {
        if let Some((mw, _)) = self.bound {
            // SAFETY: the window's owner keeps it while a request binds it. Others read the key by volatile reads.
            unsafe { (&raw mut (*mw.as_ptr()).rkey).write_volatile(rkey) };
        }
    }

    /// # Safety
    /// A queue pair that exists, and requests whose inline bytes still do.
    unsafe fn post(mut self, qp: *mut ibv_qp) -> Result<(), ChainFailure> {
        let mut entries = self.sges.as_mut_ptr();
        for (wr, count) in self.wrs.iter_mut().zip(&self.counts) {
            (wr.sg_list, wr.num_sge) = (entries, *count as c_int);
            // SAFETY: the entries of all requests lie one after the other; at most one past the end.
            entries = unsafe { entries.add(*count) };
        }
        let start = self.wrs.as_mut_ptr();
        for at in 1..self.wrs.len() {
            // SAFETY: within the list.
            unsafe { (*start.add(at - 1)).next = start.add(at) };
        }
        if self.wrs.is_empty() {
            return Ok(());
        }
        let mut bad = null_mut();
        // SAFETY: a queue pair that exists, with its context's table of functions; the list and what it names exist.
        let returned = unsafe {
            let Some(post) = (*(*qp).context).ops.post_send else {
                return Err(ChainFailure { index: 0, error: Error::Invalid("the device cannot send") });
            };
            post(qp, start, &mut bad)
        };
        let index = self.wrs.iter().position(|wr| std::ptr::eq(wr, bad)).unwrap_or(0);
        check("ibv_post_send", returned).map_err(|error| ChainFailure { index, error })?;
        self.bound.inspect(|(_, rkey)| self.set_key(*rkey));
        Ok(())
    }
}

fn set_operation(c: &mut ibv_send_wr, op: &SendOp, pd: &Pd) -> Result<(), Error> {
    c.opcode = match op {
        SendOp::Send => IBV_WR_SEND,
        SendOp::SendImm(imm) => {
            c.imm_data = imm.to_be();
            IBV_WR_SEND_WITH_IMM
        }
        SendOp::SendInvalidate(rkey) => {
            c.imm_data = rkey.0;
            IBV_WR_SEND_WITH_INV
        }
        SendOp::Write(to) => {
            c.wr.rdma = rdma(to);
            IBV_WR_RDMA_WRITE
        }
        SendOp::WriteImm(to, imm) => {
            c.wr.rdma = rdma(to);
            c.imm_data = imm.to_be();
            IBV_WR_RDMA_WRITE_WITH_IMM
        }
        SendOp::Read(from) => {
            c.wr.rdma = rdma(from);
            IBV_WR_RDMA_READ
        }
        SendOp::Atomic(at, op) => set_atomic(c, at, *op),
        SendOp::LocalInvalidate(rkey) => {
            c.imm_data = rkey.0;
            IBV_WR_LOCAL_INV
        }
        SendOp::Bind(bind) => {
            let mw = pd.window(bind.window).ok_or(Error::Invalid("the window is of another protection domain"))?;
            c.extra.bind_mw =
                ibv_send_wr_bind_mw { mw: mw.as_ptr(), rkey: bind.new_rkey.0, bind_info: bind_info(bind, pd)? };
            IBV_WR_BIND_MW
        }
        SendOp::AtomicWrite(_) | SendOp::Flush { .. } => {
            return Err(Error::Invalid("ATOMIC WRITE and FLUSH are none of ibv_post_send's"));
        }
        SendOp::ObjectRead(..) | SendOp::Call(_) => {
            return Err(Error::Invalid("only Longarm's own device has this operation"));
        }
    };
    Ok(())
}

fn set_atomic(c: &mut ibv_send_wr, at: &RemoteAddr, op: AtomicOp) -> c_int {
    let (compare_add, swap, opcode) = match op {
        AtomicOp::CompareSwap { compare, swap } => (compare, swap, IBV_WR_ATOMIC_CMP_AND_SWP),
        AtomicOp::FetchAdd { add } => (add, 0, IBV_WR_ATOMIC_FETCH_AND_ADD),
    };
    c.wr.atomic = ibv_send_wr_atomic { remote_addr: at.addr, compare_add, swap, rkey: at.rkey.0 };
    opcode
}

fn rdma(remote: &RemoteAddr) -> ibv_send_wr_rdma {
    ibv_send_wr_rdma { remote_addr: remote.addr, rkey: remote.rkey.0 }
}

fn bind_info(bind: &BindMw, pd: &Pd) -> Result<ibv_mw_bind_info, Error> {
    let mr = pd.region(bind.region).ok_or(Error::Invalid("the region is of another protection domain"))?;
    let mw_access_flags = bind.access.bits() as c_uint;
    Ok(ibv_mw_bind_info { mr: mr.as_ptr(), addr: bind.addr, length: bind.len_bytes, mw_access_flags })
}

/// Binds a window of type 1.
///
/// # Safety
/// A queue pair that exists.
unsafe fn bind_by_call(qp: *mut ibv_qp, pd: &Pd, wr: &SendWr, bind: &BindMw) -> Result<(), Error> {
    let mw = pd.window(bind.window).ok_or(Error::Invalid("the window is of another protection domain"))?;
    let mut c = ibv_mw_bind { wr_id: wr.wr_id, send_flags: wr.flags.verbs_bits(), bind_info: bind_info(bind, pd)? };
    // SAFETY: a queue pair that exists, with its context's table of functions; the window's owner keeps it.
    unsafe {
        let bind = (*(*qp).context).ops.bind_mw.ok_or(Error::Invalid("the device has no windows of type 1"))?;
        check("ibv_bind_mw", bind(qp, mw.as_ptr(), &mut c))
    }
}

/// An entry of a list. Entries without bytes are left out: C takes zero for 2^31.
pub(crate) fn sge(sge: &Sge) -> Option<ibv_sge> {
    (sge.len_bytes > 0).then_some(ibv_sge { addr: sge.addr, length: sge.len_bytes, lkey: sge.lkey.0 })
}
