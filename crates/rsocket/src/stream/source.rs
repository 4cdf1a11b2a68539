//! Bytes of the caller's that are being sent.

use std::io::IoSlice;

use device::{Payload, Span};

use super::endpoint::inline;

/// Bytes of the caller's, in several places, of which some were taken.
pub(super) struct SendSource<'a, 'b> {
    parts: &'a [IoSlice<'b>],
    /// Taken from the first part.
    taken: usize,
    pub(super) left: usize,
}

impl<'a, 'b> SendSource<'a, 'b> {
    pub(super) fn new(parts: &'a [IoSlice<'b>]) -> SendSource<'a, 'b> {
        let left = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        SendSource { parts, taken: 0, left }
    }

    /// Copies the next bytes out, a span full.
    pub(super) fn copy(&mut self, mut to: Span<'_>) {
        while let Some((first, rest)) = self.parts.split_first()
            && to.len_bytes() > 0
        {
            let bytes = &first[self.taken..];
            let len = bytes.len().min(to.len_bytes());
            if let (Some(head), Some(tail)) = (to.part(0, len), to.part(len, to.len_bytes() - len)) {
                head.write(&bytes[..len]);
                to = tail;
            }
            self.took(len);
            if len == bytes.len() {
                (self.parts, self.taken) = (rest, 0);
            }
        }
    }

    /// The next bytes that lie together.
    pub(super) fn next_part(&self) -> &'a [u8] {
        self.parts.first().and_then(|first| first.get(self.taken..)).unwrap_or_default()
    }

    /// The next bytes, which lie together, have left.
    pub(super) fn skip(&mut self, len: usize) {
        self.took(len);
        if let Some((first, rest)) = self.parts.split_first()
            && self.taken == first.len()
        {
            (self.parts, self.taken) = (rest, 0);
        }
    }

    /// The next bytes as they go with a request.
    pub(super) fn take(&mut self, len: usize) -> Payload {
        if let Some(bytes) = self.parts.first().and_then(|first| first.get(self.taken..self.taken + len)) {
            let payload = inline(bytes);
            self.took(len);
            return payload;
        }
        let mut bytes = Vec::with_capacity(len);
        while let Some((first, rest)) = self.parts.split_first()
            && bytes.len() < len
        {
            let piece = &first[self.taken..];
            let piece = &piece[..piece.len().min(len - bytes.len())];
            bytes.extend_from_slice(piece);
            self.took(piece.len());
            if self.taken == first.len() {
                (self.parts, self.taken) = (rest, 0);
            }
        }
        inline(&bytes)
    }

    fn took(&mut self, len: usize) {
        self.taken += len;
        self.left -= len;
    }
}
