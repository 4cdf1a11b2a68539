//! A link between two processes: both map it, and a socket joins them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, fence};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::channel::{self, Channel};
use crate::error::{Death, LinkError};
use crate::export::Export;
use crate::hazard;
use crate::lane::{Consumer, Incoming, Outgoing, Producer};
use crate::layout::{EndArea, HAZARDS, LANES, LINK_MAGIC, LinkArea, VERSION};
use crate::mapping::Shared;
use crate::peer::{Introduction, Peer, check_file};
use crate::state::{self, Side, Standing};
use crate::sync::pause;
use crate::sys;

/// Rounds of waiting before it sleeps.
const ROUNDS_AWAKE: u32 = 512;
const NAP: Duration = Duration::from_micros(50);

/// What one process needs of a link beside what it knows of the other process.
#[derive(Debug)]
pub struct LinkEnds {
    /// The file that both map.
    pub link: OwnedFd,
    /// Its end of the socket between the two.
    pub socket: OwnedFd,
}

/// A link to another process, or of a process to itself. A child made by `fork` has neither its memory nor any use
/// for it.
///
/// A link to itself is the same thing with one end: this process takes what it has put into the lanes, and waits for
/// accesses of its own threads. It has no socket, since a process knows its own memory, and it does not die of patience
/// lost.
pub struct Link {
    pub(crate) area: Shared<LinkArea>,
    side: Side,
    peer: Peer,
    /// A link to itself has none.
    pub(crate) channel: Option<Channel>,
    outgoing: [Outgoing; LANES],
    incoming: [Incoming; LANES],
    /// Zero, or one more than the place in [`DEATHS`].
    death: AtomicU8,
    pub(crate) counters: crate::socket::Counters,
    pub(crate) reader: Mutex<()>,
}

const DEATHS: [Death; 4] = [Death::Gone, Death::BrokenRing, Death::BrokenSocket, Death::Stuck];
/// How long an access of the peer may take. The longest that there are copy 2 GiB.
const ACCESS_PATIENCE: Duration = Duration::from_secs(30);

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = f.debug_struct("Link");
        debug.field("side", &self.side).field("peer", &self.peer).field("death", &self.death()).finish_non_exhaustive()
    }
}

impl Link {
    /// Makes a link for two: what this process keeps, and what it gives to the other.
    ///
    /// # Errors
    /// What memfd_create(2), mmap(2), sealing and socketpair(2) say.
    pub fn create() -> io::Result<(LinkEnds, LinkEnds)> {
        let (file, _area) = make_area()?;
        let (ours, theirs) = channel::pair()?;
        let copy = file.try_clone()?;
        Ok((LinkEnds { link: file, socket: ours }, LinkEnds { link: copy, socket: theirs }))
    }

    /// Opens one end. The files are checked before anything in them is touched.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn open(ends: LinkEnds, with: Introduction, side: Side) -> Result<Link, LinkError> {
        check_file(ends.link.as_fd(), size_of::<LinkArea>())?;
        let area = Shared::<LinkArea>::new(ends.link.as_fd(), true).map_err(LinkError::System)?;
        let start = &area.start.0;
        if start.magic.load(Acquire) != LINK_MAGIC || start.version.load(Relaxed) != VERSION {
            return Err(LinkError::Foreign);
        }
        Ok(Link::new(area, side, Peer::open(with)?, Some(Channel::new(ends.socket))))
    }

    /// The link of a process to itself, which is up at once. `export` is its own, `wake` wakes it.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn to_itself(export: &Export, wake: OwnedFd) -> Result<Link, LinkError> {
        let (_, area) = make_area().map_err(LinkError::System)?;
        let link = Link::new(area, Side::Both, Peer::itself(export, wake)?, None);
        link.confirm();
        Ok(link)
    }

    fn new(area: Shared<LinkArea>, side: Side, peer: Peer, channel: Option<Channel>) -> Link {
        Link {
            area,
            side,
            peer,
            channel,
            outgoing: Default::default(),
            incoming: Default::default(),
            death: AtomicU8::new(0),
            counters: Default::default(),
            reader: Mutex::new(()),
        }
    }

    /// Which end this is.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Says that this end is ready. What is decided then.
    pub fn confirm(&self) -> Standing {
        state::confirm(&self.area.state.0, self.side)
    }

    /// What is decided so far.
    pub fn standing(&self) -> Standing {
        state::standing(&self.area.state.0)
    }

    /// Waits no longer: the link is up, if the other end confirmed in time, or failed for both.
    /// True if it is up.
    pub fn decide(&self) -> bool {
        state::give_up(&self.area.state.0) == Standing::Up
    }

    /// Waits until both ends have confirmed, for `patience` at most; then decides. True if the
    /// link is up. A peer that has died meanwhile does not make it fail if it was up before.
    pub fn wait_confirmed(&self, patience: Duration) -> bool {
        let begin = Instant::now();
        let mut round = 0;
        while self.standing() == Standing::Pending && begin.elapsed() < patience && !self.peer_is_gone() {
            wait(round);
            round += 1;
        }
        self.decide()
    }

    /// The other process.
    #[inline(always)]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Begins an access to the peer's memory on behalf of a queue pair: enter, look the key up,
    /// copy, leave. The peer does not take the memory away in between. Nothing if the link is dead.
    #[inline]
    pub fn enter(&self, qp_number: u16) -> Option<Hazard<'_>> {
        let word = &self.ours().hazards[usize::from(qp_number) % HAZARDS].0;
        match hazard::enter(word) {
            Some(taken) => Some(Hazard { word, taken }),
            None => self.enter_elsewhere(qp_number),
        }
    }

    /// Other threads have accesses under way; one that ends makes room, if all words are taken.
    #[cold]
    fn enter_elsewhere(&self, qp_number: u16) -> Option<Hazard<'_>> {
        let words = self.ours().hazards.iter().map(|line| &line.0).cycle().skip(usize::from(qp_number) % HAZARDS);
        let mut patience = Patience::new(self, ACCESS_PATIENCE);
        loop {
            for word in words.clone().take(HAZARDS) {
                if let Some(taken) = hazard::enter(word) {
                    return Some(Hazard { word, taken });
                }
            }
            if !patience.wait() {
                return None;
            }
        }
    }

    /// Returns when no access of the peer to our memory is under way that began before this call, or
    /// when the link is dead. What was closed in the export before it is then used by
    /// no honest process. An access is as long as a copy. A peer that is stopped in one, or
    /// only says that it is in one, loses the link after half a minute.
    pub fn wait_for_peer_accesses(&self) {
        self.wait_for_accesses(ACCESS_PATIENCE);
    }

    fn wait_for_accesses(&self, patience: Duration) {
        fence(SeqCst);
        let mut patience = Patience::new(self, patience);
        hazard::drain(self.theirs().hazards.iter().map(|line| &line.0), || patience.wait());
    }

    /// The right to send on a lane; waits for other threads of this process that do.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn producer(&self, lane: usize) -> Producer<'_> {
        Producer::new(self, &self.ours().rings[lane], lane, &self.outgoing[lane])
    }

    /// The right to receive on a lane; nothing if another thread has it.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn consumer(&self, lane: usize) -> Option<Consumer<'_>> {
        Consumer::new(self, &self.theirs().rings[lane], &self.incoming[lane])
    }

    /// The lanes on which something waits to be received: one bit each. Takes no lock.
    #[inline]
    pub fn waiting(&self) -> u8 {
        let theirs = self.theirs();
        let mut left = theirs.opened.0.load(Relaxed) as u8;
        let mut waiting = 0;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            waiting |= u8::from(self.incoming[lane].is_waiting(&theirs.rings[lane])) << lane;
        }
        waiting
    }

    /// The socket, to wait on: readable when [`serve_socket`](Link::serve_socket) has something to do. A link to itself
    /// has none.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(Channel::fd)
    }

    /// Whether the link is of no more use.
    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.death.load(Relaxed) != 0
    }

    /// Why it is of no more use. The first reason stays.
    #[inline]
    pub fn death(&self) -> Option<Death> {
        let number = usize::from(self.death.load(Acquire));
        number.checked_sub(1).and_then(|place| DEATHS.get(place)).copied()
    }

    #[cold]
    pub(crate) fn die(&self, reason: Death) {
        if reason == Death::Gone {
            self.peer.set_gone();
        }
        let number = DEATHS.iter().position(|death| *death == reason).unwrap_or(0) as u8 + 1;
        let first = self.death.compare_exchange(0, number, Release, Relaxed).is_ok();
        if first
            && reason != Death::Gone
            && let Some(channel) = &self.channel
        {
            // Who waits on the socket hears of it, at both ends.
            channel.end();
        }
    }

    /// Looks whether the peer has ended.
    pub(crate) fn peer_is_gone(&self) -> bool {
        if !self.peer.is_alive() {
            return true;
        }
        let Some(channel) = &self.channel else { return false };
        let ended = sys::ready_now(channel.fd(), rustix::event::PollFlags::empty());
        let closed = ended.intersects(rustix::event::PollFlags::HUP | rustix::event::PollFlags::ERR);
        if closed || self.peer.has_ended() {
            self.die(Death::Gone);
        }
        closed || !self.peer.is_alive()
    }

    pub(crate) fn opened_by_us(&self) -> &AtomicU32 {
        &self.ours().opened.0
    }

    #[inline(always)]
    fn ours(&self) -> &EndArea {
        &self.area.ends[self.side.index()]
    }

    #[inline(always)]
    fn theirs(&self) -> &EndArea {
        &self.area.ends[self.side.other().index()]
    }
}

/// The file of a new link.
fn make_area() -> io::Result<(OwnedFd, Shared<LinkArea>)> {
    let file = sys::memfd(c"longarm-link", size_of::<LinkArea>())?;
    let area = Shared::<LinkArea>::new(file.as_fd(), true)?;
    area.start.0.version.store(VERSION, Relaxed);
    area.start.0.magic.store(LINK_MAGIC, Release);
    sys::seal(file.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)?;
    Ok((file, area))
}

/// An access to a peer's memory that is under way, until it is dropped.
#[must_use]
pub struct Hazard<'a> {
    word: &'a AtomicU64,
    taken: u64,
}

impl Drop for Hazard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        hazard::leave(self.word, self.taken);
    }
}

/// Waiting for accesses to end, for so long; then the link is stuck.
struct Patience<'a> {
    link: &'a Link,
    most: Duration,
    since: Option<Instant>,
    round: u32,
}

impl Patience<'_> {
    fn new(link: &Link, most: Duration) -> Patience<'_> {
        Patience { link, most, since: None, round: 0 }
    }

    /// Waits for a moment. False if the link is dead.
    #[cold]
    fn wait(&mut self) -> bool {
        wait(self.round);
        self.round = self.round.saturating_add(1);
        // Our own threads end what they have begun, however long they are kept from it.
        if self.round < ROUNDS_AWAKE || self.link.side == Side::Both {
            return !self.link.is_dead();
        }
        if self.since.get_or_insert_with(Instant::now).elapsed() > self.most {
            self.link.die(Death::Stuck);
        }
        !self.link.is_dead() && !self.link.peer_is_gone()
    }
}

/// Spins, then yields, then sleeps.
fn wait(round: u32) {
    match round {
        0..ROUNDS_AWAKE => pause(round),
        _ => std::thread::sleep(NAP),
    }
}

#[cfg(test)]
mod own_tests;
#[cfg(test)]
mod tests;
