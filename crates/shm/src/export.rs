//! The state that a process publishes to its peers: its keys and queue pairs, and whether it sleeps.
//!
//! The file is sealed after it is mapped here, so that peers can map it only for reading.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use memory::{Access, ObjectPlace, PdId, RemoteKeys, SharedKey};
use parking_lot::Mutex;
use wire::{Qpn, RKey};

use crate::layout::{EXPORT_MAGIC, ExportArea, KEY_SLOTS, KeyRecord, MAX_SLOTS, QpRecord, VERSION};
use crate::life::HeldLife;
use crate::mapping::SharedArea;
use crate::{record, sleep, sys};

/// No queue pair, or no object.
const NONE: u32 = u32::MAX;

/// A peer's knowledge of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedQp {
    /// The number of the queue pair.
    pub qpn: Qpn,
    /// The only queue pair that may use it.
    pub peer: Qpn,
    /// The protection domain of the keys that it serves.
    pub pd: PdId,
    /// The operations that peers may do through it.
    pub access: Access,
}

/// The memory in which a process publishes its keys and queue pairs. Peers map it and cannot write it.
pub struct Export {
    area: SharedArea<ExportArea>,
    fd: Arc<OwnedFd>,
    /// The number that peers read to check that they reach the right process.
    _nonce: Box<u64>,
    /// The lock of the only writer.
    writer: Mutex<Written>,
    /// Taken by the one thread that changes the sleep word of the memory.
    memory_watch: Mutex<()>,
}

/// The extent of the records that were ever written.
#[derive(Default)]
struct Written {
    /// The number of slots of the port that are published.
    port_slots: u8,
    /// One more than the highest slot that ever had a key.
    key_slots: usize,
}

impl core::fmt::Debug for Export {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Export").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Export {
    /// Makes an export without keys and queue pairs. `keys` leads peers to the slots of keys.
    ///
    /// # Errors
    /// The error of memfd_create(2), ftruncate(2), mmap(2), pthread_mutex_init(3) or sealing; a kernel before 5.1
    /// has no `F_SEAL_FUTURE_WRITE`.
    pub fn new(keys: &RemoteKeys) -> io::Result<Export> {
        // Links register too. In a process with several threads the first registration takes milliseconds, so
        // it must not delay a message.
        sys::register_for_barriers();
        let fd = sys::memfd(c"longarm-export", size_of::<ExportArea>())?;
        let area = SharedArea::<ExportArea>::new(fd.as_fd(), true)?;
        let nonce = Box::new(sys::random()?);
        for (word, value) in area.remote_keys.iter().zip(keys.to_words()) {
            word.store(value, Relaxed);
        }
        area.life.init()?;
        let start = &area.start.0;
        start.full_fences.store(u32::from(!sys::barrier_everywhere()), Relaxed);
        start.nonce.store(*nonce, Relaxed);
        start.nonce_address.store((&raw const *nonce).addr() as u64, Relaxed);
        start.version.store(VERSION, Relaxed);
        start.magic.store(EXPORT_MAGIC, Release);
        sys::seal(fd.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL)?;
        Ok(Export { area, fd: Arc::new(fd), _nonce: nonce, writer: Mutex::default(), memory_watch: Mutex::default() })
    }

    /// The file for peers to map.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The file as a shared handle, for a caller that gives it to peers for as long as this process lives.
    pub fn shared_fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Ties the life that [`Peer::has_died`](crate::Peer::has_died) tells of to the calling thread, until the drop of
    /// the returned value. `None` if a thread is tied already.
    pub fn hold_life(&self) -> Option<HeldLife<'_>> {
        self.area.life.hold()
    }

    /// Publishes a key in a slot; it replaces the previous one.
    ///
    /// # Panics
    /// If `slot` is not less than 2^20.
    pub fn open_key(&self, slot: u32, key: &SharedKey) {
        self.write_key(slot, |to| store_key(to, key));
    }

    /// Removes a key. Peers that enter a hazard after this call do not find it. For those that entered
    /// before, wait with [`Link::wait_for_peer_accesses`](crate::Link::wait_for_peer_accesses).
    ///
    /// # Panics
    /// If `slot` is not less than 2^20.
    pub fn close_key(&self, slot: u32) {
        self.write_key(slot, |to| to.rkey.store(0, Relaxed));
        fence(SeqCst);
    }

    /// Removes the place of each key in [adopted memory that is given up](memory::is_given_up). As after
    /// [`close_key`](Export::close_key), the caller must wait for accesses that began before.
    pub fn give_up_places(&self) {
        let written = self.writer.lock();
        for to in &self.area.keys[..written.key_slots] {
            if memory::is_given_up(to.object.load(Relaxed)) {
                record::write(&to.sequence, || store_place(to, None));
            }
        }
        drop(written);
        fence(SeqCst);
    }

    /// Permits queue pairs whose numbers have this high byte. False if there are [`MAX_SLOTS`] such bytes
    /// already.
    pub fn add_slot(&self, slot: u8) -> bool {
        let mut written = self.writer.lock();
        let part = &self.area.parts.0[usize::from(slot)];
        if part.load(Relaxed) != 0 {
            return true;
        }
        let fits = usize::from(written.port_slots) < MAX_SLOTS;
        if fits {
            written.port_slots += 1;
            part.store(written.port_slots, Release);
        }
        fits
    }

    /// Publishes a queue pair at the place of `qp.qpn`; it replaces the previous one.
    ///
    /// # Panics
    /// If its slot was not [added](Export::add_slot).
    pub fn open_qp(&self, qp: &SharedQp) {
        self.write_qp(qp.qpn, |to| {
            to.qpn.store(qp.qpn.get(), Relaxed);
            to.peer.store(qp.peer.get(), Relaxed);
            to.pd.store(qp.pd.0, Relaxed);
            to.access.store(qp.access.bits(), Relaxed);
        });
    }

    /// Removes a queue pair; peers' accesses as for [`close_key`](Export::close_key).
    pub fn close_qp(&self, qpn: Qpn) {
        self.write_qp(qpn, |to| to.qpn.store(NONE, Relaxed));
        fence(SeqCst);
    }

    /// Announces that this process is about to sleep: senders must wake it. One thread at a time. `often`
    /// announces that it will sleep again very soon. Then the next call is cheaper and each frame more
    /// expensive, until [`stay_awake`](Export::stay_awake).
    ///
    /// If this returns true, the caller must check all lanes once more and may then block. A frame whose
    /// sender did not see the announcement is visible by then. If it returns false, the barrier in other
    /// processes failed although it worked when the export was made. The caller must then not block for
    /// longer than a frame may be late.
    pub fn fall_asleep(&self, often: bool) -> bool {
        sleep::fall_asleep(&self.area.asleep.0.frames, often, self.has_full_fences())
    }

    /// Announces that this process is awake.
    pub fn wake_up(&self) {
        sleep::wake_up(&self.area.asleep.0.frames);
    }

    /// Announces that this process is awake, and ends the effect of `often`.
    pub fn stay_awake(&self) {
        sleep::stay_awake(&self.area.asleep.0.frames);
    }

    /// Announces that a thread of this process is about to sleep until its memory changes: peers that change it
    /// directly must wake the process, once after each call. Any number of threads.
    ///
    /// If this returns true, the program must look into its memory once more before the thread blocks. A change
    /// whose author did not see the announcement is visible by then. If it returns false, the thread must not
    /// block for longer than it may overlook a change.
    pub fn watch_memory(&self) -> bool {
        let _one = self.memory_watch.lock();
        sleep::fall_asleep_again(&self.area.asleep.0.memory, self.has_full_fences())
    }

    /// Announces that nobody sleeps until the memory changes.
    pub fn unwatch_memory(&self) {
        let _one = self.memory_watch.lock();
        sleep::stay_awake(&self.area.asleep.0.memory);
    }

    /// Whether peers are told that a thread sleeps until the memory changes.
    pub fn is_memory_watched(&self) -> bool {
        sleep::is_asleep(&self.area.asleep.0.memory)
    }

    fn has_full_fences(&self) -> bool {
        self.area.start.0.full_fences.load(Relaxed) != 0
    }

    fn write_key(&self, slot: u32, store: impl FnOnce(&KeyRecord)) {
        let slot = slot as usize;
        assert!(slot < KEY_SLOTS, "slots of keys have 20 bits");
        let to = &self.area.keys[slot];
        let mut written = self.writer.lock();
        written.key_slots = written.key_slots.max(slot + 1);
        record::write(&to.sequence, || store(to));
    }

    fn write_qp(&self, qpn: Qpn, store: impl FnOnce(&QpRecord)) {
        let place = self.area.place_of(qpn).expect("the slot was added before its queue pairs");
        let to = &self.area.qps[place];
        let _one = self.writer.lock();
        record::write(&to.sequence, || store(to));
    }

    /// The memory, for tests that write garbage to it.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> memory::Span<'_> {
        self.area.mapping().span()
    }
}

fn store_key(to: &KeyRecord, key: &SharedKey) {
    to.rkey.store(key.rkey.0, Relaxed);
    to.pd.store(key.pd.0, Relaxed);
    to.access.store(key.access.bits(), Relaxed);
    to.only.store(key.only.map_or(NONE, Qpn::get), Relaxed);
    to.base.store(key.base, Relaxed);
    to.len_bytes.store(key.len_bytes, Relaxed);
    to.start.store(key.start, Relaxed);
    // The place may have been given up since the caller found it. Under the writer's lock this check is
    // final.
    store_place(to, key.place.filter(|place| !memory::is_given_up(place.object)));
}

fn store_place(to: &KeyRecord, place: Option<ObjectPlace>) {
    let none = (NONE, 0, 0, 0);
    let (object, offset, front, back) = place.and_then(narrow).unwrap_or(none);
    to.object.store(object, Relaxed);
    to.offset.store(offset, Relaxed);
    to.skip_front.store(front, Relaxed);
    to.skip_back.store(back, Relaxed);
}

/// A place in the record's format. `None`, and so not published, if a partial page is longer than 32 bits can
/// tell.
fn narrow(place: ObjectPlace) -> Option<(u32, u64, u32, u32)> {
    let (front, back) = (u32::try_from(place.skip_front).ok()?, u32::try_from(place.skip_back).ok()?);
    (place.object != NONE).then_some((place.object, place.offset, front, back))
}

/// The key of a record, if the record holds one.
#[inline]
pub(crate) fn read_key(from: &KeyRecord) -> Option<(SharedKey, u32)> {
    let (key, number) = record::read(&from.sequence, || {
        let object = from.object.load(Relaxed);
        let place = (object != NONE).then(|| ObjectPlace {
            object,
            offset: from.offset.load(Relaxed),
            skip_front: u64::from(from.skip_front.load(Relaxed)),
            skip_back: u64::from(from.skip_back.load(Relaxed)),
        });
        let only = from.only.load(Relaxed);
        SharedKey {
            rkey: RKey(from.rkey.load(Relaxed)),
            pd: PdId(from.pd.load(Relaxed)),
            access: Access::from_bits_truncate(from.access.load(Relaxed)),
            only: (only != NONE).then(|| Qpn::new(only)),
            base: from.base.load(Relaxed),
            len_bytes: from.len_bytes.load(Relaxed),
            start: from.start.load(Relaxed),
            place,
        }
    })?;
    (key.rkey.0 != 0).then_some((key, number))
}

/// The queue pair of a record, if the record holds one.
#[inline]
pub(crate) fn read_qp(from: &QpRecord) -> Option<(SharedQp, u32)> {
    let ((qpn, qp), number) = record::read(&from.sequence, || {
        let qpn = from.qpn.load(Relaxed);
        let qp = SharedQp {
            qpn: Qpn::new(qpn),
            peer: Qpn::new(from.peer.load(Relaxed)),
            pd: PdId(from.pd.load(Relaxed)),
            access: Access::from_bits_truncate(from.access.load(Relaxed)),
        };
        (qpn, qp)
    })?;
    (qpn != NONE).then_some((qp, number))
}

#[cfg(test)]
mod tests;
