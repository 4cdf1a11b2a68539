//! Errors of a table's owner.

use crate::allocator::NoRoom;
use crate::layout::TableFull;
use crate::object::{MAX_KEY_BYTES, MAX_VALUE_BYTES, ObjectHeader};

/// The reason why the owner of a table could not change it. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The memory has no room.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The slots are full, and the table must not grow.
    #[error(transparent)]
    Full(#[from] TableFull),
    /// The key is too long.
    #[error("a key has at most {MAX_KEY_BYTES} bytes, not {0}")]
    KeyTooLong(usize),
    /// The value is too long.
    #[error("a value has at most {MAX_VALUE_BYTES} bytes, not {0}")]
    ValueTooLong(usize),
    /// A peer has the lock of the object. Its lease decides how long.
    #[error("writer {} has the lock of the object", .0.holder())]
    Locked(ObjectHeader),
    /// The object has another version than the caller expects, or is absent.
    #[error("the object has another version: {0:?}")]
    OtherVersion(Option<ObjectHeader>),
    /// The memory is too short for a table.
    #[error("a table needs more than {0} bytes")]
    TooShort(u64),
    /// The index changed under the owner's hands: a peer with the right to write has broken it.
    #[error("the slots of the table lead to no object: a peer has overwritten them")]
    Broken,
}
