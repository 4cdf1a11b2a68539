//! Errors of taking memory back.

use std::fmt;

/// The reason why given memory does not come back. It has the [`Buffer`](crate::Buffer) or the
/// [`MemoryRegion`](crate::MemoryRegion) again, which is as it was.
#[non_exhaustive]
pub enum ReclaimError<T> {
    /// Something else uses the memory, too: a part that was cut off, a slice, a window, a request.
    InUse(T),
    /// The memory was given as a value of another type, or the library allocated it.
    OtherType(T),
    /// The device did not deregister the memory, and keeps it.
    Kept,
}

impl<T> ReclaimError<T> {
    /// The buffer or region.
    pub fn into_inner(self) -> Option<T> {
        match self {
            ReclaimError::InUse(inner) | ReclaimError::OtherType(inner) => Some(inner),
            ReclaimError::Kept => None,
        }
    }
}

impl<T> fmt::Display for ReclaimError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReclaimError::InUse(_) => "something else uses the memory: a part cut off, a slice, a window or a request",
            ReclaimError::OtherType(_) => {
                "the memory was given as a value of another type, or the library allocated it"
            }
            ReclaimError::Kept => "the device did not deregister the memory, and keeps it",
        })
    }
}

impl<T> fmt::Debug for ReclaimError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReclaimError({self})")
    }
}

impl<T> std::error::Error for ReclaimError<T> {}
