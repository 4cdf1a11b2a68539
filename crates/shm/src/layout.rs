//! The layout of the shared memory. Any change to it is a new [`VERSION`].

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use memory::RemoteKeys;
use wire::Qpn;

use crate::cells::{CELL_BYTES, Cells, HEADER_BYTES};
use crate::life::LifeLock;
use crate::mapping::{CacheLine, Layout};

/// The version of both layouts and of the messages on the socket.
pub(crate) const VERSION: u32 = 8;
/// "LongarmE", "LongarmL".
pub(crate) const EXPORT_MAGIC: u64 = 0x456d_7261_676e_6f4c;
pub(crate) const LINK_MAGIC: u64 = 0x4c6d_7261_676e_6f4c;

/// The number of lanes in each direction of a link.
pub const LANES: usize = 8;
/// The longest body of a frame, in bytes.
pub const MAX_FRAME_BYTES: usize = (16 << 10) + 64;
/// The number of hazard words of each end.
pub(crate) const HAZARDS: usize = 64;
/// The number of slots for keys.
pub(crate) const KEY_SLOTS: usize = 1 << 20;
/// The number of slots of the UDP port that one process may have: the high bytes of its queue pair numbers.
pub const MAX_SLOTS: usize = 16;
/// The number of queue pairs of one slot.
pub(crate) const QPS_PER_SLOT: usize = 1 << 16;
/// The number of queue pairs of a process. Unused pages take no memory.
pub(crate) const QP_SLOTS: usize = MAX_SLOTS * QPS_PER_SLOT;
const RING_CELLS: usize = 2048;

/// The beginning of each file.
#[repr(C)]
pub(crate) struct FileHeader {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// Export: nonzero if senders need full fences, since the owner cannot issue barriers in other processes.
    pub(crate) full_fences: AtomicU32,
    /// Export: a random number, and its address in the owner's process.
    pub(crate) nonce: AtomicU64,
    pub(crate) nonce_address: AtomicU64,
}

/// The record of a key: one cache line.
#[repr(C, align(64))]
pub(crate) struct KeyRecord {
    pub(crate) sequence: AtomicU32,
    pub(crate) rkey: AtomicU32,
    pub(crate) pd: AtomicU32,
    pub(crate) access: AtomicU32,
    pub(crate) only: AtomicU32,
    pub(crate) object: AtomicU32,
    pub(crate) skip_front: AtomicU32,
    pub(crate) skip_back: AtomicU32,
    pub(crate) base: AtomicU64,
    pub(crate) len_bytes: AtomicU64,
    pub(crate) start: AtomicU64,
    pub(crate) offset: AtomicU64,
}

/// The record of a queue pair: half a cache line.
#[repr(C, align(32))]
pub(crate) struct QpRecord {
    pub(crate) sequence: AtomicU32,
    pub(crate) qpn: AtomicU32,
    pub(crate) peer: AtomicU32,
    pub(crate) pd: AtomicU32,
    pub(crate) access: AtomicU32,
}

/// The words by which a process tells that it must be woken.
#[repr(C)]
pub(crate) struct SleepWords {
    /// By frames.
    pub(crate) frames: AtomicU32,
    /// By changes of its memory, too.
    pub(crate) memory: AtomicU32,
}

/// The file that only its owner can write.
#[repr(C)]
pub(crate) struct ExportArea {
    pub(crate) start: CacheLine<FileHeader>,
    /// The owner's sleep words: see [`sleep`](crate::sleep).
    pub(crate) asleep: CacheLine<SleepWords>,
    /// Tells the owner's death.
    pub(crate) life: LifeLock,
    pub(crate) remote_keys: [AtomicU64; RemoteKeys::WORDS],
    /// By the high byte of a queue pair number: the part of `qps` for it, counted from one; 0 for none.
    pub(crate) parts: CacheLine<[AtomicU8; 256]>,
    pub(crate) qps: [QpRecord; QP_SLOTS],
    pub(crate) keys: [KeyRecord; KEY_SLOTS],
}

impl ExportArea {
    /// The index of a queue pair's record in `qps`, if its slot is one of the owner's. The index is within
    /// bounds for any contents of the memory.
    #[inline]
    pub(crate) fn place_of(&self, qpn: Qpn) -> Option<usize> {
        let part = self.parts.0[usize::from(qpn.slot())].load(Acquire);
        let part = usize::from(part).checked_sub(1)? % MAX_SLOTS;
        Some(part * QPS_PER_SLOT + usize::from(qpn.index()))
    }
}

/// One cell of a ring.
#[repr(C, align(64))]
pub(crate) struct RingCell {
    header: AtomicU64,
    _body: UnsafeCell<[u8; CELL_BYTES - HEADER_BYTES]>,
}

/// A ring with the word in which its consumer publishes its position.
#[repr(C)]
pub(crate) struct LaneRing {
    head: CacheLine<AtomicU64>,
    cells: [RingCell; RING_CELLS],
}

// SAFETY: bodies are accessed only by raw copies; the headers tell which end may write and which may read.
unsafe impl Sync for LaneRing {}

impl LaneRing {
    /// The first byte of the body of a frame that begins in cell `index`.
    #[inline(always)]
    pub(crate) fn body(&self, index: usize) -> *mut u8 {
        let first = (&raw const self.cells).cast_mut().cast::<u8>();
        first.wrapping_add(index % RING_CELLS * CELL_BYTES + HEADER_BYTES)
    }
}

impl Cells for LaneRing {
    const COUNT: u64 = RING_CELLS as u64;
    const MAX_BODY: usize = MAX_FRAME_BYTES;

    #[inline(always)]
    fn header(&self, index: usize) -> &AtomicU64 {
        &self.cells[index % RING_CELLS].header
    }

    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        &self.head.0
    }
}

/// The memory that one end writes and the other reads.
#[repr(C)]
pub(crate) struct EndArea {
    /// The lanes that this end has ever sent on: one bit each.
    pub(crate) opened: CacheLine<AtomicU32>,
    /// The hazard words for accesses of this end to the other's memory.
    pub(crate) hazards: [CacheLine<AtomicU64>; HAZARDS],
    /// The rings on which this end sends.
    pub(crate) rings: [LaneRing; LANES],
}

/// The file that both ends write.
#[repr(C)]
pub(crate) struct LinkArea {
    pub(crate) start: CacheLine<FileHeader>,
    pub(crate) state: CacheLine<AtomicU32>,
    /// By [`LinkSide`](crate::LinkSide).
    pub(crate) ends: [EndArea; 2],
}

// SAFETY: consists of atomics only.
unsafe impl Layout for FileHeader {}
// SAFETY: consists of atomics only.
unsafe impl Layout for KeyRecord {}
// SAFETY: consists of atomics only.
unsafe impl Layout for QpRecord {}
// SAFETY: consists of atomics and of types that implement `Layout`.
unsafe impl Layout for ExportArea {}
// SAFETY: consists of an atomic and a cell of bytes.
unsafe impl Layout for RingCell {}
// SAFETY: consists of types that implement `Layout`.
unsafe impl Layout for LaneRing {}
// SAFETY: consists of types that implement `Layout`.
unsafe impl Layout for EndArea {}
// SAFETY: consists of types that implement `Layout`.
unsafe impl Layout for LinkArea {}

const _: () = assert!(size_of::<KeyRecord>() == 64 && size_of::<QpRecord>() == 32 && size_of::<RingCell>() == 64);
const _: () = assert!(MAX_FRAME_BYTES < RING_CELLS / 4 * CELL_BYTES);
