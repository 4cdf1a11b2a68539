//! The only type that accesses registered memory.
//!
//! Registered memory changes concurrently: the owner's threads, other processes that map it and this engine's
//! own threads write it at any time. So this crate makes no reference to it, only raw copies, and it trusts
//! no value before it has copied it out.
//!
//! Data races: in the language's terms, a copy that overlaps a concurrent write is a race. The same holds for
//! every program whose buffers a network card reads and writes. This crate takes the stance of such programs.
//! A copied byte is one of those that were stored there, in any mixture. Sizes, addresses and branches do not
//! depend on it until the copy is done. The compiler sees only opaque pointers. Data that must not tear
//! (words, flags, atomics) goes through atomic operations of the right width.
//!
//! Visibility: a poller often waits for the last byte of a message. The bytes up to the last aligned word are
//! copied first, then comes a release fence. Then that word (or its part) is stored in ascending order with
//! the widest stores that its alignment allows. A reader that sees the last byte, and acquires, sees all
//! bytes before it.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

use transport::AtomicOp;

use crate::copies;

/// Bytes of a word, the widest unit that one store writes.
const WORD: usize = 8;

/// A range of memory that may be copied to and from for the lifetime `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    start: *mut u8,
    len_bytes: usize,
    memory: PhantomData<&'a [AtomicU8]>,
}

// SAFETY: a span only copies, and by the contract of `new` its memory is open to concurrent access from every
// thread.
unsafe impl Send for Span<'_> {}
// SAFETY: the argument for Send holds for shared use: by the contract of `new` every thread may access the
// memory concurrently.
unsafe impl Sync for Span<'_> {}

impl<'a> Span<'a> {
    /// The span of `len_bytes` at `start`.
    ///
    /// # Safety
    /// For all of `'a` the range must be mapped and readable, and writable if the span is written through.
    /// During a copy no `&mut` to any of it may be in use, and during a write no `&` either. Raw accesses and
    /// those of other processes may run concurrently.
    #[inline(always)]
    pub unsafe fn new(start: *mut u8, len_bytes: usize) -> Span<'a> {
        Span { start, len_bytes, memory: PhantomData }
    }

    /// Its first byte, for system calls that copy.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut u8 {
        self.start
    }

    /// The span of a slice, which the borrow keeps from other users meanwhile.
    #[inline]
    pub fn from_mut(bytes: &'a mut [u8]) -> Span<'a> {
        // SAFETY: for all of `'a` the exclusive borrow keeps the bytes alive and all other references away.
        unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Its length.
    #[inline(always)]
    pub fn len_bytes(self) -> usize {
        self.len_bytes
    }

    /// The part of `len_bytes` from `offset` on; `None` if it is not all inside.
    #[inline(always)]
    pub fn part(self, offset: usize, len_bytes: usize) -> Option<Span<'a>> {
        let inside = offset <= self.len_bytes && len_bytes <= self.len_bytes - offset;
        // SAFETY: the part lies within this span, for which the contract of `new` holds.
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
            // SAFETY: the body is the first part of this span, and no reference to the span's bytes exists,
            // so `data` lies elsewhere.
            unsafe { copies::copy_apart(body.as_ptr(), self.start, body.len()) };
            fence(Release);
        }
        // SAFETY: the rest of the span has the length of the tail, and lies within one word.
        unsafe { store_word_part(self.start.add(body.len()), tail) };
    }

    /// Copies everything out. If one aligned load can take all bytes (up to eight), it does.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn read(self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len_bytes, "a span is read whole");
        // SAFETY: the span is valid for reads of its length; each load is used only at its natural alignment.
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

    /// Copies another span of the same length in, the last word last, like [`write`](Span::write). The two
    /// may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy_from(self, from: Span<'_>) {
        assert_eq!(from.len_bytes, self.len_bytes, "a span is written whole");
        if self.is_word() && from.is_word() {
            // SAFETY: both are aligned words, valid for the lifetime of the spans.
            unsafe { store_u64(self.start, load_u64(from.start)) };
            return;
        }
        let body = self.tail_offset();
        // Copied first, before the body can overwrite it. That is safe for a writer that stores the last word
        // of `from` last: bytes that were stored before that word are copied after it.
        let mut tail = [0; WORD];
        let tail = &mut tail[..self.len_bytes - body];
        // SAFETY: the tail follows the body in the other span and ends with it.
        unsafe { Span::new(from.start.add(body), tail.len()) }.read(tail);
        if body > 0 {
            // SAFETY: the first `body` bytes of both spans, which may overlap.
            unsafe { copies::copy(from.start, self.start, body) };
            fence(Release);
        }
        // SAFETY: the rest of the span has the length of the tail, and lies within one word.
        unsafe { store_word_part(self.start.add(body), tail) };
    }

    /// Its first byte, for copies by the kernel.
    pub(crate) fn ptr(self) -> *mut u8 {
        self.start
    }

    /// True if it is eight bytes at a multiple of eight: a [`write`](Span::write) of it is one store.
    #[inline]
    pub fn is_word(self) -> bool {
        self.len_bytes == WORD && self.start.addr().is_multiple_of(WORD)
    }

    /// Does an atomic operation on the whole span and returns the previous value. Sequentially consistent,
    /// also with respect to the processors' own atomics. `None` if the span is not eight bytes at a multiple
    /// of eight.
    #[inline]
    pub fn atomic(self, op: AtomicOp) -> Option<u64> {
        if !self.is_word() {
            return None;
        }
        // SAFETY: aligned (`is_word`), valid for the lifetime of the span, and no reference to the bytes
        // exists (contract of `new`).
        let word = unsafe { AtomicU64::from_ptr(self.start.cast()) };
        Some(match op {
            AtomicOp::CompareSwap { compare, swap } => match word.compare_exchange(compare, swap, SeqCst, SeqCst) {
                Ok(before) | Err(before) => before,
            },
            AtomicOp::FetchAdd { add } => word.fetch_add(add, SeqCst),
        })
    }

    /// The offset of the last aligned word of the span, or zero if the span begins within it.
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
        // SAFETY: eight bytes within one aligned word are that word; `to` is valid for writes (this
        // function's contract).
        return unsafe { store_u64(to, u64::from_ne_bytes(word)) };
    }
    // SAFETY: this function's contract is that of `store_pieces`.
    unsafe { store_pieces(to, data) }
}

/// # Safety
/// As `store_word_part`.
unsafe fn store_pieces(to: *mut u8, data: &[u8]) {
    let mut at = 0;
    while at < data.len() {
        let rest = &data[at..];
        // SAFETY: `at` is within the range; each store is used at its natural alignment and writes no more
        // than the rest.
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
            // SAFETY: this function's contract: aligned and valid for writes; by the contract of `Span::new`
            // no reference to it exists.
            unsafe { $atomic::from_ptr(to.cast()) }.store(value, Release);
        }

        /// # Safety
        /// `from` must be aligned and valid for reads.
        #[allow(dead_code, reason = "single bytes are read by the copy")]
        #[inline(always)]
        unsafe fn $load(from: *mut u8) -> $int {
            // SAFETY: this function's contract: aligned and valid for reads; by the contract of `Span::new`
            // no `&mut` to it exists.
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
