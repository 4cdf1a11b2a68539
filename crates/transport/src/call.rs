//! Calls that the responder's device carries out: their request, their reply, and what keeps them from it.

use crate::limits::REPLY_BYTES;
use crate::memory::MemoryError;
use crate::wr::Sgl;

/// The request of a call, and the place of its reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallBuffers {
    /// The request: one packet at most.
    pub request: Box<[u8]>,
    /// The buffers of the reply.
    pub reply: Sgl,
}

/// The reply of a call, as its handler writes it: no longer than the caller has room for.
#[derive(Debug)]
pub struct ReplyBytes {
    bytes: Vec<u8>,
    room_bytes: usize,
}

impl ReplyBytes {
    /// Empty, with room for so many bytes, and for [`REPLY_BYTES`] at most.
    pub fn new(room_bytes: u32) -> ReplyBytes {
        ReplyBytes { bytes: Vec::new(), room_bytes: room_bytes.min(REPLY_BYTES) as usize }
    }

    /// Bytes that still fit.
    pub fn room_bytes(&self) -> usize {
        self.room_bytes - self.bytes.len()
    }

    /// Appends bytes; false if they do not fit, and then none of them.
    #[must_use = "the caller may have less room"]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.room_bytes();
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    /// Appends zeros and gives them out to be filled; `None` if they do not fit.
    pub fn append_zeros(&mut self, len_bytes: usize) -> Option<&mut [u8]> {
        let start = self.bytes.len();
        if len_bytes > self.room_bytes() {
            return None;
        }
        self.bytes.resize(start + len_bytes, 0);
        Some(&mut self.bytes[start..])
    }

    /// The bytes so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The reason for which a call was not carried out, or not to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteCallError {
    /// Key, range or right; or nobody serves calls there.
    Refused(MemoryError),
    /// The handler panicked.
    Panicked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_no_longer_than_its_room() {
        let mut reply = ReplyBytes::new(10);
        assert!(reply.append(&[1; 6]) && !reply.append(&[2; 5]));
        assert_eq!((reply.room_bytes(), reply.append_zeros(5)), (4, None));
        reply.append_zeros(4).expect("it fits").fill(3);
        assert_eq!((reply.as_slice(), reply.room_bytes()), (&[1, 1, 1, 1, 1, 1, 3, 3, 3, 3][..], 0));
        reply.clear();
        assert_eq!(reply.room_bytes(), 10);
        assert_eq!(ReplyBytes::new(u32::MAX).room_bytes(), REPLY_BYTES as usize);
    }
}
