//! Registered memory of one polling thread: blocks for short messages, buffers for long ones. And memory of one session
//! that its peer may READ.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use longarm::{Access, Buffer, MemoryRegion, ProtectionDomain, RegionSlice, RemoteKey};
use parking_lot::Mutex;

use crate::verbs::areas::PortAreas;

/// Length of a block: the longest message that is staged in one.
pub(crate) const BLOCK_BYTES: u64 = 512;
/// Blocks that are allocated together.
const BLOCKS: u32 = 256;
/// Blocks at most: 16 MiB.
const MAX_BLOCKS: u32 = 32 * 1024;
/// The shortest buffer of a pool.
const MIN_CLASS_BITS: u32 = 10;
/// Bytes that are allocated together, if the buffers are shorter.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes that each size of a pool keeps at most while nobody uses them.
const MAX_IDLE_BYTES: usize = 32 << 20;
/// Datagrams after which the completion queue is polled: their queue pair has room for twice as many, and half of them may wait
/// for the next one with a completion.
pub(crate) const DATAGRAMS_TOGETHER: u32 = 128;

/// A block that holds a message until the device has sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block(u32);

/// Memory of one polling thread. Its locks are hardly ever contended.
pub(crate) struct Stores {
    domain: ProtectionDomain,
    blocks: Mutex<Blocks>,
    buffers: Mutex<SizeClasses<Buffer>>,
    areas: PortAreas,
    /// Requests were posted that wait for others, or for the next poll.
    unrung: AtomicBool,
    /// Datagrams posted since the last poll of the completion queue.
    datagrams: AtomicU32,
}

#[derive(Default)]
struct Blocks {
    chunks: Vec<MemoryRegion>,
    free: Vec<u32>,
}

impl Stores {
    pub(crate) fn new(domain: &ProtectionDomain) -> Stores {
        Stores {
            domain: domain.clone(),
            blocks: Mutex::default(),
            buffers: Mutex::default(),
            areas: PortAreas::new(domain),
            unrung: AtomicBool::default(),
            datagrams: AtomicU32::default(),
        }
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// The areas of its sessions.
    pub(crate) fn areas(&self) -> &PortAreas {
        &self.areas
    }

    /// A request was posted that may wait for others, or one that takes those along.
    pub(crate) fn note_posted(&self, waits: bool) {
        if self.unrung.load(Relaxed) != waits {
            self.unrung.store(waits, Relaxed);
        }
    }

    /// True if requests wait for the next poll of the completion queue.
    pub(crate) fn is_unrung(&self) -> bool {
        self.unrung.load(Relaxed)
    }

    /// A datagram was posted.
    pub(crate) fn note_datagram(&self) {
        // Only the thread that drives the port posts datagrams.
        self.datagrams.store(self.datagrams.load(Relaxed) + 1, Relaxed);
    }

    /// True if the completion queue is to be polled before the next datagram is posted: all sessions share a queue pair
    /// for them, which holds few.
    pub(crate) fn is_crowded(&self) -> bool {
        self.datagrams.load(Relaxed) >= DATAGRAMS_TOGETHER
    }

    /// The completion queue was polled.
    pub(crate) fn note_polled(&self) {
        self.datagrams.store(0, Relaxed);
        if self.is_unrung() {
            self.unrung.store(false, Relaxed);
        }
    }

    /// Copies the parts into a block. `None` if they are too long, or there is no memory.
    pub(crate) fn stage(&self, parts: &[&[u8]]) -> Option<(Block, RegionSlice)> {
        let len_bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if len_bytes > BLOCK_BYTES {
            return None;
        }
        let mut blocks = self.blocks.lock();
        if blocks.free.is_empty() {
            blocks.grow(&self.domain);
        }
        let number = blocks.free.pop()?;
        let chunk = &blocks.chunks[(number / BLOCKS) as usize];
        let start = u64::from(number % BLOCKS) * BLOCK_BYTES;
        let mut at = start;
        for part in parts {
            chunk.copy_in(at, part).ok()?;
            at += part.len() as u64;
        }
        Some((Block(number), chunk.slice(start..at).ok()?))
    }

    /// The device has sent what the block holds.
    pub(crate) fn unstage(&self, block: Block) {
        self.blocks.lock().free.push(block.0);
    }

    /// A buffer of that length; `None` if there is no memory.
    pub(crate) fn buffer(&self, len_bytes: usize) -> Option<Buffer> {
        let class = class_of(len_bytes);
        let mut buffers = self.buffers.lock();
        let mut buffer = match buffers.take(class) {
            Some(buffer) => buffer,
            None => {
                let mut cut = self.cut_chunk(class)?;
                let first = cut.pop();
                cut.into_iter().for_each(|buffer| buffers.put(class, buffer));
                first?
            }
        };
        buffer.set_len(len_bytes);
        Some(buffer)
    }

    /// New buffers of one size. Each allocation costs a registration and a descriptor, so short ones are made together.
    fn cut_chunk(&self, class: u32) -> Option<Vec<Buffer>> {
        let len_bytes = 1 << class;
        let chunk = self.domain.allocate(len_bytes.max(CHUNK_BYTES)).ok()?;
        Some(chunk.split_into(len_bytes))
    }

    /// A buffer with a copy of the parts.
    pub(crate) fn filled(&self, parts: &[&[u8]]) -> Option<Buffer> {
        let mut buffer = self.buffer(parts.iter().map(|part| part.len()).sum())?;
        let mut at = 0;
        for part in parts {
            buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Some(buffer)
    }

    pub(crate) fn put_buffer(&self, buffer: Buffer) {
        let capacity = buffer.capacity();
        if capacity.is_power_of_two() && capacity >= 1 << MIN_CLASS_BITS {
            self.buffers.lock().put(capacity.trailing_zeros(), buffer);
        }
    }
}

impl Blocks {
    fn grow(&mut self, domain: &ProtectionDomain) {
        let first = self.chunks.len() as u32 * BLOCKS;
        if first >= MAX_BLOCKS {
            return;
        }
        if let Ok(chunk) = domain.expose((u64::from(BLOCKS) * BLOCK_BYTES) as usize, Access::empty()) {
            self.chunks.push(chunk);
            self.free.extend((first..first + BLOCKS).rev());
        }
    }
}

/// Idle memory by size: powers of two.
struct SizeClasses<T>(Vec<Vec<T>>);

impl<T> Default for SizeClasses<T> {
    fn default() -> SizeClasses<T> {
        SizeClasses(Vec::new())
    }
}

impl<T> SizeClasses<T> {
    fn take(&mut self, class: u32) -> Option<T> {
        self.0.get_mut(class as usize)?.pop()
    }

    /// Keeps it, or drops it if there are enough.
    fn put(&mut self, class: u32, memory: T) {
        if self.0.len() <= class as usize {
            self.0.resize_with(class as usize + 1, Vec::new);
        }
        let idle = &mut self.0[class as usize];
        if idle.len() << class < MAX_IDLE_BYTES {
            idle.push(memory);
        }
    }
}

fn class_of(len_bytes: usize) -> u32 {
    len_bytes.next_power_of_two().trailing_zeros().max(MIN_CLASS_BITS)
}

/// Memory that a READ has filled. Dropping it gives it back to the pool.
pub(crate) struct ReadBytes {
    buffer: Option<Buffer>,
    stores: Arc<Stores>,
}

impl ReadBytes {
    pub(crate) fn new(buffer: Buffer, stores: &Arc<Stores>) -> ReadBytes {
        ReadBytes { buffer: Some(buffer), stores: Arc::clone(stores) }
    }
}

impl AsRef<[u8]> for ReadBytes {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }
}

impl Drop for ReadBytes {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.stores.put_buffer(buffer);
        }
    }
}

/// Memory of one session that its peer may READ. The peer keeps the keys, so no other session may use the memory.
pub(crate) struct ExposedPool {
    domain: ProtectionDomain,
    idle: Mutex<SizeClasses<MemoryRegion>>,
}

/// Bytes that the peer may READ. Dropping it gives the memory back to the pool.
pub(crate) struct ExposedPiece {
    region: Option<MemoryRegion>,
    pool: Arc<ExposedPool>,
}

impl ExposedPool {
    pub(crate) fn new(domain: &ProtectionDomain) -> Arc<ExposedPool> {
        Arc::new(ExposedPool { domain: domain.clone(), idle: Mutex::default() })
    }

    /// A copy of the parts and its key; `None` if there is no memory.
    pub(crate) fn expose(self: &Arc<ExposedPool>, parts: &[&[u8]]) -> Option<(ExposedPiece, RemoteKey)> {
        let class = class_of(parts.iter().map(|part| part.len()).sum());
        let idle = self.idle.lock().take(class);
        let region = idle.or_else(|| self.domain.expose(1 << class, Access::REMOTE_READ).ok())?;
        let mut at = 0;
        for part in parts {
            region.copy_in(at, part).ok()?;
            at += part.len() as u64;
        }
        let key = region.key().at(0, at).ok()?;
        Some((ExposedPiece { region: Some(region), pool: Arc::clone(self) }, key))
    }
}

impl Drop for ExposedPiece {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            let class = class_of(region.len_bytes() as usize);
            self.pool.idle.lock().put(class, region);
        }
    }
}
