//! Building packets: base transport header, extension headers, payload, pad.
//!
//! Shared by all services. The bytes of a message are copied exactly once, from the buffers of the work request into
//! the packet. The requesters and responders decide the contents.

use wire::Bth;

use crate::limits::MAX_PACKET_BYTES;
use crate::memory::{Memory, MemoryError, PdId};
use crate::wr::Payload;

/// Writes one packet into a buffer, front to back. The base transport header
/// comes last: only then the length of the pad is known.
///
/// ```text
///  BTH | extension headers | payload | pad
///      ^ push, push, ...   ^ gather or room    ^ finish
/// ```
#[derive(Debug)]
pub(crate) struct PacketBuilder<'a> {
    out: &'a mut [u8],
    bth: Bth,
    len_bytes: usize,
    payload_bytes: usize,
}

impl<'a> PacketBuilder<'a> {
    /// Starts a packet.
    ///
    /// # Panics
    /// If `out` has less than [`MAX_PACKET_BYTES`]: that is the caller's promise.
    #[inline]
    pub(crate) fn new(out: &'a mut [u8], bth: Bth) -> PacketBuilder<'a> {
        assert!(out.len() >= MAX_PACKET_BYTES, "no room for a packet");
        PacketBuilder { out, bth, len_bytes: Bth::LEN, payload_bytes: 0 }
    }

    /// Appends an encoded extension header. All of them come before the payload.
    #[inline]
    pub(crate) fn push<const N: usize>(&mut self, header: [u8; N]) {
        debug_assert_eq!(self.payload_bytes, 0, "headers come before the payload");
        self.out[self.len_bytes..self.len_bytes + N].copy_from_slice(&header);
        self.len_bytes += N;
    }

    /// Appends `len_bytes` of a work request's payload, from `offset` on.
    /// After an error the packet is to be given up.
    #[inline]
    pub(crate) fn gather<M: Memory + ?Sized>(
        &mut self,
        memory: &M,
        pd: PdId,
        payload: &Payload,
        offset: u64,
        len_bytes: usize,
    ) -> Result<(), MemoryError> {
        if len_bytes == 0 {
            return Ok(());
        }
        let room = self.room(len_bytes);
        match payload {
            Payload::Call(call) => {
                room.copy_from_slice(part(&call.request, offset, len_bytes)?);
                Ok(())
            }
            Payload::Sgl(sgl) => memory.gather(pd, sgl, offset, room),
            Payload::Inline(bytes) => {
                room.copy_from_slice(part(bytes, offset, len_bytes)?);
                Ok(())
            }
        }
    }

    /// Appends room for `len_bytes` of payload, to be filled by the caller.
    #[inline]
    pub(crate) fn room(&mut self, len_bytes: usize) -> &mut [u8] {
        let start = self.len_bytes;
        self.len_bytes += len_bytes;
        self.payload_bytes += len_bytes;
        &mut self.out[start..start + len_bytes]
    }

    /// Pads the payload with zeros to a multiple of four (PadCnt, IB specification 9.2) and writes
    /// the base transport header. Returns the packet's length in bytes.
    #[inline]
    pub(crate) fn finish(mut self) -> usize {
        let pad = self.payload_bytes.wrapping_neg() & 3;
        self.out[self.len_bytes..self.len_bytes + pad].fill(0);
        self.bth.pad = pad as u8;
        self.out[..Bth::LEN].copy_from_slice(&self.bth.encode());
        self.len_bytes + pad
    }
}

fn part(bytes: &[u8], offset: u64, len_bytes: usize) -> Result<&[u8], MemoryError> {
    usize::try_from(offset)
        .ok()
        .and_then(|start| bytes.get(start..start.checked_add(len_bytes)?))
        .ok_or(MemoryError::OutOfBounds)
}

#[cfg(test)]
mod tests;
