//! Memory with one owner: ordinary bytes, until they are lent to queue pairs.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::owned::OwnedMemory;
use crate::region::Region;

/// A range of a [`Region`] that belongs to the holder of this value, as plain bytes.
///
/// A region is cut into pieces that never overlap, so a `&mut [u8]` of a piece is as exclusive as that of a
/// `Vec`. The region is unmapped when its last piece and all other references to it are gone.
#[derive(Debug)]
pub struct Piece {
    region: Arc<Region>,
    offset: usize,
    len_bytes: usize,
}

impl Piece {
    /// A new region of zeros, as one piece.
    ///
    /// # Errors
    /// As [`Region::allocate`].
    pub fn allocate(len_bytes: u64) -> io::Result<Piece> {
        let region = Arc::new(Region::allocate(len_bytes)?);
        let len_bytes = region.span().len_bytes();
        Ok(Piece { region, offset: 0, len_bytes })
    }

    /// Memory that the program gives, as one piece.
    ///
    /// # Errors
    /// As [`Region::of_owner`].
    pub fn of_owner(memory: impl OwnedMemory) -> io::Result<Piece> {
        let region = Arc::new(Region::of_owner(memory)?);
        let len_bytes = region.span().len_bytes();
        Ok(Piece { region, offset: 0, len_bytes })
    }

    /// The region of this piece, to register it.
    ///
    /// # Safety
    /// Accesses through the region are spans of it and work requests that name it. They may touch the bytes of a
    /// piece only while no reference to these bytes is in use. In practice the
    /// owner sets the piece aside while a work request runs.
    pub unsafe fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// True if the program gave the memory as a value of this type.
    pub fn was_given_as<M: OwnedMemory>(&self) -> bool {
        self.region.was_given_as::<M>()
    }

    /// The value that the program gave, if this is the last piece and nothing is registered.
    ///
    /// # Errors
    /// As [`Region::into_owner`].
    pub fn into_owner<M: OwnedMemory>(self) -> Result<M, Piece> {
        let Piece { region, offset, len_bytes } = self;
        Region::into_owner(region).map_err(|region| Piece { region, offset, len_bytes })
    }

    /// The offset of the piece in its region, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Splits the piece at `at` and returns the rest.
    ///
    /// # Panics
    /// If `at` lies beyond the end.
    #[must_use = "the part cut off is gone with this value"]
    pub fn split_off(&mut self, at: usize) -> Piece {
        assert!(at <= self.len_bytes, "a piece is cut within its length");
        let rest = Piece { region: Arc::clone(&self.region), offset: self.offset + at, len_bytes: self.len_bytes - at };
        self.len_bytes = at;
        rest
    }

    /// Joins a piece to the one that directly follows it. Returns both if `next` does not follow.
    pub fn join(self, next: Piece) -> Result<Piece, (Piece, Piece)> {
        let same = Arc::ptr_eq(&self.region, &next.region);
        if !same || self.offset + self.len_bytes != next.offset {
            return Err((self, next));
        }
        Ok(Piece { len_bytes: self.len_bytes + next.len_bytes, ..self })
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the region stays mapped while it lives; the range lies inside by construction and is always
        // initialised (zeros at first). Pieces do not overlap, and the contract of `region` keeps other
        // accesses apart from references, so nobody writes it now.
        unsafe { core::slice::from_raw_parts(self.region.ptr().add(self.offset), self.len_bytes) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped, inside the region and initialised, as in `deref`; and `&mut self` makes this the
        // only reference.
        unsafe { core::slice::from_raw_parts_mut(self.region.ptr().add(self.offset), self.len_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_memory_of_their_own() {
        let mut front = Piece::allocate(100).unwrap();
        assert!(front.iter().all(|b| *b == 0));
        let mut back = front.split_off(40);
        front.fill(1);
        back.fill(2);
        assert_eq!((front.len(), back.len(), back.offset()), (40, 60, 40));
        assert!(front.iter().all(|b| *b == 1) && back.iter().all(|b| *b == 2));
    }

    #[test]
    fn neighbours_join_and_strangers_do_not() {
        let mut front = Piece::allocate(64).unwrap();
        let back = front.split_off(16);
        let (back, front) = back.join(front).expect_err("the wrong way round");
        let whole = front.join(back).unwrap();
        assert_eq!((whole.offset(), whole.len()), (0, 64));
        let other = Piece::allocate(64).unwrap();
        assert!(whole.join(other).is_err());
    }

    #[test]
    fn given_memory_comes_back_to_its_owner_only_once_nobody_has_a_part() {
        let given = vec![1, 2, 3, 4];
        let place = given.as_ptr();
        let mut front = Piece::of_owner(given).unwrap();
        front[0] = 9;
        let back = front.split_off(2);
        let front = front.into_owner::<Vec<u8>>().expect_err("there is another piece");
        drop(back);
        let front = front.into_owner::<Box<[u8]>>().expect_err("it was a vector");
        let again = front.into_owner::<Vec<u8>>().unwrap();
        assert_eq!((again.as_ptr(), &again[..]), (place, &[9, 2, 3, 4][..]));
        assert!(Piece::allocate(8).unwrap().into_owner::<Vec<u8>>().is_err(), "nobody gave it");
    }

    #[test]
    fn the_region_lives_as_long_as_its_last_piece() {
        let mut front = Piece::allocate(1 << 16).unwrap();
        let mut back = front.split_off(1 << 15);
        drop(front);
        back.fill(7);
        assert_eq!(back[(1 << 15) - 1], 7);
    }

    #[test]
    #[should_panic(expected = "within its length")]
    fn a_cut_beyond_the_end_is_refused() {
        let _ = Piece::allocate(8).unwrap().split_off(9);
    }
}
