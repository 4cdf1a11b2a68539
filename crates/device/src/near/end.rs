//! Our end of a connection to a queue pair in another process: the path that the transport asks for.

use std::cell::RefCell;
use std::sync::Arc;

use local::{Hazard, LANES, MAX_FRAME_BYTES, SharedQp};
use memory::Registry;
use smallvec::SmallVec;
use transport::near::errand::Errand;
use transport::near::frame::{Flags, HEAD_BYTES, Head};
use transport::near::path::{Body, Path, Stop};
use transport::near::transcript::{Deed, Outcome};
use transport::{Access, Accessor, Memory, MemoryError, Payload, PdId, RemoteAddr, Sge, Time};
use wire::{Qpn, RKey};

use super::arrived::{FrameBody, LENT_BYTES, Lent, MAX_LENT};
use super::export::Exporter;
use super::far;
use super::links::NearLink;
use super::reach::{Place, Recent};
use super::record::Recorder;
use super::tally::{Direct, Tally};
use crate::clock;
use crate::counters::Counters;
use crate::engine::Shortage;

/// From so many bytes on a SEND says where its bytes are: below, two short copies cost less than
/// the way to the sender's memory.
const LEND_FROM_BYTES: u32 = 4 << 10;
/// Bytes of a message in one frame.
const MAX_PART_BYTES: u32 = (MAX_FRAME_BYTES - HEAD_BYTES - 64) as u32;

/// Our end of a connection.
pub(crate) struct End {
    link: Arc<NearLink>,
    ours: Qpn,
    theirs: Qpn,
    lane: usize,
    /// What peers were last shown.
    shown: Option<(PdId, Access)>,
    tally: Tally,
    recent: RefCell<Recent>,
    recorder: Recorder,
}

impl End {
    pub(super) fn new(link: Arc<NearLink>, ours: Qpn, theirs: Qpn, counters: Counters, recorder: Recorder) -> End {
        let (lane, tally) = (usize::from(ours.index()) % LANES, Tally::new(counters));
        End { link, ours, theirs, lane, shown: None, tally, recent: RefCell::default(), recorder }
    }

    pub(crate) fn is_on(&self, link: &Arc<NearLink>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// What it waits for if there is no room.
    pub(crate) fn shortage(&self) -> Shortage {
        Shortage::Lane(self.link.clone(), self.lane)
    }

    /// Shows the queue pair to the peer, with its domain and its remote rights, or takes it away.
    #[inline]
    pub(super) fn show(&mut self, export: &Exporter, state: Option<(PdId, Access)>) {
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

    /// The queue pair was modified.
    pub(crate) fn learn(&self, qp: &transport::Qp) {
        self.recorder.learn(qp);
    }

    /// Tells of a frame that has arrived.
    pub(super) fn record_arrived(&self, head: &Head, body: &FrameBody<'_>) {
        self.recorder.arrived(head, body);
    }

    /// What was done by ourselves in the peer's memory.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Keeps no memory of the peer mapped because it was used last.
    pub(super) fn forget_object(&self) {
        self.recent.borrow_mut().forget_object();
    }

    pub(crate) fn link(&self) -> Arc<NearLink> {
        self.link.clone()
    }

    #[inline]
    pub(super) fn is_link(&self, link: &NearLink) -> bool {
        std::ptr::eq(&*self.link, link)
    }

    /// Begins an access, if there is a peer and it may be.
    #[inline]
    fn enter(&self) -> Result<Hazard<'_>, Stop> {
        if self.link.is_dead() {
            return Err(Stop::Dead);
        }
        if !self.link.is_direct() {
            return Err(Stop::Elsewhere);
        }
        Ok(self.link.enter(self.ours.index()))
    }

    /// Sends a frame whose body is there.
    #[inline]
    fn send_bytes(&self, head: &Head, prefix: &[u8], bytes: &[u8]) -> Result<(), Stop> {
        let mut lane = self.link.producer(self.lane);
        let Some(mut room) = lane.reserve(HEAD_BYTES + prefix.len() + bytes.len()) else { return Err(self.no_room()) };
        room.write(0, &head.encode());
        room.write(HEAD_BYTES, prefix);
        room.write(HEAD_BYTES + prefix.len(), bytes);
        room.commit();
        Ok(())
    }

    /// Sends a part of a list.
    #[inline]
    fn send_list(
        &self,
        memory: &Registry,
        head: &mut Head,
        prefix: &[u8],
        (pd, sgl, offset): (PdId, &[Sge], u32),
        left_bytes: u32,
    ) -> Result<u32, Stop> {
        let part = left_bytes.min(MAX_PART_BYTES);
        head.flags.set(Flags::LAST, part == left_bytes);
        let at = HEAD_BYTES + prefix.len();
        let mut lane = self.link.producer(self.lane);
        let Some(mut room) = lane.reserve(at + part as usize) else { return Err(self.no_room()) };
        room.write(0, &head.encode());
        room.write(HEAD_BYTES, prefix);
        if part > 0 {
            let to = room.span(at, part as usize).ok_or(Stop::Full)?;
            memory.gather_to(pd, sgl, offset.into(), to).map_err(Stop::Local)?;
        }
        room.commit();
        Ok(part)
    }

    /// Says where all of a list is, if all of it can be mapped by the peer.
    fn lend(&self, memory: &Registry, head: &mut Head, pd: PdId, sgl: &[Sge]) -> Result<bool, Stop> {
        let mut bytes: SmallVec<[u8; LENT_BYTES * MAX_LENT]> = SmallVec::new();
        let parts = sgl.iter().filter(|sge| sge.len_bytes > 0);
        if parts.clone().count() > MAX_LENT {
            return Ok(false);
        }
        for sge in parts {
            let Some((object, offset)) = memory.locate(pd, sge).map_err(Stop::Local)? else { return Ok(false) };
            bytes.extend(Lent { object, len_bytes: sge.len_bytes, offset }.encode());
        }
        head.flags |= Flags::LENT | Flags::LAST;
        self.send_bytes(head, &[], &bytes)?;
        Ok(true)
    }

    /// The lane takes no frame: it is full, or there is nobody.
    #[cold]
    fn no_room(&self) -> Stop {
        if self.link.is_dead() { Stop::Dead } else { Stop::Full }
    }

    #[cold]
    #[inline(never)]
    fn send_and_record(&self, memory: &Registry, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop> {
        let taken = self.send_frame(memory, head, prefix, body)?;
        self.recorder.sent(memory, head, prefix, body, taken);
        Ok(taken)
    }

    #[inline(always)] // Called twice, but once only where it matters.
    fn send_frame(&self, memory: &Registry, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop> {
        let mut head = *head;
        match body {
            Body::Bytes(bytes) => {
                head.flags |= Flags::LAST;
                self.send_bytes(&head, prefix, bytes)?;
                Ok(bytes.len() as u32)
            }
            Body::List { pd, sgl, offset, left_bytes, may_lend } => {
                let whole = may_lend && offset == 0 && left_bytes >= LEND_FROM_BYTES;
                if whole && self.lend(memory, &mut head, pd, sgl)? {
                    return Ok(left_bytes);
                }
                self.send_list(memory, &mut head, prefix, (pd, sgl, offset), left_bytes)
            }
            Body::Remote { who, rkey, addr, left_bytes } => {
                self.send_remote(memory, &mut head, (who, rkey, addr), left_bytes)
            }
        }
    }

    /// Sends a part of what a key of ours opens.
    fn send_remote(
        &self,
        memory: &Registry,
        head: &mut Head,
        (who, rkey, addr): (Accessor, RKey, u64),
        left_bytes: u32,
    ) -> Result<u32, Stop> {
        let part = left_bytes.min(MAX_PART_BYTES);
        let mut bytes: SmallVec<[u8; 1024]> = SmallVec::new();
        bytes.resize(part as usize, 0);
        memory.remote_read(who, rkey, addr, &mut bytes).map_err(Stop::Remote)?;
        head.flags.set(Flags::LAST, part == left_bytes);
        self.send_bytes(head, &[], &bytes)?;
        Ok(part)
    }
}

impl Path for End {
    type Memory = Registry;

    fn now(&self) -> Time {
        clock::now()
    }

    #[inline]
    fn send(&self, memory: &Registry, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop> {
        match self.link.is_recorded() {
            false => self.send_frame(memory, head, prefix, body),
            // A copy: what a function is given a reference to cannot stay in registers.
            true => self.send_and_record(memory, &{ *head }, prefix, body),
        }
    }

    #[inline]
    fn write(&self, memory: &Registry, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), Stop> {
        self.write_there(memory, pd, payload, to)?;
        self.tally.add(Direct::Write);
        Ok(())
    }

    #[inline]
    fn read(&self, memory: &Registry, pd: PdId, sgl: &[Sge], len_bytes: u32, from: RemoteAddr) -> Result<(), Stop> {
        self.read_there(memory, pd, sgl, len_bytes, from)?;
        self.tally.add(Direct::Read);
        Ok(())
    }

    #[inline]
    fn errand(&self, errand: &Errand, rkey: RKey) -> Result<u64, Stop> {
        let before = self.errand_there(errand, rkey)?;
        let is_write = matches!(errand, Errand::Write(..));
        self.tally.add(if is_write { Direct::Write } else { Direct::Atomic });
        Ok(before)
    }

    #[inline]
    fn is_recorded(&self) -> bool {
        self.link.is_recorded()
    }

    #[inline]
    fn note(&self, memory: &Registry, deed: &Deed<'_>, outcome: Outcome) {
        if self.link.is_recorded() {
            self.recorder.done(memory, deed, outcome);
        }
    }
}

/// What is done in the peer's memory by ourselves.
impl End {
    #[inline]
    fn write_there(&self, memory: &Registry, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), Stop> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, Access::REMOTE_WRITE)?;
        let len_bytes = payload.len_bytes();
        if len_bytes == 0 {
            return Ok(());
        }
        match recent.place(&self.link, &qp, to, len_bytes, Access::REMOTE_WRITE)? {
            Place::Far(address) => far::write(peer, address, memory, pd, payload, len_bytes as usize),
            Place::Mapped(object, _) if !object.is_writable() => Err(Stop::Elsewhere),
            Place::Mapped(object, at) => {
                let to = object.span().part(at, len_bytes as usize).ok_or(Stop::Elsewhere)?;
                match payload {
                    Payload::Inline(bytes) => to.write(bytes),
                    Payload::Sgl(sgl) => memory.gather_to(pd, sgl, 0, to).map_err(Stop::Local)?,
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn read_there(
        &self,
        memory: &Registry,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
    ) -> Result<(), Stop> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, Access::REMOTE_READ)?;
        if len_bytes == 0 {
            return Ok(());
        }
        match recent.place(&self.link, &qp, from, len_bytes.into(), Access::REMOTE_READ)? {
            Place::Far(address) => far::read(peer, address, memory, pd, sgl, 0, len_bytes as usize),
            Place::Mapped(object, at) => {
                let from = object.span().part(at, len_bytes as usize).ok_or(Stop::Elsewhere)?;
                memory.scatter_from(pd, sgl, 0, from).map_err(Stop::Local)
            }
        }
    }

    #[inline]
    fn errand_there(&self, errand: &Errand, rkey: RKey) -> Result<u64, Stop> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, errand.access())?;
        let (addr, len_bytes) = match errand {
            Errand::Atomic(addr, _) | Errand::Write(addr, _) => (*addr, 8),
            // It is between the peer's processor and its memory.
            Errand::Flush { .. } => return Err(Stop::Elsewhere),
        };
        let remote = RemoteAddr { addr, rkey };
        // Only a mapped word can be changed at once.
        let Place::Mapped(object, at) = recent.place(&self.link, &qp, remote, len_bytes, errand.access())? else {
            return Err(Stop::Elsewhere);
        };
        let word = object.span().part(at, 8).ok_or(Stop::Elsewhere)?;
        if !object.is_writable() || !addr.is_multiple_of(8) || !word.is_word() {
            // The peer answers as it would on the wire.
            return Err(Stop::Elsewhere);
        }
        match errand {
            Errand::Atomic(_, op) => word.atomic(*op).ok_or(Stop::Remote(MemoryError::Misaligned)),
            Errand::Write(_, value) => {
                word.write(value);
                Ok(0)
            }
            Errand::Flush { .. } => Err(Stop::Elsewhere),
        }
    }
}
