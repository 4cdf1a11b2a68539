//! The other process, as it shows itself.

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
use crate::mapping::Shared;
use crate::objects::{Object, Objects};
use crate::{record, sleep, sys};

/// How often a peer's memory is tried before it is taken to be out of reach.
const MOST_FAR_FAILURES: u8 = 3;

/// What the hub tells of the other process.
#[derive(Debug)]
pub struct Introduction {
    /// Its export.
    pub export: OwnedFd,
    /// The eventfd that wakes it.
    pub wake: OwnedFd,
    /// Its process id, as this process' namespace numbers it (if it does not, nothing is
    /// reached that way).
    pub pid: u32,
}

/// The other process: its keys, its queue pairs, its memory.
pub struct Peer {
    area: Shared<ExportArea>,
    keys: Box<RemoteKeys>,
    pub(crate) objects: Objects,
    bell: OwnedFd,
    /// The nap that it was woken from last.
    woken: AtomicU32,
    full_fences: bool,
    /// Its process, if its memory can be reached.
    far: OnceLock<Far>,
    /// None if it is this process.
    pid: Option<u32>,
    /// How often its memory could not be reached.
    far_failures: AtomicU8,
    gone: AtomicBool,
}

/// What a peer showed, as it was found: to be used again for as long as it has not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known<T> {
    /// What it is.
    pub value: T,
    slot: u32,
    number: u32,
}

/// A process whose memory was reached once.
struct Far {
    pid: i32,
    /// Readable when it has ended.
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
    pub(crate) fn open(introduction: Introduction) -> Result<Peer, LinkError> {
        let Introduction { export, wake, pid } = introduction;
        Peer::map(export.as_fd(), wake, Some(pid))
    }

    /// This process as its own peer. It reaches its own memory without being told where.
    pub(crate) fn itself(export: &Export, wake: OwnedFd) -> Result<Peer, LinkError> {
        Peer::map(export.fd(), wake, None)
    }

    fn map(export: BorrowedFd<'_>, wake: OwnedFd, pid: Option<u32>) -> Result<Peer, LinkError> {
        check_file(export, size_of::<ExportArea>())?;
        let area = Shared::<ExportArea>::new(export, false).map_err(LinkError::System)?;
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
        let (woken, gone) = (AtomicU32::new(0), AtomicBool::new(false));
        let (far, far_failures) = (OnceLock::new(), AtomicU8::new(0));
        let objects = Objects::default();
        let peer = Peer { area, keys, objects, bell: wake, woken, full_fences, far, pid, far_failures, gone };
        peer.reaches_far();
        Ok(peer)
    }

    /// A live key. Hold a [`Hazard`](crate::Hazard) from before this call until what it led to is done.
    #[inline]
    pub fn key(&self, rkey: RKey) -> Option<Known<SharedKey>> {
        let slot = self.keys.slot(rkey) as usize % KEY_SLOTS;
        let (value, number) = read_key(&self.area.keys[slot]).filter(|(key, _)| key.rkey == rkey)?;
        Some(Known { value, slot: slot as u32, number })
    }

    /// A queue pair that may be sent to. As for [`key`](Peer::key).
    #[inline]
    pub fn qp(&self, qpn: Qpn) -> Option<Known<SharedQp>> {
        let slot = self.area.place_of(qpn)?;
        let (value, number) = read_qp(&self.area.qps[slot]).filter(|(qp, _)| qp.qpn == qpn)?;
        Some(Known { value, slot: slot as u32, number })
    }

    /// Whether a key has not changed since it was found. As for [`key`](Peer::key).
    #[inline(always)]
    pub fn has_key(&self, known: &Known<SharedKey>) -> bool {
        record::is_still(&self.area.keys[known.slot as usize % KEY_SLOTS].sequence, known.number)
    }

    /// Whether a queue pair has not changed since it was found. As for [`key`](Peer::key).
    #[inline(always)]
    pub fn has_qp(&self, known: &Known<SharedQp>) -> bool {
        record::is_still(&self.area.qps[known.slot as usize % QP_SLOTS].sequence, known.number)
    }

    /// Whether it says that it sleeps.
    #[inline(always)]
    pub fn is_asleep(&self) -> bool {
        self.area.asleep.0.load(Relaxed) & sleep::ASLEEP != 0
    }

    /// Wakes it if it sleeps: to be called after frames were committed. Costs a look at
    /// its flag while it is awake, and a system call once per nap.
    #[inline(always)]
    pub fn announce(&self) {
        if sleep::must_wake(&self.area.asleep.0, &self.woken, self.full_fences) {
            self.wake();
        }
    }

    /// Wakes it, asleep or not.
    #[cold]
    pub fn wake(&self) {
        sys::ring_bell(&self.bell);
    }

    /// An object of it, if it is mapped here; kept mapped for as long as it is held.
    /// [`Link::object`](crate::Link::object) looks further.
    #[inline]
    pub fn object(&self, object: u32) -> Option<Object> {
        self.objects.get(object)
    }

    /// Whether [`read_far`](Peer::read_far) and [`write_far`](Peer::write_far) work: a number in its memory
    /// could be read.
    ///
    /// Where Yama restricts that, the peer lets us in when it opens its end of the link, which may be after we have
    /// opened ours. So it is tried again, a few times.
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

    /// Copies from its memory, by its own addresses (process_vm_readv(2)).
    ///
    /// # Errors
    /// `Unsupported` if that does not work here, `NotConnected` if it has ended, else what the
    /// kernel says: `EFAULT` if the range is not all mapped there.
    pub fn read_far(&self, address: u64, to: Span<'_>) -> io::Result<()> {
        let far = self.living()?;
        sys::read_process(far.pid, address, to)?;
        // Its number may have become another's meanwhile.
        self.living().map(drop)
    }

    /// Copies to its memory. If it fails, a part may have been written.
    ///
    /// # Errors
    /// As [`read_far`](Peer::read_far).
    pub fn write_far(&self, address: u64, from: Span<'_>) -> io::Result<()> {
        let far = self.living()?;
        sys::write_process(far.pid, address, from)
    }

    /// A descriptor to wait on that becomes readable when its process ends, if there is one. The
    /// socket tells of most ends; of one it does not: when a child made by `fork` still has the socket.
    pub fn process(&self) -> Option<BorrowedFd<'_>> {
        self.far.get().map(|far| far.process.as_fd())
    }

    /// Whether it lives, as far as is known here.
    pub fn is_alive(&self) -> bool {
        !self.gone.load(Acquire)
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Release);
    }

    /// Looks whether its process has ended, if that can be seen.
    pub(crate) fn has_ended(&self) -> bool {
        self.far.get().is_some_and(Far::has_ended)
    }

    fn living(&self) -> io::Result<&Far> {
        let far = self.far.get().ok_or(io::ErrorKind::Unsupported)?;
        if !self.is_alive() || far.has_ended() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(far)
    }
}

impl Far {
    fn has_ended(&self) -> bool {
        sys::ready_now(self.process.as_fd(), PollFlags::IN).contains(PollFlags::IN)
    }
}

/// Reads a number at an address of the process that its export tells. Whoever has it there is
/// the process that made the export.
fn probe(pid: u32, address: u64, nonce: u64) -> Option<Far> {
    let pid = i32::try_from(pid).ok()?;
    let process = sys::pidfd(pid)?;
    let mut bytes = [0u8; 8];
    // SAFETY: our own bytes, borrowed by nobody else for as long as the span lives.
    let to = unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) };
    sys::read_process(pid, address, to).ok()?;
    let far = Far { pid, process };
    (u64::from_ne_bytes(bytes) == nonce && !far.has_ended()).then_some(far)
}

/// A memfd of exactly that size that keeps its size.
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
