//! The shared-memory path between two queue pairs: two lanes, and each other's memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use wire::{Qpn, RKey};

use super::memory::TestMemory;
use super::recorder::Recorder;
use crate::memory::{Access, Accessor, Memory, MemoryError, PdId, Sge};
use crate::shm::frame::{FrameFlags, FrameHead};
use crate::shm::path::{DirectOutcome, DirectRequest};
use crate::shm::path::{ReceivedBody, SendBody, ShmError, ShmPath};
use crate::shm::remote_op::RemoteOp;
use crate::time::Time;
use crate::wr::{Payload, RemoteAddr};

/// The lanes and the faults between the two. Index 0 is A's, 1 is B's.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) now: Cell<Time>,
    /// Frames from each.
    pub(crate) lanes: [RefCell<VecDeque<LaneFrame>>; 2],
    /// Frames that each one's lane holds.
    pub(crate) room: [Cell<usize>; 2],
    /// Bytes of a message in a frame.
    pub(crate) frame_bytes: Cell<u32>,
    /// Whether the peer reaches the memory of each.
    pub(crate) reachable: [Cell<bool>; 2],
    /// Whether each one lends.
    pub(crate) lends: [Cell<bool>; 2],
    /// Whether what is lent can be reached.
    pub(crate) lent_reachable: Cell<bool>,
    pub(crate) dead: [Cell<bool>; 2],
    /// The queue pair of each, as the other sees it.
    pub(crate) views: [Cell<Option<View>>; 2],
    pub(crate) memories: [Rc<TestMemory>; 2],
    /// WRITEs that were carried out directly.
    pub(crate) direct_writes: Cell<u32>,
    /// The recorder of each end, if it is captured.
    pub(crate) recorders: [RefCell<Option<Recorder>>; 2],
}

/// A ready queue pair, as its peer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) who: Accessor,
    pub(crate) peer: Qpn,
    pub(crate) access: Access,
}

/// A frame in a lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneFrame {
    pub(crate) head: FrameHead,
    pub(crate) bytes: Vec<u8>,
    pub(crate) lent: Option<(PdId, Vec<Sge>)>,
}

/// One end of it.
#[derive(Debug)]
pub(crate) struct TestPath {
    pub(crate) shared: Rc<Shared>,
    pub(crate) side: usize,
    pub(crate) qpn: Qpn,
}

impl Shared {
    pub(crate) fn new(memories: [Rc<TestMemory>; 2]) -> Shared {
        let both = |value: bool| [Cell::new(value), Cell::new(value)];
        Shared {
            now: Cell::new(Time(0)),
            lanes: Default::default(),
            room: [Cell::new(1000), Cell::new(1000)],
            frame_bytes: Cell::new(256),
            reachable: both(true),
            lends: both(false),
            lent_reachable: Cell::new(true),
            dead: both(false),
            views: Default::default(),
            memories,
            direct_writes: Cell::new(0),
            recorders: Default::default(),
        }
    }
}

impl TestPath {
    fn push(&self, head: FrameHead, bytes: Vec<u8>, lent: Option<(PdId, Vec<Sge>)>) -> Result<(), ShmError> {
        if self.shared.dead[1 - self.side].get() {
            return Err(ShmError::PeerDead);
        }
        let mut lane = self.shared.lanes[self.side].borrow_mut();
        if lane.len() >= self.shared.room[self.side].get() {
            return Err(ShmError::LaneFull);
        }
        // As in a real lane, a head is its bytes.
        let head = FrameHead::decode(&head.encode()).expect("a head");
        lane.push_back(LaneFrame { head, bytes, lent });
        Ok(())
    }

    fn send_frame(
        &self,
        memory: &TestMemory,
        head: &FrameHead,
        prefix: &[u8],
        body: SendBody<'_>,
    ) -> Result<u32, ShmError> {
        let mut head = *head;
        let mut bytes = prefix.to_vec();
        let most = self.shared.frame_bytes.get();
        match body {
            SendBody::Bytes(more) => {
                head.flags |= FrameFlags::LAST;
                bytes.extend(more);
                self.push(head, bytes, None)?;
                Ok(more.len() as u32)
            }
            SendBody::List { pd, sgl, offset, left_bytes, may_lend } => {
                if may_lend && self.shared.lends[self.side].get() && offset == 0 && left_bytes > 0 {
                    memory.check_local(pd, sgl, false).map_err(ShmError::Local)?;
                    head.flags |= FrameFlags::LENT | FrameFlags::LAST;
                    self.push(head, bytes, Some((pd, sgl.to_vec())))?;
                    return Ok(left_bytes);
                }
                let part = most.min(left_bytes);
                head.flags.set(FrameFlags::LAST, part == left_bytes);
                let mut piece = vec![0; part as usize];
                memory.gather(pd, sgl, offset.into(), &mut piece).map_err(ShmError::Local)?;
                bytes.extend(piece);
                self.push(head, bytes, None)?;
                Ok(part)
            }
            SendBody::Remote { who, rkey, addr, left_bytes } => {
                let part = most.min(left_bytes);
                head.flags.set(FrameFlags::LAST, part == left_bytes);
                let mut piece = vec![0; part as usize];
                if part > 0 {
                    memory.remote_read(who, rkey, addr, &mut piece).map_err(ShmError::Remote)?;
                }
                bytes.extend(piece);
                self.push(head, bytes, None)?;
                Ok(part)
            }
        }
    }

    /// The peer's queue pair, if it is ready for us and allows this.
    fn peer(&self, access: Access) -> Result<(Accessor, &TestMemory), ShmError> {
        let peer = 1 - self.side;
        if self.shared.dead[peer].get() {
            return Err(ShmError::PeerDead);
        }
        let view = self.shared.views[peer].get().filter(|view| view.peer == self.qpn).ok_or(ShmError::NotReady)?;
        if !view.access.contains(access) {
            return Err(ShmError::Remote(MemoryError::NoPermission));
        }
        Ok((view.who, &self.shared.memories[peer]))
    }

    fn reach(&self) -> Result<(), ShmError> {
        if self.shared.reachable[1 - self.side].get() { Ok(()) } else { Err(ShmError::NeedsFrame) }
    }
}

impl ShmPath for TestPath {
    type Memory = TestMemory;

    fn now(&self) -> Time {
        self.shared.now.get()
    }

    fn send(&self, memory: &TestMemory, head: &FrameHead, prefix: &[u8], body: SendBody<'_>) -> Result<u32, ShmError> {
        let taken = self.send_frame(memory, head, prefix, body)?;
        if let Some(recorder) = &mut *self.shared.recorders[self.side].borrow_mut() {
            recorder.sent(memory, head, prefix, body, taken);
        }
        Ok(taken)
    }

    fn write(&self, memory: &TestMemory, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), ShmError> {
        let (who, theirs) = self.peer(Access::REMOTE_WRITE)?;
        let mut bytes = vec![0; payload.len_bytes() as usize];
        if bytes.is_empty() {
            return Ok(());
        }
        self.reach()?;
        match payload {
            Payload::Call(_) => return Err(ShmError::NeedsFrame),
            Payload::Inline(inline) => bytes.copy_from_slice(inline),
            Payload::Sgl(sgl) => memory.gather(pd, sgl, 0, &mut bytes).map_err(ShmError::Local)?,
        }
        theirs.remote_write(who, to.rkey, to.addr, &bytes).map_err(ShmError::Remote)?;
        self.shared.direct_writes.set(self.shared.direct_writes.get() + 1);
        Ok(())
    }

    fn read(
        &self,
        memory: &TestMemory,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
    ) -> Result<(), ShmError> {
        let (who, theirs) = self.peer(Access::REMOTE_READ)?;
        if len_bytes == 0 {
            return Ok(());
        }
        self.reach()?;
        let mut bytes = vec![0; len_bytes as usize];
        theirs.remote_read(who, from.rkey, from.addr, &mut bytes).map_err(ShmError::Remote)?;
        memory.scatter(pd, sgl, 0, &bytes).map_err(ShmError::Local)
    }

    fn read_bytes(
        &self,
        _: &TestMemory,
        out: &mut [u8],
        from: RemoteAddr,
        lock_mask: Option<u64>,
    ) -> Result<u32, ShmError> {
        let (who, theirs) = self.peer(Access::REMOTE_READ)?;
        self.reach()?;
        let taken = match lock_mask {
            Some(mask) => theirs.remote_read_object(who, from.rkey, from.addr, mask, out),
            None => theirs.remote_read(who, from.rkey, from.addr, out).map(|()| out.len()),
        };
        taken.map(|taken| taken as u32).map_err(ShmError::Remote)
    }

    fn read_object(
        &self,
        memory: &TestMemory,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
        lock_mask: u64,
    ) -> Result<u32, ShmError> {
        let (who, theirs) = self.peer(Access::REMOTE_READ)?;
        self.reach()?;
        let mut bytes = vec![0; len_bytes as usize];
        let read = theirs.remote_read_object(who, from.rkey, from.addr, lock_mask, &mut bytes);
        let len = read.map_err(|error| match error {
            MemoryError::Misaligned => ShmError::NeedsFrame,
            other => ShmError::Remote(other),
        })?;
        memory.scatter(pd, sgl, 0, &bytes[..len]).map_err(ShmError::Local)?;
        Ok(len as u32)
    }

    fn remote_op(&self, _: &TestMemory, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError> {
        let (who, theirs) = self.peer(remote_op.access())?;
        self.reach()?;
        remote_op.execute(theirs, who, rkey).map_err(ShmError::Remote)
    }

    fn is_recorded(&self) -> bool {
        self.shared.recorders[self.side].borrow().is_some()
    }

    fn record(&self, memory: &TestMemory, request: &DirectRequest<'_>, outcome: DirectOutcome) {
        if let Some(recorder) = &mut *self.shared.recorders[self.side].borrow_mut() {
            recorder.done(memory, request, outcome);
        }
    }
}

impl Delivered<'_> {
    /// Copies bytes of the message after `prefix`; false if they cannot be reached.
    pub(crate) fn copy_out(&self, prefix: usize, at: u32, out: &mut [u8]) -> bool {
        match &self.frame.lent {
            Some((lender, list)) => {
                self.shared.lent_reachable.get()
                    && self.shared.memories[self.from].gather(*lender, list, at.into(), out).is_ok()
            }
            None => {
                out.copy_from_slice(&self.frame.bytes[prefix + at as usize..][..out.len()]);
                true
            }
        }
    }
}

/// A frame that has arrived.
pub(crate) struct Delivered<'a> {
    pub(crate) frame: &'a LaneFrame,
    pub(crate) shared: &'a Shared,
    /// Its sender.
    pub(crate) from: usize,
}

impl ReceivedBody for Delivered<'_> {
    type Memory = TestMemory;

    fn len_bytes(&self, prefix: usize) -> u32 {
        match &self.frame.lent {
            Some((_, sgl)) => sgl.iter().map(|sge| sge.len_bytes).sum(),
            None => self.frame.bytes.len().saturating_sub(prefix) as u32,
        }
    }

    fn front(&self, out: &mut [u8]) {
        let len = out.len().min(self.frame.bytes.len());
        out[..len].copy_from_slice(&self.frame.bytes[..len]);
        out[len..].fill(0);
    }

    fn scatter(&self, memory: &TestMemory, prefix: usize, pd: PdId, sgl: &[Sge], offset: u64) -> Result<(), ShmError> {
        let Some((lender, list)) = &self.frame.lent else {
            return memory.scatter(pd, sgl, offset, &self.frame.bytes[prefix..]).map_err(ShmError::Local);
        };
        if !self.shared.lent_reachable.get() {
            return Err(ShmError::NeedsFrame);
        }
        let mut bytes = vec![0; self.len_bytes(0) as usize];
        let lent = self.shared.memories[self.from].gather(*lender, list, 0, &mut bytes);
        lent.map_err(|_| ShmError::NeedsFrame)?;
        memory.scatter(pd, sgl, offset, &bytes).map_err(ShmError::Local)
    }

    fn write(&self, memory: &TestMemory, prefix: usize, who: Accessor, to: RemoteAddr) -> Result<(), ShmError> {
        let bytes = self.frame.bytes.get(prefix..).ok_or(ShmError::NeedsFrame)?;
        memory.remote_write(who, to.rkey, to.addr, bytes).map_err(ShmError::Local)
    }
}
