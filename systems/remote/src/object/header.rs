//! The first word of an object.
//!
//! ```text
//!  63        48 47   46 45          32 31          0
//! | lock holder | state | incarnation  |   version   |
//! ```

use std::fmt;

/// The first word of an object: version, lock, incarnation and state. One store changes all of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ObjectHeader(u64);

/// The part that an object plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ObjectState {
    /// No object: it was deleted or moved, or nothing has been written here yet.
    Dead,
    /// Written, but not yet valid.
    Pending,
    /// The current value of its key. Of one key no two objects are ever live at the same time.
    Live,
}

/// Bits of an incarnation, in headers and in slots.
pub(crate) const INCARNATION_BITS: u32 = 14;
const INCARNATION_MASK: u64 = (1 << INCARNATION_BITS) - 1;

impl ObjectHeader {
    /// A header without a lock.
    pub fn new(state: ObjectState, incarnation: u16, version: u32) -> ObjectHeader {
        let incarnation = u64::from(incarnation) & INCARNATION_MASK;
        ObjectHeader((state as u64) << 46 | incarnation << 32 | u64::from(version))
    }

    /// The header that a word stands for.
    pub fn from_word(word: u64) -> ObjectHeader {
        ObjectHeader(word)
    }

    /// The word for it.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Counts the changes of the object.
    pub fn version(self) -> u32 {
        self.0 as u32
    }

    /// Counts the objects that this table has had: 14 bits.
    pub fn incarnation(self) -> u16 {
        (self.0 >> 32 & INCARNATION_MASK) as u16
    }

    /// The part that the object plays. A number that stands for nothing is [`Dead`](ObjectState::Dead).
    pub fn state(self) -> ObjectState {
        match self.0 >> 46 & 3 {
            1 => ObjectState::Pending,
            2 => ObjectState::Live,
            _ => ObjectState::Dead,
        }
    }

    /// The number of the writer that has the lock; zero if nobody has it.
    pub fn holder(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The same header, locked by `holder`, or unlocked if that is zero.
    #[must_use]
    pub fn held_by(self, holder: u16) -> ObjectHeader {
        ObjectHeader(self.0 & !(0xffff << 48) | u64::from(holder) << 48)
    }

    /// The same header in another state.
    #[must_use]
    pub fn with_state(self, state: ObjectState) -> ObjectHeader {
        ObjectHeader(self.0 & !(3 << 46) | (state as u64) << 46)
    }

    /// The header after the next change, unlocked.
    #[must_use]
    pub fn next(self) -> ObjectHeader {
        ObjectHeader::new(self.state(), self.incarnation(), self.version().wrapping_add(1))
    }

    /// The bits that a check covers: version and incarnation. A lock or a change of state leaves the object whole.
    pub(crate) fn covered(self) -> u64 {
        self.0 & (INCARNATION_MASK << 32 | 0xffff_ffff)
    }
}

impl fmt::Debug for ObjectHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} v{} i{}", self.state(), self.version(), self.incarnation())?;
        if self.holder() == 0 { Ok(()) } else { write!(f, " locked by {}", self.holder()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let header = ObjectHeader::new(ObjectState::Live, 0x3fff, u32::MAX);
        let locked = header.held_by(0xffff);
        assert_eq!((locked.version(), locked.incarnation(), locked.holder()), (u32::MAX, 0x3fff, 0xffff));
        assert_eq!((locked.state(), header.holder()), (ObjectState::Live, 0));
        assert_eq!(locked.with_state(ObjectState::Dead).held_by(0).state(), ObjectState::Dead);
        let next = locked.next();
        assert_eq!(
            (next.version(), next.incarnation(), next.holder(), next.state()),
            (0, 0x3fff, 0, ObjectState::Live)
        );
        assert_eq!(locked.covered(), header.with_state(ObjectState::Pending).covered());
        assert_ne!(next.covered(), header.covered());
        assert_eq!(ObjectHeader::from_word(3 << 46).state(), ObjectState::Dead);
    }
}
