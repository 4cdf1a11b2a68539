//! Buffers: memory of this process that can be lent to the device.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memory::{OwnedMemory, Piece};
use transport::Sge;

use crate::domain::DomainId;
use crate::error::ReclaimError;

/// Registered memory that belongs to the holder of this value.
///
/// A buffer is bytes like a `Vec<u8>`: it has a length, which is the part in use, and a fixed
/// capacity. Sending sends its contents; receiving fills it and sets its length. It is made by
/// [`ProtectionDomain::allocate`](crate::ProtectionDomain::allocate), and can be cut into smaller
/// ones that share one registration.
///
/// Posting a work request takes the buffer away, and its completion brings it back. So a program
/// can neither read nor free it while the device has it.
///
/// No peer can reach a buffer by itself: for that there is
/// [`MemoryRegion`](crate::MemoryRegion).
pub struct Buffer {
    piece: Piece,
    mr: provider::Mr,
    domain: DomainId,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(piece: Piece, mr: provider::Mr, domain: DomainId) -> Buffer {
        let len = piece.len();
        Buffer { piece, mr, domain, len }
    }

    /// Bytes that count.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.piece.len()
    }

    /// Sets the length. Bytes that it newly includes keep their earlier contents: zeros, or old
    /// data.
    ///
    /// # Panics
    /// If `len` is more than the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a buffer of {}", self.capacity());
        self.len = len;
    }

    /// Replaces the contents by a copy of `bytes`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn fill_from(&mut self, bytes: &[u8]) {
        self.set_len(bytes.len());
        self.copy_from_slice(bytes);
    }

    /// As [`fill_from`](Buffer::fill_from), for chaining.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Buffer {
        self.fill_from(bytes);
        self
    }

    /// Cuts off the capacity from `at` on as a separate buffer. The length of each part becomes its
    /// capacity.
    ///
    /// # Panics
    /// If `at` is more than the capacity.
    #[must_use = "the part cut off is freed with this value"]
    pub fn split_off(&mut self, at: usize) -> Buffer {
        let rest = self.piece.split_off(at);
        self.len = at;
        Buffer::new(rest, self.mr.clone(), self.domain)
    }

    /// Cuts the whole capacity into buffers of `len` bytes. The rest at the end is the last,
    /// shorter one.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn split_into(mut self, len: usize) -> Vec<Buffer> {
        assert!(len > 0, "buffers of no bytes");
        let mut parts = Vec::with_capacity(self.capacity().div_ceil(len));
        while self.capacity() > len {
            let rest = self.split_off(len);
            parts.push(std::mem::replace(&mut self, rest));
        }
        parts.push(self);
        parts
    }

    /// Joins a buffer with the one that was cut off right behind it; the length of the result is
    /// its capacity. Gives both back if `next` is not that one.
    pub fn join(self, next: Buffer) -> Result<Buffer, (Buffer, Buffer)> {
        let (lens, domain) = ((self.len, next.len), self.domain);
        match self.piece.join(next.piece) {
            Ok(piece) => Ok(Buffer::new(piece, self.mr, domain)),
            Err((first, second)) => Err((
                Buffer { piece: first, mr: self.mr, domain, len: lens.0 },
                Buffer { piece: second, mr: next.mr, domain: next.domain, len: lens.1 },
            )),
        }
    }

    /// Deregisters the memory and gives it back to the program, as the value that it
    /// [gave](crate::ProtectionDomain::register). No other buffer that was cut from it may be left. A part that was cut off
    /// and dropped does not matter.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let domain = longarm::Device::open()?.protection_domain()?;
    /// let mut buffer = domain.register(b"a message".to_vec())?;
    /// buffer[0] = b'A';                                       // or send it, or receive into it
    /// let bytes: Vec<u8> = buffer.into_memory()?;
    /// assert_eq!(bytes, b"A message");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The buffer again, if another part is left or lent, or the memory was given as another type or not at all.
    pub fn into_memory<M: OwnedMemory>(self) -> Result<M, ReclaimError<Buffer>> {
        if !self.piece.was_given_as::<M>() {
            return Err(ReclaimError::OtherType(self));
        }
        if !self.mr.is_only_handle() {
            return Err(ReclaimError::InUse(self));
        }
        let Buffer { piece, mr, .. } = self;
        drop(mr);
        piece.into_owner().map_err(|_| ReclaimError::Kept)
    }

    pub(crate) fn domain_id(&self) -> DomainId {
        self.domain
    }

    /// The list entry for the bytes in use.
    pub(crate) fn contents(&self) -> Sge {
        self.sge(self.len)
    }

    /// The list entry for the whole capacity.
    pub(crate) fn room(&self) -> Sge {
        self.sge(self.capacity())
    }

    /// The list entry for the first `len` bytes. A list entry holds less than 4 GiB; a
    /// message is shorter anyway.
    pub(crate) fn sge(&self, len: usize) -> Sge {
        Sge {
            addr: self.mr.addr() + self.piece.offset() as u64,
            len_bytes: len.try_into().unwrap_or(u32::MAX),
            lkey: self.mr.lkey(),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.piece[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.piece[..self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.capacity())
    }
}
