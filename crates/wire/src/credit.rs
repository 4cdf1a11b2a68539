//! End-to-end credits: the 5-bit code in which an ACK tells how many receive WQEs are
//! posted (IB specification 9.7.7.2).

/// The code for "no end-to-end flow control": the requester sends without counting credits.
pub const CREDIT_CODE_UNLIMITED: u8 = 31;

/// Credits of the codes 0 to 30, about two codes for each power of two.
const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
    8192, 12288, 16384, 24576, 32768,
];

/// The code of the largest number of credits that does not exceed `count`: a responder
/// must not promise more receive WQEs than it has.
pub fn credit_code(count: u32) -> u8 {
    (CREDITS.partition_point(|&credits| credits <= count) - 1) as u8
}

/// The number of credits that a code grants; `None` for [`CREDIT_CODE_UNLIMITED`]. Only the low 5 bits count.
#[inline]
pub fn credit_count(code: u8) -> Option<u32> {
    CREDITS.get(usize::from(code & 0x1f)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_counts_are_inverse() {
        for code in 0..CREDIT_CODE_UNLIMITED {
            let count = credit_count(code).expect("31 codes have a count");
            assert_eq!(credit_code(count), code);
        }
        assert_eq!(credit_count(CREDIT_CODE_UNLIMITED), None);
    }

    #[test]
    fn a_code_never_promises_too_much() {
        for count in 0..100_000 {
            let code = credit_code(count);
            assert!(credit_count(code).is_some_and(|promised| promised <= count));
            assert!(credit_count(code + 1).is_none_or(|next| next > count));
        }
        assert_eq!(credit_code(u32::MAX), 30);
    }

    #[test]
    fn steps_follow_the_powers_of_two() {
        for code in 4..30 {
            let (here, next) = (CREDITS[code], CREDITS[code + 1]);
            let step = if here.is_power_of_two() { here / 2 } else { here / 3 };
            assert_eq!(next - here, step, "after code {code}");
        }
    }
}
