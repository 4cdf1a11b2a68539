//! Memory of a peer that is not mapped here: the kernel copies it, in pieces.

use std::cell::RefCell;
use std::io;

use memory::{Registry, Span};
use shm::Peer;
use transport::shm::path::ShmError;
use transport::{Memory, MemoryError, Payload, PdId, Sge};

/// The bytes of a piece: enough to make the system call worthwhile, and few enough for the cache.
const PIECE_BYTES: usize = 64 << 10;

thread_local! {
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Copies a payload of ours to an address of the peer.
pub(crate) fn write(
    peer: &Peer,
    address: u64,
    memory: &Registry,
    pd: PdId,
    payload: &Payload,
    len_bytes: usize,
) -> Result<(), ShmError> {
    in_pieces(len_bytes, |at, piece| {
        match payload {
            Payload::Call(_) => return Err(ShmError::NeedsFrame),
            Payload::Inline(bytes) => piece.copy_from_slice(bytes.get(at..at + piece.len()).ok_or(BAD_LIST)?),
            Payload::Sgl(sgl) => memory.gather(pd, sgl, at as u64, piece).map_err(ShmError::Local)?,
        }
        peer.write_far(address.wrapping_add(at as u64), span(piece)).map_err(remote)
    })
}

/// Copies from an address of the peer to a list of ours.
pub(crate) fn read(
    peer: &Peer,
    address: u64,
    memory: &Registry,
    pd: PdId,
    sgl: &[Sge],
    offset: u64,
    len_bytes: usize,
) -> Result<(), ShmError> {
    in_pieces(len_bytes, |at, piece| {
        peer.read_far(address.wrapping_add(at as u64), span(piece)).map_err(remote)?;
        memory.scatter(pd, sgl, offset + at as u64, piece).map_err(ShmError::Local)
    })
}

const BAD_LIST: ShmError = ShmError::Local(MemoryError::OutOfBounds);

fn in_pieces(len_bytes: usize, mut copy: impl FnMut(usize, &mut [u8]) -> Result<(), ShmError>) -> Result<(), ShmError> {
    PIECE.with_borrow_mut(|buffer| {
        buffer.resize(PIECE_BYTES, 0);
        let mut at = 0;
        while at < len_bytes {
            let piece = &mut buffer[..PIECE_BYTES.min(len_bytes - at)];
            copy(at, piece)?;
            at += piece.len();
        }
        Ok(())
    })
}

/// The bytes of a piece as the kernel's copy sees them.
fn span(piece: &mut [u8]) -> Span<'_> {
    Span::from_mut(piece)
}

fn remote(error: io::Error) -> ShmError {
    match error.kind() {
        io::ErrorKind::NotConnected => ShmError::PeerDead,
        // The kernel refuses access to it: frames bring the whole request again.
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied => ShmError::NeedsFrame,
        _ => ShmError::Remote(MemoryError::Unmapped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_may_not_be_reached_is_reached_by_frames() {
        let refused = |errno| remote(io::Error::from_raw_os_error(errno));
        assert!(matches!(refused(libc::EPERM), ShmError::NeedsFrame));
        assert!(matches!(refused(libc::EFAULT), ShmError::Remote(MemoryError::Unmapped)));
    }
}
