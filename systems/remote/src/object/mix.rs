//! A mixing function.

/// Mixes a word so that each bit of the result depends on all bits. (The finalizer of SplitMix64: Steele, Lea, Flood,
/// OOPSLA 2014.)
pub(crate) fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
