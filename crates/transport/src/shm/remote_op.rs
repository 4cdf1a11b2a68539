//! One-sided operations without bulk data: atomics, ATOMIC WRITE, FLUSH.

use wire::{FlushLevel, FlushPlacement, RKey};

use crate::memory::{Access, Accessor, AtomicOp, Memory, MemoryError};
use crate::wr::SendOp;

/// Bytes of a remote operation in a frame.
pub const REMOTE_OP_BYTES: usize = 32;

/// A remote operation without its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteOp {
    /// An atomic on eight bytes.
    Atomic(u64, AtomicOp),
    /// Eight bytes in one store.
    Write(u64, [u8; 8]),
    /// FLUSH of a range, or of everything under the key.
    Flush {
        /// The range: address and length.
        range: Option<(u64, u64)>,
        /// The rights that it takes.
        access: Access,
    },
}

impl RemoteOp {
    /// The operation of a work request, with its key. `value` is the payload of an ATOMIC WRITE.
    pub(crate) fn of(op: &SendOp, value: [u8; 8]) -> Option<(RemoteOp, RKey)> {
        match *op {
            SendOp::Atomic(remote, op) => Some((RemoteOp::Atomic(remote.addr, op), remote.rkey)),
            SendOp::AtomicWrite(remote) => Some((RemoteOp::Write(remote.addr, value), remote.rkey)),
            SendOp::Flush { remote, len_bytes, placement, level } => {
                let range = (level == FlushLevel::RANGE).then_some((remote.addr, u64::from(len_bytes)));
                Some((RemoteOp::Flush { range, access: flush_access(placement) }, remote.rkey))
            }
            _ => None,
        }
    }

    /// The right of the queue pair that it takes.
    pub fn access(&self) -> Access {
        match self {
            RemoteOp::Atomic(..) => Access::REMOTE_ATOMIC,
            RemoteOp::Write(..) => Access::REMOTE_WRITE,
            RemoteOp::Flush { access, .. } => *access,
        }
    }

    /// Executes it on memory of ours. Returns the old value, if it is an atomic.
    ///
    /// # Errors
    /// If the key does not allow it.
    pub fn execute<M: Memory + ?Sized>(&self, memory: &M, who: Accessor, rkey: RKey) -> Result<u64, MemoryError> {
        match *self {
            RemoteOp::Atomic(addr, op) => memory.remote_atomic(who, rkey, addr, op),
            RemoteOp::Write(addr, value) => memory.remote_atomic_write(who, rkey, addr, value).map(|()| 0),
            RemoteOp::Flush { range, access } => memory.remote_flush(who, rkey, range, access).map(|()| 0),
        }
    }

    /// The bytes of a frame's body.
    pub(crate) fn encode(&self) -> [u8; REMOTE_OP_BYTES] {
        let words = match *self {
            RemoteOp::Atomic(addr, AtomicOp::CompareSwap { compare, swap }) => [1, addr, compare, swap],
            RemoteOp::Atomic(addr, AtomicOp::FetchAdd { add }) => [2, addr, add, 0],
            RemoteOp::Write(addr, value) => [3, addr, u64::from_le_bytes(value), 0],
            RemoteOp::Flush { range: Some((addr, len)), access } => [4 | u64::from(access.bits()) << 8, addr, len, 0],
            RemoteOp::Flush { range: None, access } => [5 | u64::from(access.bits()) << 8, 0, 0, 0],
        };
        let mut bytes = [0; REMOTE_OP_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// The operation from the bytes of a frame's body; `None` if they are not valid.
    pub(crate) fn decode(bytes: &[u8; REMOTE_OP_BYTES]) -> Option<RemoteOp> {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [what, addr, a, b] = words;
        let access = Access::from_bits((what >> 8) as u32);
        let flush = |range| access.filter(|access| is_flush(*access)).map(|access| RemoteOp::Flush { range, access });
        match what & 0xff {
            1 => Some(RemoteOp::Atomic(addr, AtomicOp::CompareSwap { compare: a, swap: b })),
            2 => Some(RemoteOp::Atomic(addr, AtomicOp::FetchAdd { add: a })),
            3 => Some(RemoteOp::Write(addr, a.to_le_bytes())),
            4 => flush(Some((addr, a))),
            5 => flush(None),
            _ => None,
        }
    }
}

const FLUSH_RIGHTS: Access = Access::FLUSH_GLOBAL.union(Access::FLUSH_PERSISTENT);

fn is_flush(access: Access) -> bool {
    !access.is_empty() && FLUSH_RIGHTS.contains(access)
}

fn flush_access(placement: FlushPlacement) -> Access {
    let mut access = Access::empty();
    access.set(Access::FLUSH_GLOBAL, placement.contains(FlushPlacement::GLOBAL));
    access.set(Access::FLUSH_PERSISTENT, placement.contains(FlushPlacement::PERSISTENT));
    access
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errands_are_their_bytes() {
        let all = [
            RemoteOp::Atomic(8, AtomicOp::CompareSwap { compare: 1, swap: 2 }),
            RemoteOp::Atomic(16, AtomicOp::FetchAdd { add: u64::MAX }),
            RemoteOp::Write(24, [1, 2, 3, 4, 5, 6, 7, 8]),
            RemoteOp::Flush { range: Some((1, 2)), access: Access::FLUSH_GLOBAL },
            RemoteOp::Flush { range: None, access: FLUSH_RIGHTS },
        ];
        for remote_op in all {
            assert_eq!(RemoteOp::decode(&remote_op.encode()), Some(remote_op));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let mut bytes = [0; REMOTE_OP_BYTES];
        for what in [0u64, 6, 4, 5, 4 | u64::from(Access::REMOTE_WRITE.bits()) << 8, u64::MAX] {
            bytes[..8].copy_from_slice(&what.to_le_bytes());
            assert_eq!(RemoteOp::decode(&bytes), None, "{what:#x}");
        }
    }
}
