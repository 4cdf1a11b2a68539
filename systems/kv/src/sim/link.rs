//! Connections for READs: a client reaches the server's memory word by word, until it is cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use longarm::RemoteKey;
use longarm::error::WorkError;
use parking_lot::Mutex;
use remote::{ReadError, WordMemory};

use crate::server::ClientLink;
use crate::sim::actor;
use crate::sim::memory::SimMemory;
use crate::sim::plant::Plant;
use crate::sim::world::SimWorld;

/// The server learns so long after its death that a client's process is gone.
const DEATH_NS: u64 = 300_000;
/// Looks at an access that is waited for.
const LOOK_NS: u64 = 500_000;

#[derive(Default)]
struct LinkState {
    /// No further access begins.
    is_cut: bool,
    /// An access is under way.
    is_busy: bool,
    died_ns: Option<u64>,
}

/// The state of a connection, which both ends know.
pub(crate) struct LinkEnd {
    state: Mutex<LinkState>,
    life: u32,
    memory: Arc<SimMemory>,
}

/// An access under way. It ends with its process, too.
struct Access<'a>(&'a LinkEnd);

impl Drop for Access<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_busy = false;
    }
}

impl LinkEnd {
    pub(crate) fn new(life: u32, memory: Arc<SimMemory>) -> LinkEnd {
        LinkEnd { state: Mutex::default(), life, memory }
    }

    pub(crate) fn die(&self, now_ns: u64) {
        self.state.lock().died_ns.get_or_insert(now_ns);
    }

    /// The client's view.
    pub(crate) fn is_up(&self, world: &SimWorld) -> bool {
        !self.state.lock().is_cut && world.life() == Some(self.life)
    }

    fn begin(&self, world: &SimWorld) -> Result<Access<'_>, ReadError> {
        if let Some(actor) = actor::current() {
            actor.step();
            if actor.is_dead() {
                return Err(failed());
            }
        }
        let mut state = self.state.lock();
        if state.is_cut || world.life() != Some(self.life) {
            return Err(failed());
        }
        state.is_busy = true;
        Ok(Access(self))
    }

    /// READs bytes, each word at a moment of its own.
    pub(crate) fn read(&self, world: &SimWorld, at: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let access = self.begin(world)?;
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.memory.len_bytes()) {
            world.stage.stop(format!("a READ of {} bytes at {at}", out.len()));
        }
        self.memory.copy_out(at, out);
        drop(access);
        Ok(())
    }

    /// The lock of an object is free before and after the copy, and its word the same; or only the word is told.
    pub(crate) fn read_object(&self, world: &SimWorld, at: u64, lock: u64, out: &mut Vec<u8>) -> Result<(), ReadError> {
        for _ in 0..16 {
            let access = self.begin(world)?;
            let before = self.memory.load(at);
            if before & lock == 0 {
                self.memory.copy_out(at, out);
                if self.memory.load(at) == before || world.has(Plant::UncheckedReads) {
                    out[..8].copy_from_slice(&before.to_le_bytes());
                    return Ok(());
                }
            }
            drop(access);
        }
        let access = self.begin(world)?;
        out.truncate(8);
        out.copy_from_slice(&self.memory.load(at).to_le_bytes());
        drop(access);
        Ok(())
    }

    pub(crate) fn write(&self, world: &SimWorld, at: u64, bytes: &[u8]) -> Result<(), ReadError> {
        let access = self.begin(world)?;
        self.memory.copy_in(at, bytes);
        drop(access);
        Ok(())
    }

    pub(crate) fn compare_swap(
        &self,
        world: &SimWorld,
        (at, compare, swap): (u64, u64, u64),
    ) -> Result<u64, ReadError> {
        let access = self.begin(world)?;
        let before = self.memory.compare_swap(at, compare, swap);
        drop(access);
        Ok(before)
    }
}

fn failed() -> ReadError {
    ReadError::Link(WorkError::TimedOut(Duration::ZERO))
}

/// The server's end.
pub(crate) struct ServerLink {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) end: Arc<LinkEnd>,
}

impl ClientLink for ServerLink {
    fn key(&self) -> RemoteKey {
        let mut bytes = [0; RemoteKey::ENCODED_BYTES];
        bytes[8..16].copy_from_slice(&self.end.memory.len_bytes().to_be_bytes());
        RemoteKey::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}"))
    }

    fn peer_addr(&self) -> SocketAddr {
        SocketAddr::from(([0; 4], 0))
    }

    fn is_connected(&self) -> bool {
        let (now_ns, state) = (self.world.stage.now_ns(), self.end.state.lock());
        !state.is_cut && state.died_ns.is_none_or(|died_ns| now_ns < died_ns + DEATH_NS)
    }

    fn cut_off(&self, longest: Duration) -> bool {
        let died = self.end.state.lock().died_ns;
        self.world.trace(|| format!("the server cuts off a client that has died: {died:?}"));
        if self.world.has(Plant::BreakWithoutCut) {
            return true;
        }
        self.end.state.lock().is_cut = true;
        let (mut left_ns, actor) = (longest.as_nanos() as u64, actor::current());
        // The server's own death ends this, too.
        let Some(actor) = actor.filter(|actor| !actor.is_dead()) else { return true };
        while self.end.state.lock().is_busy && left_ns > 0 {
            actor.pause(left_ns.min(LOOK_NS));
            left_ns = left_ns.saturating_sub(LOOK_NS);
        }
        !self.end.state.lock().is_busy || self.world.has(Plant::EarlyReturn)
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        if !self.world.has(Plant::BreakWithoutCut) {
            self.end.state.lock().is_cut = true;
        }
    }
}
