//! The other process, as its export describes it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use memory::{RemoteKeys, SharedKey, Span};
use rustix::event::PollFlags;
use wire::{Qpn, RKey};

use crate::admission;
use crate::error::LinkError;
use crate::export::{Export, SharedQp, read_key, read_qp};
use crate::layout::{EXPORT_MAGIC, ExportArea, KEY_SLOTS, QP_SLOTS, VERSION};
use crate::mapping::SharedArea;
use crate::objects::{MappedObjects, Object};
use crate::{record, sleep, sys};

/// Attempts to reach a peer's memory through the kernel before it counts as unreachable.
const MOST_FAR_FAILURES: u8 = 3;

/// The hub's description of the other process.
#[derive(Debug)]
pub struct IntroducedPeer {
    /// Its export.
    pub export: OwnedFd,
    /// The eventfd that wakes it.
    pub wake: OwnedFd,
    /// Its process id in this process' namespace. If it has none there, its memory is not reached through the
    /// kernel.
    pub pid: u32,
}

/// The other process: its keys, its queue pairs, its memory.
pub struct Peer {
    area: SharedArea<ExportArea>,
    keys: Box<RemoteKeys>,
    pub(crate) objects: MappedObjects,
    bell: OwnedFd,
    /// The last nap from which this process has woken it.
    woken: AtomicU32,
    /// The same for naps that changes of its memory end.
    woken_by_change: AtomicU32,
    full_fences: bool,
    /// The process, once its memory could be reached through the kernel.
    far: OnceLock<ReachableProcess>,
    /// `None` if the peer is this process.
    pid: Option<u32>,
    /// The number of failed attempts to reach its memory.
    far_failures: AtomicU8,
    gone: AtomicBool,
}

/// A published value as it was found. It may be used again for as long as it has not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundRecord<T> {
    /// The published value.
    pub value: T,
    slot: u32,
    number: u32,
}

/// A process whose memory was reached through the kernel once.
struct ReachableProcess {
    pid: i32,
    /// Readable when the process has ended.
    process: OwnedFd,
}

impl core::fmt::Debug for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Peer")
            .field("alive", &self.is_alive())
            .field("far", &self.far.get().is_some())
            .finish_non_exhaustive()
    }
}

impl Peer {
    pub(crate) fn open(introduction: IntroducedPeer) -> Result<Peer, LinkError> {
        let IntroducedPeer { export, wake, pid } = introduction;
        Peer::map(export.as_fd(), wake, Some(pid))
    }

    /// This process as its own peer. It needs no process id to reach its own memory.
    pub(crate) fn itself(export: &Export, wake: OwnedFd) -> Result<Peer, LinkError> {
        Peer::map(export.fd(), wake, None)
    }

    fn map(export: BorrowedFd<'_>, wake: OwnedFd, pid: Option<u32>) -> Result<Peer, LinkError> {
        check_file(export, size_of::<ExportArea>())?;
        let area = SharedArea::<ExportArea>::new(export, false).map_err(LinkError::System)?;
        let start = &area.start.0;
        if start.magic.load(Acquire) != EXPORT_MAGIC || start.version.load(Relaxed) != VERSION {
            return Err(LinkError::Foreign);
        }
        let words: Vec<u64> = area.remote_keys.iter().map(|word| word.load(Relaxed)).collect();
        let keys = RemoteKeys::from_words(&words).ok_or(LinkError::Foreign)?;
        let full_fences = !sys::register_for_barriers() || start.full_fences.load(Relaxed) != 0;
        if let Some(pid) = pid {
            admission::admit(pid);
        }
        let (woken, woken_by_change, gone) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        let (far, far_failures) = (OnceLock::new(), AtomicU8::new(0));
        let objects = MappedObjects::default();
        let peer =
            Peer { area, keys, objects, bell: wake, woken, woken_by_change, full_fences, far, pid, far_failures, gone };
        peer.reaches_far();
        Ok(peer)
    }

    /// A live key. The caller must hold a [`Hazard`](crate::Hazard) from before this call until it has
    /// finished with the key's memory.
    #[inline]
    pub fn key(&self, rkey: RKey) -> Option<FoundRecord<SharedKey>> {
        let slot = self.keys.slot(rkey) as usize % KEY_SLOTS;
        let (value, number) = read_key(&self.area.keys[slot]).filter(|(key, _)| key.rkey == rkey)?;
        Some(FoundRecord { value, slot: slot as u32, number })
    }

    /// A queue pair that frames may be sent to. The caller must hold a hazard as for [`key`](Peer::key).
    #[inline]
    pub fn qp(&self, qpn: Qpn) -> Option<FoundRecord<SharedQp>> {
        let slot = self.area.place_of(qpn)?;
        let (value, number) = read_qp(&self.area.qps[slot]).filter(|(qp, _)| qp.qpn == qpn)?;
        Some(FoundRecord { value, slot: slot as u32, number })
    }

    /// True if a key has not changed since it was found. The caller must hold a hazard as for
    /// [`key`](Peer::key).
    #[inline(always)]
    pub fn has_key(&self, known: &FoundRecord<SharedKey>) -> bool {
        record::is_still(&self.area.keys[known.slot as usize % KEY_SLOTS].sequence, known.number)
    }

    /// True if a queue pair has not changed since it was found. The caller must hold a hazard as for
    /// [`key`](Peer::key).
    #[inline(always)]
    pub fn has_qp(&self, known: &FoundRecord<SharedQp>) -> bool {
        record::is_still(&self.area.qps[known.slot as usize % QP_SLOTS].sequence, known.number)
    }

    /// True if it has announced that it sleeps.
    #[inline(always)]
    pub fn is_asleep(&self) -> bool {
        sleep::is_asleep(&self.area.asleep.0.frames)
    }

    /// Wakes it if it sleeps; to be called after frames were committed. Costs a load of its sleep word while
    /// it is awake, and a system call once per nap.
    #[inline(always)]
    pub fn announce(&self) {
        if sleep::must_wake(&self.area.asleep.0.frames, &self.woken, self.full_fences) {
            self.wake();
        }
    }

    /// Wakes it if it sleeps until its memory changes; to be called after this process has changed it. Costs as much
    /// as [`announce`](Peer::announce).
    #[inline(always)]
    pub fn announce_change(&self) {
        if sleep::must_wake(&self.area.asleep.0.memory, &self.woken_by_change, self.full_fences) {
            self.wake();
        }
    }

    /// Wakes it, asleep or awake.
    #[cold]
    pub fn wake(&self) {
        sys::ring_bell(&self.bell);
    }

    /// An object of the peer, if it is mapped here; it stays mapped while it is held.
    /// [`Link::object`](crate::Link::object) also reads new offers from the socket.
    #[inline]
    pub fn object(&self, object: u32) -> Option<Object> {
        self.objects.get(object)
    }

    /// True if [`read_far`](Peer::read_far) and [`write_far`](Peer::write_far) work: a number in the peer's
    /// memory could be read.
    ///
    /// Where Yama restricts access, the peer must first name this process. It does so when it opens its end
    /// of the link, perhaps after this end is open. So this function repeats a failed attempt a few times.
    #[inline]
    pub fn reaches_far(&self) -> bool {
        self.far.get().is_some() || self.reaches_far_now()
    }

    #[cold]
    fn reaches_far_now(&self) -> bool {
        if self.far_failures.load(Relaxed) >= MOST_FAR_FAILURES {
            return false;
        }
        let start = &self.area.start.0;
        let probed = self.pid.and_then(|pid| probe(pid, start.nonce_address.load(Relaxed), start.nonce.load(Relaxed)));
        match probed {
            Some(far) => self.far.set(far).is_ok() || self.far.get().is_some(),
            None => {
                self.far_failures.fetch_add(1, Relaxed);
                false
            }
        }
    }

    /// Copies from the peer's memory, by the peer's own addresses (process_vm_readv(2)).
    ///
    /// # Errors
    /// `Unsupported` if that does not work here, `NotConnected` if the peer has ended. Otherwise the kernel's
    /// error: `EFAULT` if a part of the range is not mapped there.
    pub fn read_far(&self, address: u64, to: Span<'_>) -> io::Result<()> {
        let far = self.living()?;
        sys::read_process(far.pid, address, to)?;
        // The process id may belong to another process by this time.
        self.living().map(drop)
    }

    /// Copies to the peer's memory. If it fails, a part may have been written.
    ///
    /// # Errors
    /// As [`read_far`](Peer::read_far).
    pub fn write_far(&self, address: u64, from: Span<'_>) -> io::Result<()> {
        let far = self.living()?;
        sys::write_process(far.pid, address, from)
    }

    /// A descriptor that becomes readable when the peer's process ends, if there is one. The socket shows
    /// most ends, but not if a child made by `fork` still has the socket.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.far.get().map(|far| far.process.as_fd())
    }

    /// Whether the thread that [holds](crate::Export::hold_life) the peer's life has died, and so its process, as the
    /// kernel tells. To be called behind accesses to its memory: false means that they have reached a living process.
    #[inline(always)]
    pub fn has_died(&self) -> bool {
        self.area.life.has_died()
    }

    /// True unless the peer is known to have ended.
    pub fn is_alive(&self) -> bool {
        !self.gone.load(Acquire)
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Release);
    }

    /// True if its process has ended. False as well if its memory was never reached.
    pub(crate) fn has_ended(&self) -> bool {
        self.process_has_ended().unwrap_or(false)
    }

    /// Whether its process has ended; `None` if its memory was never reached.
    pub(crate) fn process_has_ended(&self) -> Option<bool> {
        self.far.get().map(ReachableProcess::has_ended)
    }

    fn living(&self) -> io::Result<&ReachableProcess> {
        let far = self.far.get().ok_or(io::ErrorKind::Unsupported)?;
        if !self.is_alive() || far.has_ended() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(far)
    }
}

impl ReachableProcess {
    fn has_ended(&self) -> bool {
        sys::ready_now(self.process.as_fd(), PollFlags::IN).contains(PollFlags::IN)
    }
}

/// Reads the number at the address that a peer's export names. A process with the right number there is the
/// one that made the export.
fn probe(pid: u32, address: u64, nonce: u64) -> Option<ReachableProcess> {
    let pid = i32::try_from(pid).ok()?;
    let process = sys::pidfd(pid)?;
    let mut bytes = [0u8; 8];
    // SAFETY: the bytes are a local variable, which only the span uses while it lives.
    let to = unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) };
    sys::read_process(pid, address, to).ok()?;
    let far = ReachableProcess { pid, process };
    (u64::from_ne_bytes(bytes) == nonce && !far.has_ended()).then_some(far)
}

/// Checks for a memfd of exactly that size that is sealed against shrinking.
pub(crate) fn check_file(fd: BorrowedFd<'_>, len_bytes: usize) -> Result<(), LinkError> {
    let seals = sys::seals(fd).map_err(|_| LinkError::Unsealed)?;
    if seals & libc::F_SEAL_SHRINK == 0 {
        return Err(LinkError::Unsealed);
    }
    match sys::file_bytes(fd).map_err(LinkError::System)? {
        bytes if bytes == len_bytes as u64 => Ok(()),
        _ => Err(LinkError::Foreign),
    }
}
