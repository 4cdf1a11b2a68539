//! Unpredictable numbers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 64 random bits: the standard library seeds its hashers from the system's generator, and a keyed
/// hash of nothing is as unpredictable as its key.
pub(crate) fn word() -> u64 {
    RandomState::new().build_hasher().finish()
}
