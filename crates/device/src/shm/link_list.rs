//! The links that threads poll, with their sockets and their switches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;
use rustix::event::epoll;
use shm::Link;

use crate::shm::link::ShmLink;

/// See the module.
pub(crate) struct LinkList {
    /// Threads see by the version that it is another list.
    links: Mutex<Arc<[Arc<ShmLink>]>>,
    version: AtomicU64,
    direct: AtomicBool,
    recorded: AtomicBool,
    /// All their sockets.
    sockets: OwnedFd,
}

impl LinkList {
    pub(super) fn new() -> io::Result<LinkList> {
        Ok(LinkList {
            links: Mutex::new(Arc::new([])),
            version: AtomicU64::new(new_version()),
            direct: AtomicBool::new(true),
            recorded: AtomicBool::new(false),
            sockets: guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?),
        })
    }

    /// A link with the switches of this list, which it is not on yet.
    pub(super) fn make_link(&self, link: Link) -> ShmLink {
        ShmLink::new(link, self.direct.load(Relaxed), self.recorded.load(Relaxed))
    }

    /// Readable when [`LinkTable::serve`](crate::shm::links::LinkTable::serve) has something to do.
    pub(crate) fn sockets(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }

    pub(crate) fn all(&self) -> Arc<[Arc<ShmLink>]> {
        self.links.lock().clone()
    }

    /// Whether requests may be done without frames from now on. While faults are injected they may not.
    pub(crate) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
        for link in &*self.all() {
            link.set_direct(direct);
        }
    }

    /// Whether links tell the capture of their frames from now on.
    pub(crate) fn set_recorded(&self, recorded: bool) {
        self.recorded.store(recorded, Relaxed);
        for link in &*self.all() {
            link.set_recorded(recorded);
        }
    }

    /// The version of the list of links.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Adds a link: threads poll it from now on.
    pub(crate) fn enter(&self, link: Arc<ShmLink>) {
        if let Err(error) = watch(&self.sockets, &link, Arc::as_ptr(&link).addr() as u64) {
            log::warn!("the death of a peer may be seen late: {error}");
        }
        let mut list = self.links.lock();
        // A switch that was set since the link was made has not reached it.
        link.set_direct(self.direct.load(Relaxed));
        link.set_recorded(self.recorded.load(Relaxed));
        *list = list.iter().cloned().chain([link]).collect();
        self.version.store(new_version(), Release);
    }

    pub(super) fn remove(&self, link: &Arc<ShmLink>) {
        if let Some(socket) = link.socket() {
            let _ = epoll::delete(&self.sockets, socket);
        }
        if let Some(process) = link.peer().process() {
            let _ = epoll::delete(&self.sockets, process);
        }
        let mut list = self.links.lock();
        *list = list.iter().filter(|other| !Arc::ptr_eq(other, link)).cloned().collect();
        self.version.store(new_version(), Release);
    }
}

/// A version that no list of any engine has had: threads remember it with the links that they saw.
fn new_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Adds the socket of a link to an epoll instance, under a number.
fn watch(epoll: &OwnedFd, link: &ShmLink, number: u64) -> io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    let Some(socket) = link.socket() else { return Ok(()) };
    epoll::add(epoll, socket, epoll::EventData::new_u64(number), flags)?;
    // A child of the peer may hold the socket open when the peer is gone.
    if let Some(process) = link.peer().process() {
        epoll::add(epoll, process, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
    }
    Ok(())
}
