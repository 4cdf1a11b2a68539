//! The library's ids, and the calls on them.

use std::ffi::c_int;
use std::net::SocketAddr;
use std::ptr::{NonNull, null_mut};

use abi::socket_address::{length, of_storage, storage};
use abi::{RAI_PASSIVE, Zeroed, ibv_context, ibv_path_data, ibv_qp_attr, ibv_sa_path_rec, rdma_addrinfo, rdma_cm_id};
use connect::{ConnParam, Error, PortSpace};
use transport::{AttrMask, QpAttr, QpState, QpType};
use wire::Gid;

use crate::addresses::gid_of;
use crate::cm::channel::OwnedEventChannel;
use crate::cm::context::{gids, is_of_infiniband};
use crate::cm::error::check;
use crate::cm::param;
use crate::library::RdmaCm;
use crate::qp_attr;

/// An id of the library that goes with this value.
pub(super) struct OwnedCmId {
    library: &'static RdmaCm,
    id: NonNull<rdma_cm_id>,
    /// The process that made it. A forked child's copy is its parent's id.
    process: u32,
}

// SAFETY: any thread may call the library's functions (contracts of the crate). Only they write to the structure, and
// the callers of this type make one call at a time.
unsafe impl Send for OwnedCmId {}

impl OwnedCmId {
    /// A new id that is bound to `source`. It has a channel of its own: see [`migrate`](OwnedCmId::migrate).
    pub(super) fn bound(
        library: &'static RdmaCm,
        service: (PortSpace, QpType),
        source: SocketAddr,
    ) -> Result<OwnedCmId, Error> {
        OwnedCmId::create(library, service, (Some(source), None), None)
    }

    /// A new id with a route to `destination`. Waits until address and route are resolved; with a path, only until the
    /// address is. It has a channel of its own: see [`migrate`](OwnedCmId::migrate).
    pub(super) fn resolved(
        library: &'static RdmaCm,
        service: (PortSpace, QpType),
        source: Option<SocketAddr>,
        destination: SocketAddr,
        path: Option<ibv_path_data>,
    ) -> Result<OwnedCmId, Error> {
        OwnedCmId::create(library, service, (source, Some(destination)), path)
    }

    fn create(
        library: &'static RdmaCm,
        (space, qp_type): (PortSpace, QpType),
        (source, destination): (Option<SocketAddr>, Option<SocketAddr>),
        mut path: Option<ibv_path_data>,
    ) -> Result<OwnedCmId, Error> {
        let (mut from, mut to) = (source.map(storage), destination.map(storage));
        let mut info = rdma_addrinfo::zeroed();
        info.ai_flags = if destination.is_none() { RAI_PASSIVE } else { 0 };
        info.ai_port_space = space as c_int;
        info.ai_qp_type = qp_type as c_int;
        info.ai_src_len = source.map_or(0, length);
        info.ai_dst_len = destination.map_or(0, length);
        info.ai_src_addr = from.as_mut().map_or(null_mut(), |from| (&raw mut *from).cast());
        info.ai_dst_addr = to.as_mut().map_or(null_mut(), |to| (&raw mut *to).cast());
        info.ai_route_len = path.as_ref().map_or(0, |_| size_of::<ibv_path_data>());
        info.ai_route = path.as_mut().map_or(null_mut(), |path| (&raw mut *path).cast());
        let mut id = null_mut();
        // SAFETY: room for the id; addresses and a path that live until the call returns; no domain and no queue pair.
        let result = unsafe { (library.rdma_create_ep)(&raw mut id, &raw mut info, null_mut(), null_mut()) };
        check("rdma_create_ep", result)?;
        let id = NonNull::new(id).expect("rdma_create_ep gives an id if it succeeds");
        // SAFETY: the id was made just now.
        Ok(unsafe { OwnedCmId::adopt(library, id) })
    }

    /// # Safety
    /// An id that exists and that nobody else destroys.
    pub(super) unsafe fn adopt(library: &'static RdmaCm, id: NonNull<rdma_cm_id>) -> OwnedCmId {
        OwnedCmId { library, id, process: std::process::id() }
    }

    /// Identifies it as long as it exists.
    pub(super) fn address(&self) -> usize {
        self.id.addr().get()
    }

    /// The device's context; `None` if the id is bound to no device. It is the library's: it stays open as long as the
    /// id exists.
    pub(super) fn context(&self) -> Option<NonNull<ibv_context>> {
        // SAFETY: the handle keeps its object.
        NonNull::new(unsafe { (*self.id.as_ptr()).verbs })
    }

    /// Whether it is bound to a device of iWARP.
    pub(super) fn is_of_iwarp(&self) -> bool {
        // SAFETY: the context is open as long as the id exists.
        self.context().is_some_and(|context| unsafe { !is_of_infiniband(context) })
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the handle keeps its object.
        of_storage(&unsafe { (*self.id.as_ptr()).route.addr.src_storage })
    }

    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the handle keeps its object.
        of_storage(&unsafe { (*self.id.as_ptr()).route.addr.dst_storage })
    }

    /// The source GID; zero if the device is not one of InfiniBand or RoCE.
    pub(super) fn source_gid(&self) -> Gid {
        // SAFETY: the handle keeps its object.
        gid_of(unsafe { (*self.id.as_ptr()).route.addr.addr.sgid })
    }

    pub(super) fn port(&self) -> u8 {
        // SAFETY: the handle keeps its object.
        unsafe { (*self.id.as_ptr()).port_num }
    }

    /// The path to the peer; `None` before the route is resolved, and on iWARP.
    pub(super) fn path(&self) -> Option<ibv_sa_path_rec> {
        // SAFETY: the handle keeps its object, and the id that many paths.
        unsafe {
            let route = &raw const (*self.id.as_ptr()).route;
            if (*route).num_paths > 0 { (*route).path_rec.as_ref().copied() } else { None }
        }
    }

    /// Sends its events to `channel`, which its caller keeps.
    pub(super) fn migrate(&self, channel: &OwnedEventChannel) -> Result<(), Error> {
        // SAFETY: the handles keep their objects.
        let result = unsafe { (self.library.rdma_migrate_id)(self.id.as_ptr(), channel.as_ptr()) };
        check("rdma_migrate_id", result)
    }

    pub(super) fn listen(&self, backlog: u32) -> Result<(), Error> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the handle keeps its object.
        check("rdma_listen", unsafe { (self.library.rdma_listen)(self.id.as_ptr(), backlog) })
    }

    pub(super) fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        self.must_have_device()?;
        let mut param = param::connection_to_c(param);
        // SAFETY: the handle keeps its object, which has a device; the private data live until the call returns.
        check("rdma_connect", unsafe { (self.library.rdma_connect)(self.id.as_ptr(), &raw mut param) })
    }

    pub(super) fn establish(&self) -> Result<(), Error> {
        // SAFETY: the handle keeps its object.
        check("rdma_establish", unsafe { (self.library.rdma_establish)(self.id.as_ptr()) })
    }

    pub(super) fn accept(&self, param: &ConnParam) -> Result<(), Error> {
        self.must_have_device()?;
        let mut param = param::connection_to_c(param);
        // SAFETY: the handle keeps its object, which has a device; the private data live until the call returns.
        check("rdma_accept", unsafe { (self.library.rdma_accept)(self.id.as_ptr(), &raw mut param) })
    }

    pub(super) fn reject(&self, private_data: &[u8]) -> Result<(), Error> {
        let (data, bytes) = param::private_data_to_c(private_data);
        // SAFETY: the handle keeps its object; the private data live until the call returns.
        check("rdma_reject", unsafe { (self.library.rdma_reject)(self.id.as_ptr(), data, bytes) })
    }

    pub(super) fn disconnect(&self) -> Result<(), Error> {
        // SAFETY: the handle keeps its object.
        check("rdma_disconnect", unsafe { (self.library.rdma_disconnect)(self.id.as_ptr()) })
    }

    /// The attributes that take a queue pair to `state`. Attributes that the library does not name (iWARP: nearly all)
    /// have their defaults.
    pub(super) fn qp_attr(&self, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
        let context = self.must_have_device()?;
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state as c_int;
        let mut mask = 0;
        // SAFETY: the handle keeps its object; attributes and a mask to write.
        let result = unsafe { (self.library.rdma_init_qp_attr)(self.id.as_ptr(), &raw mut attr, &raw mut mask) };
        check("rdma_init_qp_attr", result)?;
        // SAFETY: the context is open as long as the id exists.
        let gids = unsafe { gids(context) };
        let attr = QpAttr { state, ..qp_attr::of_c(&attr, &gids) };
        Ok((attr, AttrMask::from_bits_truncate(mask as u32)))
    }

    /// The library reads the limits of the id's device without a check that there is one.
    fn must_have_device(&self) -> Result<NonNull<ibv_context>, Error> {
        self.context().ok_or(Error::State("it is bound to no device"))
    }
}

impl Drop for OwnedCmId {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the handle keeps its object until this call.
            unsafe { (self.library.rdma_destroy_id)(self.id.as_ptr()) };
        }
    }
}
