//! Queue pairs.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use ::device::{Capabilities, Error, Limits, PostFailure};
use abi::{Zeroed, ibv_gid, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex};
use parking_lot::{Mutex, RwLock};
use transport::{AttrMask, QpAttr, QpCaps, QpCounters, QpState, QpType, Reason, RecvWr, SendWr};
use wire::{Gid, Qpn};

use crate::cq::Cq;
use crate::device_handle::DeviceHandle;
use crate::failure::{FirstFailure, check};
use crate::groups::GroupMembership;
use crate::pd::Pd;
use crate::send::{self, SendRules};
use crate::srq::Srq;
use crate::{extended, info, qp_attr, receive};

/// The attributes of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Its service.
    pub qp_type: QpType,
    /// Its protection domain.
    pub pd: &'a Pd,
    /// The queue for its send completions.
    pub send_cq: &'a Cq,
    /// The queue for its receive completions; may be the same.
    pub recv_cq: &'a Cq,
    /// The queue that its receive work requests come from, if not its own.
    pub srq: Option<&'a Srq>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Whether every send request completes with a completion, as if it were signaled.
    pub signal_all: bool,
}

impl QpSpec<'_> {
    /// Checks that all objects are of that device.
    fn check(&self, device: &Arc<DeviceHandle>) -> Result<(), Error> {
        let foreign = |known: &Arc<DeviceHandle>| !Arc::ptr_eq(known, device);
        let parts = [
            (self.pd.device(), "protection domain"),
            (self.send_cq.device(), "completion queue"),
            (self.recv_cq.device(), "completion queue"),
        ];
        match parts.into_iter().find(|(known, _)| foreign(known)) {
            Some((_, what)) => Err(Error::OtherDevice(what)),
            None if self.srq.is_some_and(|srq| foreign(srq.device())) => {
                Err(Error::OtherDevice("shared receive queue"))
            }
            None => Ok(()),
        }
    }
}

fn check_service(qp_type: QpType, abilities: &Capabilities) -> Result<(), Error> {
    match qp_type {
        QpType::Uc if !abilities.uc => Err(Error::Invalid("this device has no unreliable connections")),
        QpType::Ud if !abilities.ud => Err(Error::Invalid("this device has no datagrams")),
        _ => Ok(()),
    }
}

/// Refuses sizes above the device's limits.
fn check_caps(caps: &QpCaps, limits: &Limits) -> Result<(), Error> {
    let sizes = [
        ("send queue size", caps.max_send_wr, limits.max_qp_wr),
        ("receive queue size", caps.max_recv_wr, limits.max_qp_wr),
        ("send list length", caps.max_send_sge, limits.max_sge),
        ("receive list length", caps.max_recv_sge, limits.max_sge),
        ("inline data", caps.max_inline_bytes, limits.max_inline_bytes),
    ];
    match sizes.into_iter().find(|(_, asked, max)| asked > max) {
        Some((what, asked, max)) => Err(Error::Limit { what, asked: asked.into(), max: max.into() }),
        None => Ok(()),
    }
}

/// A queue pair. Dropping the last clone destroys it.
#[derive(Clone, Debug)]
pub struct Qp {
    handle: Arc<OwnedQp>,
}

#[derive(Debug)]
struct OwnedQp {
    /// `None` once it was destroyed. Calls hold the lock for reading, so none is under way when it is destroyed.
    qp: RwLock<Option<NonNull<ibv_qp>>>,
    /// The same one, if it was made with operations that only `ibv_wr_post(3)` posts. It exists as long as `qp` is there.
    extended: Option<NonNull<ibv_qp_ex>>,
    device: Arc<DeviceHandle>,
    pd: Pd,
    qpn: Qpn,
    qp_type: QpType,
    rules: SendRules,
    failure: Arc<FirstFailure>,
    /// The state that it was last taken to.
    entered: Mutex<QpState>,
    /// UD: the groups that the host has joined for it.
    groups: Mutex<Vec<(Gid, GroupMembership)>>,
    /// They outlive the queue pair.
    _queues: (Cq, Cq, Option<Srq>),
}

// SAFETY: the functions of libibverbs may be called with a queue pair by any thread.
unsafe impl Send for OwnedQp {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OwnedQp {}

impl Qp {
    pub(crate) fn new(device: &Arc<DeviceHandle>, limits: &Limits, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        let abilities = device.capabilities(|| info::capabilities(device));
        check_service(spec.qp_type, &abilities)?;
        spec.check(device)?;
        check_caps(&spec.caps, limits)?;
        let mut init = ibv_qp_init_attr {
            send_cq: spec.send_cq.as_ptr(),
            recv_cq: spec.recv_cq.as_ptr(),
            srq: spec.srq.map_or(null_mut(), Srq::as_ptr),
            cap: caps_to_c(&spec.caps, spec.srq.is_some()),
            qp_type: spec.qp_type as c_int,
            sq_sig_all: spec.signal_all.into(),
            ..ibv_qp_init_attr_ex::zeroed().plain()
        };
        let operations = extended::of_service(spec.qp_type, &abilities);
        // SAFETY: the handles of the spec keep the domain and the queues.
        let (qp, extended) = unsafe { extended::create_qp(device.library, spec.pd.as_ptr(), &mut init, operations) }?;
        // SAFETY: the queue pair was made just now.
        let number = unsafe { qp.as_ref() }.qp_num;
        let handle = OwnedQp {
            qp: RwLock::new(Some(qp)),
            extended,
            device: device.clone(),
            pd: spec.pd.clone(),
            qpn: Qpn::new(number & 0xff_ffff),
            qp_type: spec.qp_type,
            rules: SendRules {
                sizes: spec.caps,
                message_bytes: longest_message(device, limits, spec.qp_type),
                max_read_sge: limits.max_read_sge.min(spec.caps.max_send_sge),
                abilities,
            },
            failure: device.failures.enter(number),
            entered: Mutex::new(QpState::Reset),
            groups: Mutex::default(),
            _queues: (spec.send_cq.clone(), spec.recv_cq.clone(), spec.srq.cloned()),
        };
        Ok(Qp { handle: Arc::new(handle) })
    }

    /// The inline bytes that a queue pair gets which asks for `bytes`, if the device makes it.
    pub(crate) fn probe(device: &Arc<DeviceHandle>, pd: &Pd, cq: &Cq, bytes: u32) -> Option<u32> {
        let mut init = ibv_qp_init_attr {
            send_cq: cq.as_ptr(),
            recv_cq: cq.as_ptr(),
            cap: ibv_qp_cap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: bytes,
            },
            qp_type: QpType::Rc as c_int,
            ..ibv_qp_init_attr_ex::zeroed().plain()
        };
        // SAFETY: the handles keep the domain and the queue. The queue pair is destroyed once.
        unsafe {
            let qp = NonNull::new((device.library.ibv_create_qp)(pd.as_ptr(), &mut init))?;
            (device.library.ibv_destroy_qp)(qp.as_ptr());
        }
        Some(init.cap.max_inline_data.max(bytes))
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.handle.qpn
    }

    /// Its service.
    pub fn qp_type(&self) -> QpType {
        self.handle.qp_type
    }

    /// The sizes that were asked for; the device may have given more.
    pub fn caps(&self) -> QpCaps {
        self.handle.rules.sizes
    }

    /// Its state; Reset once it was destroyed.
    pub fn state(&self) -> QpState {
        let told = self.query(AttrMask::STATE).map(|attr| qp_attr::state(attr.qp_state));
        match told {
            // Linux siw tells no other.
            Some(QpState::Reset) if self.handle.failure.get().is_some() => QpState::Error,
            Some(QpState::Reset) => *self.handle.entered.lock(),
            told => told.unwrap_or(QpState::Reset),
        }
    }

    /// Notes that the connection manager of an iWARP device has taken it to RTS.
    pub fn is_connected_by_device(&self) {
        *self.handle.entered.lock() = QpState::Rts;
    }

    /// Changes attributes and state.
    ///
    /// # Errors
    /// Those of `ibv_modify_qp(3)`.
    pub fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<(), Error> {
        let gids = if mask.contains(AttrMask::AV) { self.handle.device.gids() } else { Vec::new() };
        let unknown = Error::Invalid("the device does not have the source address");
        let mut attr_in_c = qp_attr::to_c(attr, mask, &gids).ok_or(unknown)?;
        if mask.contains(AttrMask::STATE) && attr.state == QpState::Error {
            self.handle.failure.note(Reason::Requested);
        }
        let library = self.handle.device.library;
        self.call(|qp| {
            // SAFETY: `call` holds the queue pair.
            let returned = unsafe { (library.ibv_modify_qp)(qp, &mut attr_in_c, mask.bits() as c_int) };
            check("ibv_modify_qp", returned)
        })?;
        if mask.contains(AttrMask::STATE) {
            *self.handle.entered.lock() = attr.state;
        }
        Ok(())
    }

    /// Posts a list of send work requests as one doorbell. The first that is refused ends the list.
    ///
    /// # Errors
    /// See [`PostFailure`].
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostFailure> {
        let qp = self.handle.qp.read();
        let qp = qp.ok_or(PostFailure { index: 0, error: Error::Destroyed("queue pair") })?;
        self.handle.must_complete()?;
        // SAFETY: the lock keeps the queue pair.
        unsafe { send::post(qp.as_ptr(), self.handle.extended, &self.handle.pd, &self.handle.rules, wrs) }
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        let qp = self.handle.qp.read();
        let qp = qp.ok_or(PostFailure { index: 0, error: Error::Destroyed("queue pair") })?;
        self.handle.must_complete()?;
        // SAFETY: the lock keeps the queue pair, and that its context with the table of functions.
        let post = unsafe { (*(*qp.as_ptr()).context).ops.post_recv };
        let post = post.ok_or(PostFailure { index: 0, error: Error::Invalid("the device cannot receive") })?;
        // SAFETY: as above; the list exists during the call.
        receive::post(wrs, self.handle.device.quirks(), |wr, bad| unsafe { post(qp.as_ptr(), wr, bad) })
    }

    /// UD: attaches it to a multicast group. On Ethernet the host joins the group as well, until the queue pair is
    /// detached or gone. On InfiniBand no message tells the network's switches of it.
    ///
    /// # Errors
    /// Those of `ibv_attach_mcast(3)`, and if the host cannot join the group.
    pub fn attach_multicast(&self, group: Gid) -> Result<(), Error> {
        let (library, gid) = (self.handle.device.library, ibv_gid { raw: group.0 });
        // SAFETY: `call` holds the queue pair.
        self.call(|qp| check("ibv_attach_mcast", unsafe { (library.ibv_attach_mcast)(qp, &gid, 0) }))?;
        let joined = self.join_on_host(group);
        joined.inspect_err(|_| drop(self.detach_multicast(group)))
    }

    fn join_on_host(&self, group: Gid) -> Result<(), Error> {
        let OwnedQp { device, groups, .. } = &*self.handle;
        let interfaces = device.gids().into_iter().map(|entry| entry.interface_index);
        let Some(interface) = interfaces.into_iter().find(|index| *index != 0) else { return Ok(()) };
        let joined = GroupMembership::join(group.ip(), interface);
        let membership = joined.map_err(|error| Error::Call { call: "joining the group on the host", error })?;
        groups.lock().push((group, membership));
        Ok(())
    }

    /// UD: detaches it from a multicast group.
    ///
    /// # Errors
    /// Those of `ibv_detach_mcast(3)`.
    pub fn detach_multicast(&self, group: Gid) -> Result<(), Error> {
        let (library, gid) = (self.handle.device.library, ibv_gid { raw: group.0 });
        self.handle.groups.lock().retain(|(joined, _)| *joined != group);
        // SAFETY: `call` holds the queue pair.
        self.call(|qp| check("ibv_detach_mcast", unsafe { (library.ibv_detach_mcast)(qp, &gid, 0) }))
    }

    /// The reason of its failure, as far as completions have told. A responder has none: its device only shows its state.
    pub fn failure(&self) -> Option<Reason> {
        let failed = || (self.state() == QpState::Error).then_some(Reason::Device);
        self.handle.failure.get().or_else(failed)
    }

    /// A device of the system asks for nothing of the kind.
    pub fn peer_extends(&self) -> Option<bool> {
        Some(false)
    }

    /// Zeros: the library does not count.
    pub fn counters(&self) -> QpCounters {
        QpCounters::default()
    }

    /// Destroys it. No access to memory is under way on its behalf when this returns.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it is destroyed already; those of `ibv_destroy_qp(3)`.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.destroy()
    }

    fn query(&self, mask: AttrMask) -> Option<ibv_qp_attr> {
        let library = self.handle.device.library;
        let (mut attr, mut init) = (ibv_qp_attr::zeroed(), ibv_qp_init_attr_ex::zeroed().plain());
        let queried = self.call(|qp| {
            // SAFETY: `call` holds the queue pair; there is room for the answers.
            check("ibv_query_qp", unsafe { (library.ibv_query_qp)(qp, &mut attr, mask.bits() as c_int, &mut init) })
        });
        queried.ok().map(|()| attr)
    }

    /// Calls `work` with the queue pair held.
    fn call<R>(&self, work: impl FnOnce(*mut ibv_qp) -> Result<R, Error>) -> Result<R, Error> {
        let qp = self.handle.qp.read();
        work(qp.ok_or(Error::Destroyed("queue pair"))?.as_ptr())
    }
}

impl OwnedQp {
    /// Refuses requests that the device would never complete.
    fn must_complete(&self) -> Result<(), PostFailure> {
        if self.device.quirks().completes_late_requests {
            return Ok(());
        }
        if *self.entered.lock() == QpState::Error || self.failure.get().is_some() {
            let error = Error::Invalid("its connection has ended, and this device completes no request then");
            return Err(PostFailure { index: 0, error });
        }
        Ok(())
    }

    fn destroy(&self) -> Result<(), Error> {
        let mut place = self.qp.write();
        let qp = place.ok_or(Error::Destroyed("queue pair"))?;
        // SAFETY: the lock keeps all other calls out, and none follows.
        check("ibv_destroy_qp", unsafe { (self.device.library.ibv_destroy_qp)(qp.as_ptr()) })?;
        *place = None;
        self.device.failures.leave(self.qpn.get(), &self.failure);
        Ok(())
    }
}

impl Drop for OwnedQp {
    fn drop(&mut self) {
        match self.destroy() {
            Ok(()) | Err(Error::Destroyed(_)) => {}
            Err(error) => log::warn!("{error}"),
        }
    }
}

/// In bytes. A datagram is one packet, with the MTU that the port has now.
fn longest_message(device: &DeviceHandle, limits: &Limits, qp_type: QpType) -> u64 {
    match qp_type {
        QpType::Ud => info::active_mtu(device).bytes().into(),
        _ => limits.max_message_bytes,
    }
}

fn caps_to_c(caps: &QpCaps, shares_receives: bool) -> ibv_qp_cap {
    let own = |number| if shares_receives { 0 } else { number };
    ibv_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: own(caps.max_recv_wr),
        max_send_sge: caps.max_send_sge,
        max_recv_sge: own(caps.max_recv_sge),
        max_inline_data: caps.max_inline_bytes,
    }
}
