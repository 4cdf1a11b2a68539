//! Our end of a connection to a queue pair on this host: the path that the transport sends frames and accesses memory by.

mod at_once;
mod direct;
mod frames;
mod object;

use std::cell::RefCell;
use std::sync::Arc;

use memory::Registry;
use shm::SharedQp;
use transport::shm::frame::FrameHead;
use transport::shm::path::{DirectOutcome, DirectRequest, SendBody, ShmError, ShmPath};
use transport::shm::remote_op::RemoteOp;
use transport::{Access, Payload, PdId, RemoteAddr, Sge, Time};
use wire::{Qpn, RKey};

use crate::clock;
use crate::objects::counters::EngineCounters;
use crate::shm::export::Exporter;
use crate::shm::frame::FrameBody;
use crate::shm::lane::{self, LaneWait};
use crate::shm::link::ShmLink;
use crate::shm::reach::RecentAccess;
use crate::shm::record::FrameRecorder;
use crate::shm::tally::{AccessTally, DirectAccess};

/// Our end of a connection.
pub(crate) struct ShmEndpoint {
    link: Arc<ShmLink>,
    ours: Qpn,
    theirs: Qpn,
    lane: usize,
    /// The state that the peer was shown last.
    shown: Option<(PdId, Access)>,
    tally: AccessTally,
    recent: RefCell<RecentAccess>,
    recorder: FrameRecorder,
}

impl ShmEndpoint {
    pub(crate) fn new(
        link: Arc<ShmLink>,
        ours: Qpn,
        theirs: Qpn,
        counters: EngineCounters,
        recorder: FrameRecorder,
    ) -> ShmEndpoint {
        let (lane, tally) = (lane::of_qp(ours), AccessTally::new(counters));
        ShmEndpoint { link, ours, theirs, lane, shown: None, tally, recent: RefCell::default(), recorder }
    }

    #[inline]
    pub(crate) fn is_on(&self, link: &Arc<ShmLink>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// The wait for room in its lane.
    pub(crate) fn wait_for_room(&self) -> LaneWait {
        LaneWait::Lane(self.link.clone(), self.lane)
    }

    /// Shows the queue pair to the peer, with its domain and its remote rights, or takes it away.
    #[inline]
    pub(crate) fn show(&mut self, export: &Exporter, state: Option<(PdId, Access)>) {
        if self.shown == state {
            return;
        }
        self.shown = state;
        match state {
            Some((pd, access)) => {
                export.open_qp(&SharedQp { qpn: self.ours, peer: self.theirs, pd, access });
            }
            None => export.close_qp(self.ours),
        }
    }

    /// Tells the capture that the queue pair was modified.
    pub(crate) fn learn(&self, qp: &transport::Qp) {
        self.recorder.learn(qp);
    }

    /// Tells the capture of a frame that has arrived.
    pub(crate) fn record_arrived(&self, head: &FrameHead, body: &FrameBody<'_>) {
        self.recorder.arrived(head, body);
    }

    /// The accesses of this process to the peer's memory.
    pub(crate) fn tally(&self) -> &AccessTally {
        &self.tally
    }

    /// Unmaps the memory of the peer that was used last.
    pub(crate) fn forget_object(&self) {
        self.recent.borrow_mut().forget_object();
    }

    /// To be called behind each access to the peer's memory, which outlives its owner. The peer's successor may have
    /// answered other clients by then, so an access to the memory of a dead process must not succeed.
    #[inline]
    fn check_owner_lives(&self) -> Result<(), ShmError> {
        if self.link.peer().has_died() { Err(ShmError::PeerDead) } else { Ok(()) }
    }

    pub(crate) fn link(&self) -> Arc<ShmLink> {
        self.link.clone()
    }
}

impl ShmPath for ShmEndpoint {
    type Memory = Registry;

    fn now(&self) -> Time {
        clock::now()
    }

    #[inline]
    fn send(&self, memory: &Registry, head: &FrameHead, prefix: &[u8], body: SendBody<'_>) -> Result<u32, ShmError> {
        match self.link.is_recorded() {
            false => self.send_frame(memory, head, prefix, body),
            // A copy of the head: a value that a function gets by reference cannot stay in registers.
            true => self.send_and_record(memory, &{ *head }, prefix, body),
        }
    }

    #[inline]
    fn write(&self, memory: &Registry, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), ShmError> {
        self.write_there(memory, pd, payload, to)?;
        self.check_owner_lives()?;
        self.link.peer().announce_change();
        self.tally.add(DirectAccess::Write);
        Ok(())
    }

    fn write_bytes(&self, bytes: &[u8], to: RemoteAddr) -> Result<(), ShmError> {
        self.write_bytes_there(bytes, to)?;
        self.check_owner_lives()?;
        self.link.peer().announce_change();
        self.tally.add(DirectAccess::Write);
        Ok(())
    }

    #[inline]
    fn read(&self, memory: &Registry, pd: PdId, sgl: &[Sge], len_bytes: u32, from: RemoteAddr) -> Result<(), ShmError> {
        self.read_there(memory, pd, sgl, len_bytes, from)?;
        self.check_owner_lives()?;
        self.tally.add(DirectAccess::Read);
        Ok(())
    }

    #[inline]
    fn read_bytes(
        &self,
        memory: &Registry,
        out: &mut [u8],
        from: RemoteAddr,
        lock_mask: Option<u64>,
    ) -> Result<u32, ShmError> {
        let taken = self.read_bytes_there(memory, out, from, lock_mask)?;
        self.check_owner_lives()?;
        self.tally.add(DirectAccess::Read);
        Ok(taken)
    }

    fn read_object(
        &self,
        memory: &Registry,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
        lock_mask: u64,
    ) -> Result<u32, ShmError> {
        let object = object::RemoteObject { at: from, len_bytes, lock_mask };
        let taken = self.read_object_there(memory, pd, sgl, object)?;
        self.check_owner_lives()?;
        self.tally.add(DirectAccess::Read);
        Ok(taken)
    }

    #[inline]
    fn remote_op(&self, memory: &Registry, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError> {
        let before = self.remote_op_there(memory, remote_op, rkey)?;
        self.check_owner_lives()?;
        self.link.peer().announce_change();
        let is_write = matches!(remote_op, RemoteOp::Write(..));
        self.tally.add(if is_write { DirectAccess::Write } else { DirectAccess::Atomic });
        Ok(before)
    }

    #[inline]
    fn is_recorded(&self) -> bool {
        self.link.is_recorded()
    }

    #[inline]
    fn record(&self, memory: &Registry, request: &DirectRequest<'_>, outcome: DirectOutcome) {
        if self.link.is_recorded() {
            self.recorder.done(memory, request, outcome);
        }
    }
}
