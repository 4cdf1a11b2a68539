//! The slots of this process: its shares of UDP port 4791, each with a socket and 65,534 queue pair numbers.
//!
//! A process begins with one slot, or with more if it wants to receive on more cores (`LONGARM_SLOTS`); then queue
//! pairs are made on each in turn. When all numbers are taken the hub is asked for another slot.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hub::client::Session;
use memory::QuickMutex;
use parking_lot::{Condvar, Mutex};
use shm::MAX_SLOTS;
use udp::RxSocket;
use wire::Qpn;

use crate::engine::background;
use crate::objects::table;
use crate::objects::table::Table;
use crate::path::receive::RxSide;
use crate::qp::entry::QpEntry;
use crate::shm::export::Exporter;

/// How long the hub may take to give another slot.
const PATIENCE: Duration = Duration::from_secs(12);

/// Queue pairs of one process at most.
pub(crate) const MAX_QP: u32 = MAX_SLOTS as u32 * table::NUMBERS;

/// One slot.
pub(crate) struct Slot {
    /// The high byte of its queue pair numbers.
    pub(crate) number: u8,
    /// Where packets for them arrive.
    pub(crate) socket: RxSocket,
    /// What belongs to whoever receives from it.
    pub(crate) rx: QuickMutex<RxSide>,
    qps: Table<QpEntry>,
}

/// All of them. There is always one; none is given back before the process ends.
pub(crate) struct Slots {
    list: [OnceLock<Slot>; MAX_SLOTS],
    len: AtomicUsize,
    /// By number: the place in the list, counted from one; 0 for what is not ours.
    places: [AtomicU8; 256],
    /// Changes when a queue pair is taken out.
    removals: AtomicU32,
    /// Where the next queue pair is made, if they are made on each in turn.
    turn: AtomicUsize,
    growth: Mutex<Growth>,
    grown: Condvar,
}

/// Whether there is to be one more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    Idle,
    Wanted,
    /// The hub gave none.
    Refused,
}

impl Slot {
    fn new(number: u8, socket: OwnedFd) -> io::Result<Slot> {
        let mut random = [0; 2];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        Ok(Slot {
            number,
            socket: RxSocket::new(socket)?,
            rx: QuickMutex::new(RxSide::new()),
            qps: Table::new(number, u16::from_ne_bytes(random)),
        })
    }

    /// The queue pair with this number, whose slot this is.
    #[inline]
    pub(crate) fn qp(&self, qpn: Qpn) -> Option<Arc<QpEntry>> {
        self.qps.get(qpn.index())
    }
}

impl Slots {
    /// Those that the process begins with, and where peers on this host see them.
    pub(crate) fn new(sockets: Vec<(u8, OwnedFd)>, export: Option<&Exporter>) -> io::Result<Slots> {
        let slots = Slots {
            list: [const { OnceLock::new() }; MAX_SLOTS],
            len: AtomicUsize::new(0),
            places: [const { AtomicU8::new(0) }; 256],
            removals: AtomicU32::new(0),
            turn: AtomicUsize::new(0),
            growth: Mutex::new(Growth::Idle),
            grown: Condvar::new(),
        };
        for (number, socket) in sockets {
            slots.add(number, socket, export)?;
        }
        match slots.len() {
            0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "a process has a slot at least")),
            _ => Ok(slots),
        }
    }

    /// Only one thread at a time: the one that starts the engine, then the background thread.
    fn add(&self, number: u8, socket: OwnedFd, export: Option<&Exporter>) -> io::Result<()> {
        let slot = Slot::new(number, socket)?;
        let len = self.len();
        let has_room = len < MAX_SLOTS && export.is_none_or(|export| export.export().add_slot(number));
        if !has_room || self.list[len].set(slot).is_err() {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "a process has no more slots than that"));
        }
        self.len.store(len + 1, Release);
        self.places[usize::from(number)].store(len as u8 + 1, Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// The first one, which multicast groups are joined with.
    #[inline]
    pub(crate) fn first(&self) -> &Slot {
        self.list[0].get().expect("there is one from the start")
    }

    /// The one at a place of the list, round the circle.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &Slot {
        self.list[place % self.len()].get().unwrap_or_else(|| self.first())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.list.iter().map_while(OnceLock::get)
    }

    /// The slot with a number, if it is ours.
    #[inline]
    pub(crate) fn with_number(&self, number: u8) -> Option<&Slot> {
        let place = self.places[usize::from(number)].load(Acquire);
        self.list.get(usize::from(place).wrapping_sub(1))?.get()
    }

    /// The queue pair with this number.
    #[inline]
    pub(crate) fn qp(&self, qpn: Qpn) -> Option<Arc<QpEntry>> {
        self.with_number(qpn.slot())?.qp(qpn)
    }

    /// Calls `visit` with every queue pair. Takes no lock during the call.
    pub(crate) fn for_each_qp(&self, mut visit: impl FnMut(&Arc<QpEntry>)) {
        self.all().for_each(|slot| slot.qps.for_each(&mut visit));
    }

    /// Enters the queue pair that `make` makes for the number it is given. `None` if there is no number left;
    /// `wish` is called when somebody should look at [`grow`](Slots::grow).
    pub(crate) fn insert(&self, make: impl FnOnce(Qpn) -> Arc<QpEntry>, wish: impl Fn()) -> Option<Arc<QpEntry>> {
        let end = Instant::now() + PATIENCE;
        let mut make = make;
        loop {
            let before = self.len();
            make = match self.insert_somewhere(make) {
                Ok(entry) => return Some(entry),
                Err(make) => make,
            };
            if !self.wait_for_more(before, end, &wish) {
                return None;
            }
        }
    }

    /// Enters a queue pair in the slot whose turn it is, or the next one that has a number left.
    fn insert_somewhere<F: FnOnce(Qpn) -> Arc<QpEntry>>(&self, make: F) -> Result<Arc<QpEntry>, F> {
        let first = self.turn.fetch_add(1, Relaxed);
        let mut make = make;
        for step in 0..self.len() {
            make = match self.at(first.wrapping_add(step)).qps.insert(make) {
                Ok(entry) => return Ok(entry),
                Err(make) => make,
            };
        }
        Err(make)
    }

    /// Whether there are more than `before`, after another one was asked for. The background thread, which a waker may
    /// have brought here, fetches it afterwards.
    fn wait_for_more(&self, before: usize, end: Instant, wish: impl Fn()) -> bool {
        let mut growth = self.growth.lock();
        if self.len() == before && before < MAX_SLOTS {
            *growth = Growth::Wanted;
            wish();
            if background::is_this_thread() {
                return false;
            }
            while *growth == Growth::Wanted && !self.grown.wait_until(&mut growth, end).timed_out() {}
        }
        self.len() > before
    }

    /// Whether another slot is wanted.
    pub(crate) fn is_short(&self) -> bool {
        *self.growth.lock() == Growth::Wanted
    }

    /// Gets another slot from the hub.
    pub(crate) fn grow(&self, session: Option<&mut Session>, export: Option<&Exporter>) {
        let growth = match self.ask_for_another(session, export) {
            Ok(number) => {
                log::info!("all queue pair numbers were taken: slot {number} is ours, too");
                Growth::Idle
            }
            Err(error) => {
                log::warn!("no more queue pair numbers: {error}");
                Growth::Refused
            }
        };
        *self.growth.lock() = growth;
        self.grown.notify_all();
    }

    fn ask_for_another(
        &self,
        session: Option<&mut Session>,
        export: Option<&Exporter>,
    ) -> Result<u8, Box<dyn std::error::Error>> {
        let slot = &session.ok_or("there is no hub")?.more_slots(1)?[0];
        let socket = guest::copy(&slot.socket)?;
        self.add(slot.number, socket, export)?;
        Ok(slot.number)
    }

    /// Takes a queue pair out.
    pub(crate) fn remove(&self, qpn: Qpn) {
        if let Some(slot) = self.with_number(qpn.slot()) {
            slot.qps.remove(qpn.index());
            self.removals.fetch_add(1, Release);
        }
    }

    /// A number that is another once a queue pair was taken out: what was got before may be gone.
    #[inline]
    pub(crate) fn removals(&self) -> u32 {
        self.removals.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::tests::rig::on_loopback;

    #[test]
    fn who_fetches_slots_does_not_wait_for_one() {
        on_loopback(|group| {
            let device = testing::open(group, 1, "lo");
            let slots = &device.engine().slots;
            let asked = AtomicU32::new(0);
            let wish = || {
                asked.fetch_add(1, Relaxed);
            };
            let wait = || slots.wait_for_more(1, Instant::now() + Duration::from_secs(3600), wish);
            std::thread::scope(|scope| {
                let fetching = scope.spawn(|| {
                    background::become_this_thread();
                    wait()
                });
                assert!(!fetching.join().unwrap());
                assert!(slots.is_short() && asked.load(Relaxed) == 1, "it will fetch one");
                let other = scope.spawn(wait);
                while asked.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
                slots.grow(None, None);
                assert!(!other.join().unwrap(), "without a hub there are no more");
            });
        });
    }
}
