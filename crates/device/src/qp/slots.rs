//! The slots of this process: its shares of UDP port 4791, each with a socket and 65,534 queue pair numbers.
//!
//! A process starts with one slot, or with more if it wants to receive on more cores (`LONGARM_SLOTS`). Then its queue
//! pairs are made on each slot in turn. When all numbers are taken, the background thread asks the hub for another slot.

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

use crate::objects::table::QpnTable;
use crate::qp::entry::QpEntry;
use crate::shm::export::Exporter;
use crate::wire::rx::RxSide;

/// The time for which a caller waits for the hub to give another slot.
const PATIENCE: Duration = Duration::from_secs(12);

/// One slot.
pub(crate) struct PortSlot {
    /// The high byte of its queue pair numbers.
    pub(crate) number: u8,
    /// The socket that receives their packets.
    pub(crate) socket: RxSocket,
    /// The state of the thread that receives from it.
    pub(crate) receiver: QuickMutex<SlotReceiver>,
    qps: QpnTable<QpEntry>,
}

/// The state of the thread that receives from a slot's socket.
pub(crate) struct SlotReceiver {
    pub(crate) side: RxSide,
    pub(crate) last: LastQp,
}

/// The queue pair of the last packet or frame, with the removals of queue pairs before. Most of the time the next one is
/// for the same queue pair.
#[derive(Default)]
pub(crate) struct LastQp(Option<(Arc<QpEntry>, u32)>);

impl LastQp {
    /// The queue pair with this number. While it stays the same the table's lock is spared.
    #[inline]
    pub(crate) fn find(&mut self, slots: &PortSlots, qpn: Qpn) -> Option<&Arc<QpEntry>> {
        let removals = slots.removals();
        if !self.0.as_ref().is_some_and(|(entry, before)| entry.qpn() == qpn && *before == removals) {
            self.0 = slots.qp(qpn).map(|entry| (entry, removals));
        }
        self.0.as_ref().map(|(entry, _)| entry)
    }
}

/// All slots. There is at least one, and none is given back before the process ends.
pub(crate) struct PortSlots {
    list: [OnceLock<PortSlot>; MAX_SLOTS],
    len: AtomicUsize,
    /// By number: the position in the list, counted from one; 0 for a slot of another process.
    positions: [AtomicU8; 256],
    /// The number of queue pairs that were taken out so far.
    removals: AtomicU32,
    /// The slot for the next queue pair, if they are made on each in turn.
    turn: AtomicUsize,
    growth: Mutex<Growth>,
    grown: Condvar,
}

/// Whether another slot is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Growth {
    Idle,
    Wanted,
    /// The hub gave none.
    Refused,
}

impl PortSlot {
    fn new(number: u8, socket: OwnedFd) -> io::Result<PortSlot> {
        let mut random = [0; 2];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        Ok(PortSlot {
            number,
            socket: RxSocket::new(socket)?,
            receiver: QuickMutex::new(SlotReceiver { side: RxSide::new(), last: LastQp::default() }),
            qps: QpnTable::new(number, u16::from_ne_bytes(random)),
        })
    }

    /// The queue pair with this number, whose slot this is.
    #[inline]
    pub(crate) fn qp(&self, qpn: Qpn) -> Option<Arc<QpEntry>> {
        self.qps.get(qpn.index())
    }
}

impl PortSlots {
    /// The slots that the process starts with, shown to peers on this host by `export`.
    pub(crate) fn new(sockets: Vec<(u8, OwnedFd)>, export: Option<&Exporter>) -> io::Result<PortSlots> {
        let slots = PortSlots {
            list: [const { OnceLock::new() }; MAX_SLOTS],
            len: AtomicUsize::new(0),
            positions: [const { AtomicU8::new(0) }; 256],
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

    /// Adds a slot. Only one thread at a time does: first the one that starts the engine, then the background thread.
    fn add(&self, number: u8, socket: OwnedFd, export: Option<&Exporter>) -> io::Result<()> {
        let slot = PortSlot::new(number, socket)?;
        let len = self.len();
        let has_room = len < MAX_SLOTS && export.is_none_or(|export| export.export().add_slot(number));
        if !has_room || self.list[len].set(slot).is_err() {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "a process has no more slots than that"));
        }
        self.len.store(len + 1, Release);
        self.positions[usize::from(number)].store(len as u8 + 1, Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// The first one, which multicast groups are joined with.
    #[inline]
    pub(crate) fn first(&self) -> &PortSlot {
        self.list[0].get().expect("there is one from the start")
    }

    /// The slot at a position of the list, which is taken as a circle.
    #[inline]
    pub(crate) fn at(&self, position: usize) -> &PortSlot {
        self.list[position % self.len()].get().unwrap_or_else(|| self.first())
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PortSlot> {
        self.list.iter().map_while(OnceLock::get)
    }

    /// The slot with a number, if it is ours.
    #[inline]
    pub(crate) fn with_number(&self, number: u8) -> Option<&PortSlot> {
        let position = self.positions[usize::from(number)].load(Acquire);
        self.list.get(usize::from(position).wrapping_sub(1))?.get()
    }

    /// Whether a slot belongs to this process.
    #[inline]
    pub(crate) fn is_own(&self, number: u8) -> bool {
        self.with_number(number).is_some()
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

    /// Enters the queue pair that `make` makes for the number it is given. `None` if there is no number left.
    ///
    /// It calls `ask` when the background thread should [`grow`](PortSlots::grow) the list. With `may_wait` it waits for
    /// that. A waker may bring the background thread itself here, which must not wait.
    pub(crate) fn insert(
        &self,
        make: impl FnOnce(Qpn) -> Arc<QpEntry>,
        may_wait: bool,
        ask: impl Fn(),
    ) -> Option<Arc<QpEntry>> {
        let end = Instant::now() + PATIENCE;
        let mut make = make;
        loop {
            let before = self.len();
            make = match self.insert_somewhere(make) {
                Ok(entry) => return Some(entry),
                Err(make) => make,
            };
            if !self.wait_for_more(before, end, may_wait, &ask) {
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

    /// Asks for another slot. Whether there are more than `before` now.
    fn wait_for_more(&self, before: usize, end: Instant, may_wait: bool, ask: impl Fn()) -> bool {
        let mut growth = self.growth.lock();
        if self.len() == before && before < MAX_SLOTS {
            *growth = Growth::Wanted;
            ask();
            if !may_wait {
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

    /// The number of queue pairs that were taken out: when it changes, an entry found before may be gone.
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
    fn the_background_thread_does_not_wait_for_a_slot() {
        on_loopback(|group| {
            let device = testing::open(group, 1, "lo");
            let slots = &device.engine().services.slots;
            let asked = AtomicU32::new(0);
            let ask = || {
                asked.fetch_add(1, Relaxed);
            };
            let wait = |may_wait| slots.wait_for_more(1, Instant::now() + Duration::from_secs(3600), may_wait, ask);
            std::thread::scope(|scope| {
                assert!(!wait(false));
                assert!(slots.is_short() && asked.load(Relaxed) == 1, "it will fetch one");
                let other = scope.spawn(|| wait(true));
                while asked.load(Relaxed) < 2 {
                    std::thread::yield_now();
                }
                slots.grow(None, None);
                assert!(!other.join().unwrap(), "without a hub there are no more");
            });
        });
    }
}
