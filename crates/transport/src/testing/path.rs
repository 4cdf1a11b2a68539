//! The way between two queue pairs on one host: two lanes, and each other's memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use wire::{Qpn, RKey};

use super::memory::TestMemory;
use super::scribe::Scribe;
use crate::memory::{Access, Accessor, Memory, MemoryError, PdId, Sge};
use crate::shm::errand::Errand;
use crate::shm::frame::{Flags, Head};
use crate::shm::path::{Arrived, Body, Path, Stop};
use crate::shm::transcript::{Deed, Outcome};
use crate::time::Time;
use crate::wr::{Payload, RemoteAddr};

/// What is between the two, and what is wrong with it. Index 0 is A's, 1 is B's.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) now: Cell<Time>,
    /// Frames from each.
    pub(crate) lanes: [RefCell<VecDeque<Frame>>; 2],
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
    /// What each shows of its queue pair.
    pub(crate) views: [Cell<Option<View>>; 2],
    pub(crate) memories: [Rc<TestMemory>; 2],
    /// WRITEs that were carried out directly.
    pub(crate) direct_writes: Cell<u32>,
    /// Who writes down the packets of each, if somebody does.
    pub(crate) scribes: [RefCell<Option<Scribe>>; 2],
}

/// What a peer sees of a queue pair that is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) who: Accessor,
    pub(crate) peer: Qpn,
    pub(crate) access: Access,
}

/// A frame in a lane.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) head: Head,
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
            scribes: Default::default(),
        }
    }
}

impl TestPath {
    fn push(&self, head: Head, bytes: Vec<u8>, lent: Option<(PdId, Vec<Sge>)>) -> Result<(), Stop> {
        if self.shared.dead[1 - self.side].get() {
            return Err(Stop::Dead);
        }
        let mut lane = self.shared.lanes[self.side].borrow_mut();
        if lane.len() >= self.shared.room[self.side].get() {
            return Err(Stop::Full);
        }
        // As in a real lane, a head is its bytes.
        let head = Head::decode(&head.encode()).expect("a head");
        lane.push_back(Frame { head, bytes, lent });
        Ok(())
    }

    fn send_frame(&self, memory: &TestMemory, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop> {
        let mut head = *head;
        let mut bytes = prefix.to_vec();
        let most = self.shared.frame_bytes.get();
        match body {
            Body::Bytes(more) => {
                head.flags |= Flags::LAST;
                bytes.extend(more);
                self.push(head, bytes, None)?;
                Ok(more.len() as u32)
            }
            Body::List { pd, sgl, offset, left_bytes, may_lend } => {
                if may_lend && self.shared.lends[self.side].get() && offset == 0 && left_bytes > 0 {
                    memory.check_local(pd, sgl, false).map_err(Stop::Local)?;
                    head.flags |= Flags::LENT | Flags::LAST;
                    self.push(head, bytes, Some((pd, sgl.to_vec())))?;
                    return Ok(left_bytes);
                }
                let part = most.min(left_bytes);
                head.flags.set(Flags::LAST, part == left_bytes);
                let mut piece = vec![0; part as usize];
                memory.gather(pd, sgl, offset.into(), &mut piece).map_err(Stop::Local)?;
                bytes.extend(piece);
                self.push(head, bytes, None)?;
                Ok(part)
            }
            Body::Remote { who, rkey, addr, left_bytes } => {
                let part = most.min(left_bytes);
                head.flags.set(Flags::LAST, part == left_bytes);
                let mut piece = vec![0; part as usize];
                if part > 0 {
                    memory.remote_read(who, rkey, addr, &mut piece).map_err(Stop::Remote)?;
                }
                bytes.extend(piece);
                self.push(head, bytes, None)?;
                Ok(part)
            }
        }
    }

    /// The peer's queue pair, if it is ready for us and allows this.
    fn peer(&self, access: Access) -> Result<(Accessor, &TestMemory), Stop> {
        let peer = 1 - self.side;
        if self.shared.dead[peer].get() {
            return Err(Stop::Dead);
        }
        let view = self.shared.views[peer].get().filter(|view| view.peer == self.qpn).ok_or(Stop::NotReady)?;
        if !view.access.contains(access) {
            return Err(Stop::Remote(MemoryError::NoPermission));
        }
        Ok((view.who, &self.shared.memories[peer]))
    }

    fn reach(&self) -> Result<(), Stop> {
        if self.shared.reachable[1 - self.side].get() { Ok(()) } else { Err(Stop::Elsewhere) }
    }
}

impl Path for TestPath {
    type Memory = TestMemory;

    fn now(&self) -> Time {
        self.shared.now.get()
    }

    fn send(&self, memory: &TestMemory, head: &Head, prefix: &[u8], body: Body<'_>) -> Result<u32, Stop> {
        let taken = self.send_frame(memory, head, prefix, body)?;
        if let Some(scribe) = &mut *self.shared.scribes[self.side].borrow_mut() {
            scribe.sent(memory, head, prefix, body, taken);
        }
        Ok(taken)
    }

    fn write(&self, memory: &TestMemory, pd: PdId, payload: &Payload, to: RemoteAddr) -> Result<(), Stop> {
        let (who, theirs) = self.peer(Access::REMOTE_WRITE)?;
        let mut bytes = vec![0; payload.len_bytes() as usize];
        if bytes.is_empty() {
            return Ok(());
        }
        self.reach()?;
        match payload {
            Payload::Inline(inline) => bytes.copy_from_slice(inline),
            Payload::Sgl(sgl) => memory.gather(pd, sgl, 0, &mut bytes).map_err(Stop::Local)?,
        }
        theirs.remote_write(who, to.rkey, to.addr, &bytes).map_err(Stop::Remote)?;
        self.shared.direct_writes.set(self.shared.direct_writes.get() + 1);
        Ok(())
    }

    fn read(&self, memory: &TestMemory, pd: PdId, sgl: &[Sge], len_bytes: u32, from: RemoteAddr) -> Result<(), Stop> {
        let (who, theirs) = self.peer(Access::REMOTE_READ)?;
        if len_bytes == 0 {
            return Ok(());
        }
        self.reach()?;
        let mut bytes = vec![0; len_bytes as usize];
        theirs.remote_read(who, from.rkey, from.addr, &mut bytes).map_err(Stop::Remote)?;
        memory.scatter(pd, sgl, 0, &bytes).map_err(Stop::Local)
    }

    fn errand(&self, _: &TestMemory, errand: &Errand, rkey: RKey) -> Result<u64, Stop> {
        let (who, theirs) = self.peer(errand.access())?;
        self.reach()?;
        errand.carry_out(theirs, who, rkey).map_err(Stop::Remote)
    }

    fn is_recorded(&self) -> bool {
        self.shared.scribes[self.side].borrow().is_some()
    }

    fn note(&self, memory: &TestMemory, deed: &Deed<'_>, outcome: Outcome) {
        if let Some(scribe) = &mut *self.shared.scribes[self.side].borrow_mut() {
            scribe.done(memory, deed, outcome);
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

/// A frame at the one whom it is for.
pub(crate) struct Delivered<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) shared: &'a Shared,
    /// Who sent it.
    pub(crate) from: usize,
}

impl Arrived for Delivered<'_> {
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

    fn scatter(&self, memory: &TestMemory, prefix: usize, pd: PdId, sgl: &[Sge], offset: u64) -> Result<(), Stop> {
        let Some((lender, list)) = &self.frame.lent else {
            return memory.scatter(pd, sgl, offset, &self.frame.bytes[prefix..]).map_err(Stop::Local);
        };
        if !self.shared.lent_reachable.get() {
            return Err(Stop::Elsewhere);
        }
        let mut bytes = vec![0; self.len_bytes(0) as usize];
        let lent = self.shared.memories[self.from].gather(*lender, list, 0, &mut bytes);
        lent.map_err(|_| Stop::Elsewhere)?;
        memory.scatter(pd, sgl, offset, &bytes).map_err(Stop::Local)
    }

    fn write(&self, memory: &TestMemory, prefix: usize, who: Accessor, to: RemoteAddr) -> Result<(), Stop> {
        let bytes = self.frame.bytes.get(prefix..).ok_or(Stop::Elsewhere)?;
        memory.remote_write(who, to.rkey, to.addr, bytes).map_err(Stop::Local)
    }
}
