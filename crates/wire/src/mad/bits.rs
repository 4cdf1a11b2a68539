//! Fields of less than a byte. Positions count from the byte's most significant bit, as in
//! the specification.

/// The `width` bits that begin `skip` bits after the most significant one.
#[inline]
pub(crate) const fn get(byte: u8, skip: u32, width: u32) -> u8 {
    byte >> (8 - skip - width) & mask(width)
}

/// The low `width` bits of `value`, moved to their position in a byte.
#[inline]
pub(crate) const fn at(value: u8, skip: u32, width: u32) -> u8 {
    (value & mask(width)) << (8 - skip - width)
}

/// Whether the bit `skip` bits after the most significant one is set.
#[inline]
pub(crate) const fn is_set(byte: u8, skip: u32) -> bool {
    get(byte, skip, 1) != 0
}

/// A flag at its position in a byte.
#[inline]
pub(crate) const fn flag(set: bool, skip: u32) -> u8 {
    at(set as u8, skip, 1)
}

const fn mask(width: u32) -> u8 {
    (0xff_u16 >> (8 - width)) as u8
}
