//! Big-endian fields at fixed offsets of an array. The offsets are constants of this
//! crate, never a peer's choice. An access past the end is a bug that the tests show.

/// The `N` bytes at `at`.
#[inline(always)]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// The 16-bit field at `at`.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

/// The 24-bit field at `at`.
#[inline(always)]
pub(crate) fn u24_at(bytes: &[u8], at: usize) -> u32 {
    let [a, b, c] = array_at(bytes, at);
    u32::from_be_bytes([0, a, b, c])
}

/// The 32-bit field at `at`.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// The 64-bit field at `at`.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

/// Writes `field` at `at`.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

/// Writes the low 24 bits of `field` at `at`.
#[inline(always)]
pub(crate) fn put_u24(bytes: &mut [u8], at: usize, field: u32) {
    let [_, a, b, c] = field.to_be_bytes();
    put(bytes, at, [a, b, c]);
}
