//! The body of a frame: bytes in the lane, or memory that the sender lends.

use memory::{Registry, Span};
use transport::shm::frame::{FrameFlags, FrameHead, HEAD_BYTES};
use transport::shm::path::{ReceivedBody, ShmError};
use transport::{Accessor, Memory, PdId, RemoteAddr, Sge};

use crate::shm::link::ShmLink;
use crate::shm::own;

/// The bytes in a frame that name one piece of lent memory.
pub(crate) const LENT_BYTES: usize = 16;
/// The number of pieces of a lent message at most.
pub(crate) const MAX_LENT: usize = 8;
/// The bytes that are copied out of the lane at a time where a slice is needed.
const PIECE_BYTES: usize = 1024;

/// A piece of a lent message: an object of the sender and an offset. From a sender in this process it is the local key
/// and the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LentPiece {
    pub(crate) object: u32,
    pub(crate) len_bytes: u32,
    pub(crate) offset: u64,
}

impl LentPiece {
    pub(crate) fn encode(self) -> [u8; LENT_BYTES] {
        let mut bytes = [0; LENT_BYTES];
        bytes[..4].copy_from_slice(&self.object.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; LENT_BYTES]) -> LentPiece {
        let [a, b, c, d, e, f, g, h, offset @ ..] = bytes;
        LentPiece {
            object: u32::from_le_bytes([a, b, c, d]),
            len_bytes: u32::from_le_bytes([e, f, g, h]),
            offset: u64::from_le_bytes(offset),
        }
    }
}

/// The rest of a frame whose head was copied out.
pub(crate) struct FrameBody<'a> {
    link: &'a ShmLink,
    memory: &'a Registry,
    /// After the head.
    bytes: Span<'a>,
    /// The pieces of a lent message, copied out once.
    lent: [LentPiece; MAX_LENT],
    pieces: usize,
    is_lent: bool,
}

impl<'a> FrameBody<'a> {
    /// The body of a frame, whose bytes start with the head. `None` if it lends impossible pieces.
    #[inline]
    pub(crate) fn new(
        link: &'a ShmLink,
        memory: &'a Registry,
        head: &FrameHead,
        frame: Span<'a>,
    ) -> Option<FrameBody<'a>> {
        let bytes = frame.part(HEAD_BYTES, frame.len_bytes() - HEAD_BYTES)?;
        let nothing = LentPiece { object: 0, len_bytes: 0, offset: 0 };
        let is_lent = head.flags.contains(FrameFlags::LENT);
        let mut body = FrameBody { link, memory, bytes, lent: [nothing; MAX_LENT], pieces: 0, is_lent };
        if is_lent {
            body.read_lent(head)?;
        }
        Some(body)
    }

    fn read_lent(&mut self, head: &FrameHead) -> Option<()> {
        let pieces = self.bytes.len_bytes() / LENT_BYTES;
        if pieces > MAX_LENT || self.bytes.len_bytes() % LENT_BYTES != 0 {
            return None;
        }
        let mut sum = 0u64;
        for (index, lent) in self.lent[..pieces].iter_mut().enumerate() {
            let mut bytes = [0; LENT_BYTES];
            self.bytes.part(index * LENT_BYTES, LENT_BYTES)?.read(&mut bytes);
            *lent = LentPiece::decode(bytes);
            sum += u64::from(lent.len_bytes);
        }
        self.pieces = pieces;
        (sum == u64::from(head.len_bytes)).then_some(())
    }

    /// Calls `copy` with every piece of the lent message and its offset in it.
    fn each_lent(&self, mut copy: impl FnMut(u64, Span<'_>) -> Result<(), ShmError>) -> Result<(), ShmError> {
        let mut at = 0;
        for lent in &self.lent[..self.pieces] {
            if self.link.is_own() {
                copy(at, own::borrowed(self.memory, lent)?.span())?;
                at += u64::from(lent.len_bytes);
                continue;
            }
            let object = self.link.object(lent.object).ok_or(ShmError::NeedsFrame)?;
            let offset = usize::try_from(lent.offset).map_err(|_| ShmError::NeedsFrame)?;
            let span = object.span().part(offset, lent.len_bytes as usize).ok_or(ShmError::NeedsFrame)?;
            copy(at, span)?;
            at += u64::from(lent.len_bytes);
        }
        Ok(())
    }

    /// Copies bytes of the message out, from `offset` behind `prefix` on. False if they cannot be reached.
    pub(crate) fn copy_out(&self, prefix: usize, offset: u32, out: &mut [u8]) -> bool {
        if !self.is_lent {
            let bytes = self.after(prefix).and_then(|bytes| bytes.part(offset as usize, out.len()));
            return bytes.map(|bytes| bytes.read(out)).is_some();
        }
        let (start, end) = (u64::from(offset), u64::from(offset) + out.len() as u64);
        let copied = self.each_lent(|at, span| {
            let from = start.max(at);
            let to = end.min(at + span.len_bytes() as u64);
            if from < to {
                let piece = span.part((from - at) as usize, (to - from) as usize).ok_or(ShmError::NeedsFrame)?;
                piece.read(&mut out[(from - start) as usize..(to - start) as usize]);
            }
            Ok(())
        });
        copied.is_ok()
    }

    fn after(&self, prefix: usize) -> Option<Span<'a>> {
        self.bytes.part(prefix, self.bytes.len_bytes().checked_sub(prefix)?)
    }
}

impl ReceivedBody for FrameBody<'_> {
    type Memory = Registry;

    #[inline]
    fn len_bytes(&self, prefix: usize) -> u32 {
        match self.is_lent {
            true => self.lent[..self.pieces].iter().map(|lent| lent.len_bytes).sum(),
            false => self.bytes.len_bytes().saturating_sub(prefix) as u32,
        }
    }

    fn front(&self, out: &mut [u8]) {
        let len = out.len().min(self.bytes.len_bytes());
        out[len..].fill(0);
        if let Some(front) = self.bytes.part(0, len) {
            front.read(&mut out[..len]);
        }
    }

    #[inline]
    fn scatter(&self, memory: &Registry, prefix: usize, pd: PdId, sgl: &[Sge], offset: u64) -> Result<(), ShmError> {
        if self.is_lent {
            return self.each_lent(|at, span| memory.scatter_from(pd, sgl, offset + at, span).map_err(ShmError::Local));
        }
        let bytes = self.after(prefix).ok_or(ShmError::NeedsFrame)?;
        memory.scatter_from(pd, sgl, offset, bytes).map_err(ShmError::Local)
    }

    fn write(&self, memory: &Registry, prefix: usize, who: Accessor, to: RemoteAddr) -> Result<(), ShmError> {
        let all = self.after(prefix).ok_or(ShmError::NeedsFrame)?;
        let mut at = 0;
        while at < all.len_bytes() {
            let mut piece = [0; PIECE_BYTES];
            let piece = &mut piece[..PIECE_BYTES.min(all.len_bytes() - at)];
            all.part(at, piece.len()).ok_or(ShmError::NeedsFrame)?.read(piece);
            let addr = to.addr.wrapping_add(at as u64);
            memory.remote_write(who, to.rkey, addr, piece).map_err(ShmError::Local)?;
            at += piece.len();
        }
        Ok(())
    }
}
