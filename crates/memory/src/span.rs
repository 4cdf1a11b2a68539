//! The one type that touches registered memory.
//!
//! Registered memory changes under us: the owner's threads, other processes that map
//! it and this engine's own threads write it whenever they like. So no reference to
//! it is ever made, only raw copies, and nothing read from it is believed before it
//! has been copied out.
//!
//! About data races: in the language's terms, a copy that runs while somebody
//! writes the same bytes is a race, as it is for every program whose buffers a network
//! card reads and writes behind its back. The stance is that of such programs.
//! A copied byte is one of those that were stored there, in whatever mixture; sizes,
//! addresses and branches never depend on it until the copy is done; the compiler is given
//! nothing but opaque pointers to reason about. What must not tear (words, flags,
//! atomics) goes through atomic operations of the right width.
//!
//! Visibility. A poller often waits for the last byte of a message. The bytes up to
//! the last aligned word are copied first, then a release fence, then that word (or
//! its part) in ascending order with the widest stores that its alignment allows.
//! Whoever sees the last byte, and acquires, sees all before it.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

use transport::AtomicOp;

use crate::copies;

/// Bytes of the unit that is stored at once.
const WORD: usize = 8;

/// A range of memory that may be copied to and from for as long as `'a` lasts.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    start: *mut u8,
    len_bytes: usize,
    memory: PhantomData<&'a [AtomicU8]>,
}

// SAFETY: a span only copies, and its memory is by contract open to concurrent
// access from every thread.
unsafe impl Send for Span<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for Span<'_> {}

impl<'a> Span<'a> {
    /// The span of `len_bytes` at `start`.
    ///
    /// # Safety
    /// For all of `'a` the range must be mapped, readable, and writable if the span is
    /// written through. No reference to any of it may be in use during a copy (a `&mut`
    /// at all, a `&` during a write); raw accesses and those of other processes may.
    #[inline(always)]
    pub unsafe fn new(start: *mut u8, len_bytes: usize) -> Span<'a> {
        Span { start, len_bytes, memory: PhantomData }
    }

    /// Its first byte, for system calls that copy.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        self.start
    }

    /// The span of a slice, which nobody uses meanwhile.
    #[inline]
    pub fn from_mut(bytes: &'a mut [u8]) -> Span<'a> {
        // SAFETY: the borrow keeps the bytes, and everybody else away from them, for all of `'a`.
        unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Its length.
    #[inline(always)]
    pub fn len_bytes(self) -> usize {
        self.len_bytes
    }

    /// The part of `len_bytes` from `offset` on, nothing if it is not all inside.
    #[inline(always)]
    pub fn part(self, offset: usize, len_bytes: usize) -> Option<Span<'a>> {
        let inside = offset <= self.len_bytes && len_bytes <= self.len_bytes - offset;
        // SAFETY: the part lies within a span that keeps the promise already.
        inside.then(|| unsafe { Span::new(self.start.add(offset), len_bytes) })
    }

    /// Copies `data` in, the last word last.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn write(self, data: &[u8]) {
        assert_eq!(data.len(), self.len_bytes, "a span is written whole");
        let (body, tail) = data.split_at(self.tail_offset());
        if !body.is_empty() {
            // SAFETY: the body is the first part of this span, and no reference to
            // it exists, so `data` lies elsewhere.
            unsafe { copies::copy_apart(body.as_ptr(), self.start, body.len()) };
            fence(Release);
        }
        // SAFETY: what remains of the span is as long as the tail, and lies within one word.
        unsafe { store_word_part(self.start.add(body.len()), tail) };
    }

    /// Copies everything out. Up to eight bytes that one aligned load can take are
    /// taken by one.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn read(self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len_bytes, "a span is read whole");
        // SAFETY: the span is valid for reads of its length; each load is used only at
        // its natural alignment.
        unsafe {
            match (self.len_bytes, self.start.addr() % WORD) {
                (8, 0) => out.copy_from_slice(&load_u64(self.start).to_ne_bytes()),
                (4, 0 | 4) => out.copy_from_slice(&load_u32(self.start).to_ne_bytes()),
                (2, 0 | 2 | 4 | 6) => out.copy_from_slice(&load_u16(self.start).to_ne_bytes()),
                _ => copies::copy_apart(self.start, out.as_mut_ptr(), out.len()),
            }
        }
        fence(Acquire);
    }

    /// Copies another span of the same length in, as [`write`](Span::write) does: the last word
    /// last. The two may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy_from(self, from: Span<'_>) {
        assert_eq!(from.len_bytes, self.len_bytes, "a span is written whole");
        if self.is_word() && from.is_word() {
            // SAFETY: both are aligned words, valid for as long as the spans.
            unsafe { store_u64(self.start, load_u64(from.start)) };
            return;
        }
        let body = self.tail_offset();
        // Taken first, before the body can overwrite it. Whoever waits for the last word at the
        // other end loses nothing by that: what was stored before it is copied after it.
        let mut tail = [0; WORD];
        let tail = &mut tail[..self.len_bytes - body];
        // SAFETY: the tail is what follows the body in the other span.
        unsafe { Span::new(from.start.add(body), tail.len()) }.read(tail);
        if body > 0 {
            // SAFETY: the first `body` bytes of both spans, which may overlap.
            unsafe { copies::copy(from.start, self.start, body) };
            fence(Release);
        }
        // SAFETY: what remains of the span is as long as the tail, and lies within one word.
        unsafe { store_word_part(self.start.add(body), tail) };
    }

    /// Its first byte, for copies by the kernel.
    pub(crate) fn ptr(self) -> *mut u8 {
        self.start
    }

    /// Whether it is eight bytes at a multiple of eight: a [`write`](Span::write) of it is one store.
    #[inline]
    pub fn is_word(self) -> bool {
        self.len_bytes == WORD && self.start.addr().is_multiple_of(WORD)
    }

    /// Does an atomic operation on the whole span and returns the value before it.
    /// Sequentially consistent, towards the processors' own atomics too.
    /// Nothing if the span is not eight bytes at a multiple of eight.
    #[inline]
    pub fn atomic(self, op: AtomicOp) -> Option<u64> {
        if !self.is_word() {
            return None;
        }
        // SAFETY: aligned, valid for the lifetime of the span, no reference to it exists.
        let word = unsafe { AtomicU64::from_ptr(self.start.cast()) };
        Some(match op {
            AtomicOp::CompareSwap { compare, swap } => match word.compare_exchange(compare, swap, SeqCst, SeqCst) {
                Ok(before) | Err(before) => before,
            },
            AtomicOp::FetchAdd { add } => word.fetch_add(add, SeqCst),
        })
    }

    /// Where the last aligned word of the span begins, or zero if the span begins within it.
    #[inline(always)]
    fn tail_offset(self) -> usize {
        let into_last_word = self.start.addr().wrapping_add(self.len_bytes).wrapping_sub(1) % WORD;
        self.len_bytes.saturating_sub(into_last_word + 1)
    }
}

/// Stores up to eight bytes that lie within one aligned word, in ascending order, each
/// store as wide as its address allows.
///
/// # Safety
/// `to` must be valid for writes of `data.len()` bytes, all in one aligned word.
#[inline(always)]
unsafe fn store_word_part(to: *mut u8, data: &[u8]) {
    if let Ok(word) = <[u8; WORD]>::try_from(data) {
        // SAFETY: eight bytes within one aligned word are that word.
        return unsafe { store_u64(to, u64::from_ne_bytes(word)) };
    }
    // SAFETY: as promised by the caller.
    unsafe { store_pieces(to, data) }
}

/// # Safety
/// As `store_word_part`.
unsafe fn store_pieces(to: *mut u8, data: &[u8]) {
    let mut at = 0;
    while at < data.len() {
        let rest = &data[at..];
        // SAFETY: `at` is within the range; each store is used at its natural
        // alignment and takes no more than what is left.
        at += unsafe {
            let to = to.add(at);
            match (to.addr() % 4, rest) {
                (0, &[a, b, c, d, ..]) => {
                    store_u32(to, u32::from_ne_bytes([a, b, c, d]));
                    4
                }
                (0 | 2, &[a, b, ..]) => {
                    store_u16(to, u16::from_ne_bytes([a, b]));
                    2
                }
                _ => {
                    store_u8(to, rest[0]);
                    1
                }
            }
        };
    }
}

macro_rules! access {
    ($($store:ident $load:ident $atomic:ident $int:ty;)*) => {$(
        /// # Safety
        /// `to` must be aligned and valid for writes.
        #[inline(always)]
        unsafe fn $store(to: *mut u8, value: $int) {
            // SAFETY: as promised by the caller; nobody holds a reference to it.
            unsafe { $atomic::from_ptr(to.cast()) }.store(value, Release);
        }

        /// # Safety
        /// `from` must be aligned and valid for reads.
        #[allow(dead_code, reason = "single bytes are read by the copy")]
        #[inline(always)]
        unsafe fn $load(from: *mut u8) -> $int {
            // SAFETY: as promised by the caller; nobody holds a `&mut` to it.
            unsafe { $atomic::from_ptr(from.cast()) }.load(Acquire)
        }
    )*};
}

access! {
    store_u8 load_u8 AtomicU8 u8;
    store_u16 load_u16 AtomicU16 u16;
    store_u32 load_u32 AtomicU32 u32;
    store_u64 load_u64 AtomicU64 u64;
}

#[cfg(test)]
mod tests;
