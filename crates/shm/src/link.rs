//! A link between two processes: shared memory that both map, and a socket that joins them.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, fence};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::channel::{self, ObjectChannel};
use crate::error::{Death, LinkError};
use crate::export::Export;
use crate::hazard;
use crate::lane::{Consumer, IncomingLane, OutgoingLane, Producer};
use crate::layout::{EndArea, HAZARDS, LANES, LINK_MAGIC, LinkArea, VERSION};
use crate::mapping::SharedArea;
use crate::peer::{IntroducedPeer, Peer, check_file};
use crate::state::{self, LinkSide, Standing};
use crate::sync::pause;
use crate::sys;

/// Rounds of spinning and yielding before a waiter sleeps.
const ROUNDS_AWAKE: u32 = 512;
const NAP: Duration = Duration::from_micros(50);

/// One process' part of a link; the [`IntroducedPeer`] describes the other process.
#[derive(Debug)]
pub struct LinkEnds {
    /// The file that both map.
    pub link: OwnedFd,
    /// Its end of the socket between the two.
    pub socket: OwnedFd,
}

/// A link to another process, or of a process to itself. A child made by `fork` does not have the link's
/// memory and cannot use the link.
///
/// A link to itself has one end: this process takes the frames that it has put into the lanes, and waits for
/// accesses of its own threads. It has no socket, since a process knows its own memory, and it does not die
/// of a long access.
pub struct Link {
    pub(crate) area: SharedArea<LinkArea>,
    side: LinkSide,
    peer: Peer,
    /// `None` for a link to itself.
    pub(crate) channel: Option<ObjectChannel>,
    outgoing: [OutgoingLane; LANES],
    incoming: [IncomingLane; LANES],
    /// Zero, or one more than the index in [`DEATHS`].
    death: AtomicU8,
    pub(crate) counters: crate::socket::SocketCounters,
    pub(crate) reader: Mutex<()>,
}

const DEATHS: [Death; 4] = [Death::Gone, Death::BrokenRing, Death::BrokenSocket, Death::Stuck];
/// The longest time for an access of the peer. The longest accesses copy 2 GiB.
const ACCESS_PATIENCE: Duration = Duration::from_secs(30);

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut debug = f.debug_struct("Link");
        debug.field("side", &self.side).field("peer", &self.peer).field("death", &self.death()).finish_non_exhaustive()
    }
}

impl Link {
    /// Makes a link for two: the part of this process, and the part for the other.
    ///
    /// # Errors
    /// The error of memfd_create(2), mmap(2), sealing or socketpair(2).
    pub fn create() -> io::Result<(LinkEnds, LinkEnds)> {
        let (file, _area) = make_area()?;
        let (ours, theirs) = channel::pair()?;
        let copy = file.try_clone()?;
        Ok((LinkEnds { link: file, socket: ours }, LinkEnds { link: copy, socket: theirs }))
    }

    /// Opens one end. The files are checked before any of their contents is used.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn open(ends: LinkEnds, with: IntroducedPeer, side: LinkSide) -> Result<Link, LinkError> {
        check_file(ends.link.as_fd(), size_of::<LinkArea>())?;
        let area = SharedArea::<LinkArea>::new(ends.link.as_fd(), true).map_err(LinkError::System)?;
        let start = &area.start.0;
        if start.magic.load(Acquire) != LINK_MAGIC || start.version.load(Relaxed) != VERSION {
            return Err(LinkError::Foreign);
        }
        Ok(Link::new(area, side, Peer::open(with)?, Some(ObjectChannel::new(ends.socket))))
    }

    /// The link of a process to itself, which is up immediately. `export` is its own, `wake` wakes it.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn to_itself(export: &Export, wake: OwnedFd) -> Result<Link, LinkError> {
        let (_, area) = make_area().map_err(LinkError::System)?;
        let link = Link::new(area, LinkSide::Both, Peer::itself(export, wake)?, None);
        link.confirm();
        Ok(link)
    }

    fn new(area: SharedArea<LinkArea>, side: LinkSide, peer: Peer, channel: Option<ObjectChannel>) -> Link {
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

    /// The end of the link that this process is.
    #[inline]
    pub fn side(&self) -> LinkSide {
        self.side
    }

    /// Confirms that this end is ready. Returns the decision after that.
    pub fn confirm(&self) -> Standing {
        state::confirm(&self.area.state.0, self.side)
    }

    /// The decision so far.
    pub fn standing(&self) -> Standing {
        state::standing(&self.area.state.0)
    }

    /// Ends the wait for the other end: the link is up if the other end has confirmed, otherwise failed for
    /// both. Returns true if it is up.
    pub fn decide(&self) -> bool {
        state::give_up(&self.area.state.0) == Standing::Up
    }

    /// Waits until both ends have confirmed, for at most `patience`; then decides. Returns true if the link
    /// is up. If the peer dies after both have confirmed, the link is still up.
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

    /// Begins an access to the peer's memory on behalf of a queue pair: enter, find the key, copy, leave. The
    /// peer does not take the memory away in between. `None` if the link is dead.
    #[inline]
    pub fn enter(&self, qp_number: u16) -> Option<Hazard<'_>> {
        let word = &self.ours().hazards[usize::from(qp_number) % HAZARDS].0;
        match hazard::enter(word) {
            Some(taken) => Some(Hazard { word, taken }),
            None => self.enter_any(qp_number),
        }
    }

    /// Tries all words, since other threads use this queue pair's. If all are taken, waits until an access
    /// ends.
    #[cold]
    fn enter_any(&self, qp_number: u16) -> Option<Hazard<'_>> {
        let words = self.ours().hazards.iter().map(|line| &line.0).cycle().skip(usize::from(qp_number) % HAZARDS);
        let mut patience = AccessTimeout::new(self, ACCESS_PATIENCE);
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

    /// Waits until every access of the peer to this process' memory that began before this call has ended, or
    /// the link is dead. No honest process then uses a key that was closed in the export before the call. An
    /// access lasts one copy. A peer that is stopped in one, or only claims to be in one, loses the link
    /// after half a minute.
    pub fn wait_for_peer_accesses(&self) {
        self.wait_for_accesses(ACCESS_PATIENCE);
    }

    fn wait_for_accesses(&self, patience: Duration) {
        fence(SeqCst);
        let mut patience = AccessTimeout::new(self, patience);
        hazard::drain(self.theirs().hazards.iter().map(|line| &line.0), || patience.wait());
    }

    /// Waits until every access of the peer to this process' memory that began before this call has ended, for `patience` at
    /// most. The link may be dead. False: an access may go on, that of a process which stands still in it, or
    /// only claims so. The link stays as it is, and the caller can ask again.
    pub fn peer_accesses_end_within(&self, patience: Duration) -> bool {
        fence(SeqCst);
        // Either end may have closed the socket. The process itself knows best.
        let is_gone = || self.peer.process_has_ended().unwrap_or(self.death() == Some(Death::Gone));
        let (began, mut round) = (Instant::now(), 0);
        let ended = hazard::drain(self.theirs().hazards.iter().map(|line| &line.0), || {
            wait(round);
            round = round.saturating_add(1);
            !is_gone() && began.elapsed() < patience
        });
        ended || is_gone()
    }

    /// The right to send on a lane; waits for other threads of this process that have it.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn producer(&self, lane: usize) -> Producer<'_> {
        Producer::new(self, &self.ours().rings[lane], lane, &self.outgoing[lane])
    }

    /// The right to receive on a lane; `None` if another thread has it.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline]
    pub fn consumer(&self, lane: usize) -> Option<Consumer<'_>> {
        Consumer::new(self, &self.theirs().rings[lane], &self.incoming[lane])
    }

    /// The lanes with frames to receive: one bit each. Takes no lock.
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

    /// The socket, to wait on: readable when [`serve_socket`](Link::serve_socket) has something to do. `None`
    /// for a link to itself.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(ObjectChannel::fd)
    }

    /// True if the link has ended.
    #[inline(always)]
    pub fn is_dead(&self) -> bool {
        self.death.load(Relaxed) != 0
    }

    /// The reason why the link has ended. The first reason stays.
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
            // Waiters on the socket wake up, at both ends.
            channel.end();
        }
    }

    /// Checks whether the peer has ended.
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

/// Makes and seals the file of a new link.
fn make_area() -> io::Result<(OwnedFd, SharedArea<LinkArea>)> {
    let file = sys::memfd(c"longarm-link", size_of::<LinkArea>())?;
    let area = SharedArea::<LinkArea>::new(file.as_fd(), true)?;
    area.start.0.version.store(VERSION, Relaxed);
    area.start.0.magic.store(LINK_MAGIC, Release);
    sys::seal(file.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)?;
    Ok((file, area))
}

/// An access to a peer's memory, in progress until it is dropped.
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

/// A wait for accesses with a limit. Beyond the limit the link is declared stuck.
struct AccessTimeout<'a> {
    link: &'a Link,
    most: Duration,
    since: Option<Instant>,
    round: u32,
}

impl AccessTimeout<'_> {
    fn new(link: &Link, most: Duration) -> AccessTimeout<'_> {
        AccessTimeout { link, most, since: None, round: 0 }
    }

    /// Waits for a moment. Returns false if the link is dead.
    #[cold]
    fn wait(&mut self) -> bool {
        wait(self.round);
        self.round = self.round.saturating_add(1);
        // This process' own threads end their accesses, even if they are descheduled for long.
        if self.round < ROUNDS_AWAKE || self.link.side == LinkSide::Both {
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
