//! The shared-memory path: the links of this process, and the ends of queue pairs on them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use shm::{Export, Link};
use transport::QpState;

use crate::qp::entry::{Live, QpEntry};
use crate::qp::host::Notices;
use crate::qp::services::QpServices;
use crate::schedule::Schedule;
use crate::shm::export::Exporter;
use crate::shm::link::ShmLink;
use crate::shm::links::LinkTable;

/// The links to other processes of this host, and the export that shows them this process.
pub(crate) struct LanePath {
    pub(crate) export: Arc<Exporter>,
    pub(crate) links: Arc<LinkTable>,
}

impl LanePath {
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new(export: Export) -> io::Result<LanePath> {
        let links = Arc::new(LinkTable::new()?);
        Ok(LanePath { export: Arc::new(Exporter::new(export, links.clone())), links })
    }

    /// The link for queue pairs whose peers are in this process. `bell` makes a copy of the bell that wakes it.
    pub(crate) fn link_to_itself(&self, bell: impl FnOnce() -> io::Result<OwnedFd>) -> Option<Arc<ShmLink>> {
        self.links.to_itself(|| Ok(Link::to_itself(self.export.export(), bell()?)?), &self.export)
    }

    /// Sends frames for a locked queue pair; its ACK as well if `with_ack`.
    #[inline]
    pub(crate) fn transmit(
        &self,
        services: &QpServices,
        schedule: &Schedule,
        entry: &Arc<QpEntry>,
        live: &mut Live,
        notices: &mut Notices,
        with_ack: bool,
    ) {
        let (qp, mut host) = live.hosted(services, entry, notices);
        qp.progress(with_ack, &mut host);
        self.look_after(schedule, entry, live);
    }

    /// Shows the peer the state of a locked queue pair, and puts the queue pair in line if its lane has no room.
    #[inline]
    pub(crate) fn look_after(&self, schedule: &Schedule, entry: &Arc<QpEntry>, live: &mut Live) {
        self.show(live);
        if let Some(endpoint) = &live.shm
            && live.qp.waits_for_lane()
        {
            schedule.stall(entry, &endpoint.wait_for_room());
        }
    }

    /// Shows the peer the state of a locked queue pair.
    #[inline]
    fn show(&self, live: &mut Live) {
        let Live { qp, shm: Some(endpoint), .. } = live else { return };
        let open = matches!(qp.state(), QpState::Rtr | QpState::Rts | QpState::Sqd);
        endpoint.show(&self.export, open.then(|| (qp.pd(), qp.access())));
    }

    /// Takes a queue pair that is gone away from the peer's sight, and waits for the peer's accesses on its behalf.
    pub(crate) fn hide(&self, live: &mut Live) {
        if let Some(endpoint) = &mut live.shm {
            endpoint.show(&self.export, None);
            endpoint.link().wait_for_peer_accesses();
        }
    }

    /// Whether frames wait in a lane.
    pub(crate) fn frames_wait(&self) -> bool {
        self.links.list.all().iter().any(|link| link.waiting() != 0)
    }
}
