//! Requests of a few words: atomics, ATOMIC WRITE, FLUSH.

use wire::{FlushLevel, FlushPlacement, RKey};

use crate::memory::{Access, Accessor, AtomicOp, Memory, MemoryError};
use crate::wr::SendOp;

/// Bytes of an errand in a frame.
pub const ERRAND_BYTES: usize = 32;

/// What is to be done, but for the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
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

impl Errand {
    /// What a work request asks for, with its key. `value` is the payload of an ATOMIC WRITE.
    pub(crate) fn of(op: &SendOp, value: [u8; 8]) -> Option<(Errand, RKey)> {
        match *op {
            SendOp::Atomic(remote, op) => Some((Errand::Atomic(remote.addr, op), remote.rkey)),
            SendOp::AtomicWrite(remote) => Some((Errand::Write(remote.addr, value), remote.rkey)),
            SendOp::Flush { remote, len_bytes, placement, level } => {
                let range = (level == FlushLevel::RANGE).then_some((remote.addr, u64::from(len_bytes)));
                Some((Errand::Flush { range, access: flush_access(placement) }, remote.rkey))
            }
            _ => None,
        }
    }

    /// The right of the queue pair that it takes.
    pub fn access(&self) -> Access {
        match self {
            Errand::Atomic(..) => Access::REMOTE_ATOMIC,
            Errand::Write(..) => Access::REMOTE_WRITE,
            Errand::Flush { access, .. } => *access,
        }
    }

    /// Does it on memory of ours.
    ///
    /// # Errors
    /// If the key does not allow it.
    pub fn carry_out<M: Memory + ?Sized>(&self, memory: &M, who: Accessor, rkey: RKey) -> Result<u64, MemoryError> {
        match *self {
            Errand::Atomic(addr, op) => memory.remote_atomic(who, rkey, addr, op),
            Errand::Write(addr, value) => memory.remote_atomic_write(who, rkey, addr, value).map(|()| 0),
            Errand::Flush { range, access } => memory.remote_flush(who, rkey, range, access).map(|()| 0),
        }
    }

    /// As bytes of a frame.
    pub(crate) fn encode(&self) -> [u8; ERRAND_BYTES] {
        let words = match *self {
            Errand::Atomic(addr, AtomicOp::CompareSwap { compare, swap }) => [1, addr, compare, swap],
            Errand::Atomic(addr, AtomicOp::FetchAdd { add }) => [2, addr, add, 0],
            Errand::Write(addr, value) => [3, addr, u64::from_le_bytes(value), 0],
            Errand::Flush { range: Some((addr, len)), access } => [4 | u64::from(access.bits()) << 8, addr, len, 0],
            Errand::Flush { range: None, access } => [5 | u64::from(access.bits()) << 8, 0, 0, 0],
        };
        let mut bytes = [0; ERRAND_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// From bytes of a frame; nothing if they are none.
    pub(crate) fn decode(bytes: &[u8; ERRAND_BYTES]) -> Option<Errand> {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [what, addr, a, b] = words;
        let access = Access::from_bits((what >> 8) as u32);
        let flush = |range| access.filter(|access| is_flush(*access)).map(|access| Errand::Flush { range, access });
        match what & 0xff {
            1 => Some(Errand::Atomic(addr, AtomicOp::CompareSwap { compare: a, swap: b })),
            2 => Some(Errand::Atomic(addr, AtomicOp::FetchAdd { add: a })),
            3 => Some(Errand::Write(addr, a.to_le_bytes())),
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
            Errand::Atomic(8, AtomicOp::CompareSwap { compare: 1, swap: 2 }),
            Errand::Atomic(16, AtomicOp::FetchAdd { add: u64::MAX }),
            Errand::Write(24, [1, 2, 3, 4, 5, 6, 7, 8]),
            Errand::Flush { range: Some((1, 2)), access: Access::FLUSH_GLOBAL },
            Errand::Flush { range: None, access: FLUSH_RIGHTS },
        ];
        for errand in all {
            assert_eq!(Errand::decode(&errand.encode()), Some(errand));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let mut bytes = [0; ERRAND_BYTES];
        for what in [0u64, 6, 4, 5, 4 | u64::from(Access::REMOTE_WRITE.bits()) << 8, u64::MAX] {
            bytes[..8].copy_from_slice(&what.to_le_bytes());
            assert_eq!(Errand::decode(&bytes), None, "{what:#x}");
        }
    }
}
