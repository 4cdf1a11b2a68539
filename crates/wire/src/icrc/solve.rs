//! Solves for the IPv4 identification of a packet. This works because CRC is linear.
//!
//! If two packets differ in the identification alone, their ICRCs differ by
//! `d(x) · x^(32 + 8n) mod P`. The polynomial `d` of 16 coefficients is the difference of the
//! identifications, `n` counts the bytes after it, and `P` is the CRC's polynomial. `x` has an
//! inverse modulo `P`, so `d` is the difference of the ICRCs times `x^-(32 + 8n)`. If that product
//! has more than 16 coefficients, the difference has another cause.
//!
//! Polynomials are written as the CRC writes them, reflected: bit 31 is the
//! coefficient of `x^0`, bit 0 that of `x^31`.

/// The polynomial of CRC-32 without its `x^32`, reflected.
const P: u32 = 0xedb8_8320;

/// `x^0`.
const ONE: u32 = 1 << 31;

/// `x^-(32 + 8i)`.
static INVERSE_NEAR: [u32; 256] = powers(divide_by_x(ONE, 32), 8);

/// `x^-(8 · 256 · i)`.
static INVERSE_FAR: [u32; 256] = powers(ONE, 8 * 256);

/// The bits of the identification that must flip to explain `difference` of the ICRCs, if
/// `bytes_after` bytes follow the identification in the packet. Packets beyond 64 KiB do not exist.
pub(super) fn identification_difference(difference: u32, bytes_after: usize) -> Option<u16> {
    let [near, far] = u16::try_from(bytes_after).ok()?.to_le_bytes();
    let shift = multiply(INVERSE_NEAR[usize::from(near)], INVERSE_FAR[usize::from(far)]);
    let d = multiply(difference, shift);
    // x^0 to x^15 are the high half. The first byte's lowest bit goes first, as x^15.
    (d & 0xffff == 0).then_some(((d >> 16) as u16).swap_bytes())
}

/// The change that an identification other than 0 makes to the CRC, if `bytes_after` bytes follow it.
pub(super) const fn of_identification(identification: u16, bytes_after: usize) -> u32 {
    let mut change = (identification.swap_bytes() as u32) << 16;
    let mut times = 32 + 8 * bytes_after;
    while times > 0 {
        change = change >> 1 ^ P & (change & 1).wrapping_neg();
        times -= 1;
    }
    change
}

/// The product of two polynomials modulo `P`.
const fn multiply(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut power = b;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= power & (a >> bit & 1).wrapping_neg();
        power = power >> 1 ^ P & (power & 1).wrapping_neg();
    }
    product
}

/// `p · x^-times` modulo `P`.
const fn divide_by_x(p: u32, times: u32) -> u32 {
    let mut p = p;
    let mut time = 0;
    while time < times {
        p = if p & ONE == 0 { p << 1 } else { (p ^ P) << 1 | 1 };
        time += 1;
    }
    p
}

/// `first · x^-(step · i)` for `i` from 0.
const fn powers(first: u32, step: u32) -> [u32; 256] {
    let factor = divide_by_x(ONE, step);
    let mut powers = [first; 256];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = multiply(powers[i - 1], factor);
        i += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_is_a_field_s() {
        let (a, b, c) = (0x1234_5678, 0x9abc_def0, 0x0fed_cba9);
        assert_eq!(multiply(a, ONE), a);
        assert_eq!(multiply(a, b), multiply(b, a));
        assert_eq!(multiply(multiply(a, b), c), multiply(a, multiply(b, c)));
        assert_eq!(multiply(a, b ^ c), multiply(a, b) ^ multiply(a, c));
    }

    #[test]
    fn division_undoes_multiplication() {
        let x = ONE >> 1;
        let mut p = 0xdead_beef;
        for times in 0..100 {
            assert_eq!(divide_by_x(p, times), 0xdead_beef, "{times} times");
            p = multiply(p, x);
        }
    }

    /// Compares with the definition: runs the CRC over the two bytes and the zeros after them.
    #[test]
    fn every_bit_of_the_identification_is_solved() {
        for bytes_after in [0, 1, 22, 34, 255, 256, 257, 4170, 65_535] {
            for flipped in (0..16).map(|bit| 1u16 << bit).chain([0xffff, 0xa5c3]) {
                let difference = crc_difference(flipped, bytes_after);
                assert_eq!(identification_difference(difference, bytes_after), Some(flipped));
                assert_eq!(of_identification(flipped, bytes_after), difference);
                assert_ne!(
                    identification_difference(difference, (bytes_after + 4) & 0xffff),
                    Some(flipped),
                    "the distance matters"
                );
            }
        }
        assert_eq!(identification_difference(1, 65_536), None);
    }

    /// A flipped bit elsewhere in the packet never passes as an identification. The test covers the header
    /// words and the ones before it (`x^16` and up), and 16 KiB after it (`x^-1` and down).
    #[test]
    fn no_single_bit_elsewhere_looks_like_an_identification() {
        let x = ONE >> 1;
        let mut before = ONE >> 16;
        for distance in 0..8 * 12 {
            assert_ne!(before & 0xffff, 0, "{distance} bits before");
            before = multiply(before, x);
        }
        let mut after = ONE;
        for distance in 0..8 * 16_384 {
            after = divide_by_x(after, 1);
            assert_ne!(after & 0xffff, 0, "{distance} bits after");
        }
    }

    fn crc_difference(flipped: u16, bytes_after: usize) -> u32 {
        let mut bytes = vec![0; 2 + bytes_after];
        let zeros = crc32fast::hash(&bytes);
        bytes[..2].copy_from_slice(&flipped.to_be_bytes());
        crc32fast::hash(&bytes) ^ zeros
    }
}
