//! The length of messages.

use faults::Rng;

use crate::rng::pick;

/// A mixture of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// A few bytes, often none.
    Tiny,
    /// Around multiples of the MTU.
    Edges,
    /// Everything up to the longest, short ones more often.
    Spread,
    /// Long ones.
    Bulk,
    /// Always the longest.
    Fixed,
}

/// Lengths of the messages of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// The mixture.
    pub profile: Profile,
    /// Longest SEND.
    pub max_send_bytes: u32,
    /// Longest WRITE or READ.
    pub max_rdma_bytes: u32,
}

impl Sizes {
    /// A length of at most `max_bytes`.
    pub(crate) fn draw(&self, rng: &mut Rng, mtu_bytes: u32, max_bytes: u32) -> u32 {
        let len_bytes = match self.profile {
            Profile::Tiny => tiny(rng),
            Profile::Edges => edge(rng, mtu_bytes),
            Profile::Fixed => max_bytes,
            Profile::Spread => match rng.below(4) {
                0 => tiny(rng),
                1 => edge(rng, mtu_bytes),
                _ => spread(rng, max_bytes),
            },
            Profile::Bulk => match rng.below(8) {
                0 => edge(rng, mtu_bytes),
                _ => rng.range(u64::from(max_bytes / 4)..=u64::from(max_bytes)) as u32,
            },
        };
        len_bytes.min(max_bytes)
    }
}

fn tiny(rng: &mut Rng) -> u32 {
    pick(rng, &[0, 0, 1, 2, 3, 4, 7, 8, 9, 16, 33, 64])
}

/// Just below, at or just above a small multiple of the MTU.
fn edge(rng: &mut Rng, mtu_bytes: u32) -> u32 {
    let multiple = pick(rng, &[0, 1, 1, 1, 2, 2, 3, 5, 16]);
    let base = multiple * mtu_bytes;
    match rng.below(3) {
        0 => base.saturating_sub(1),
        1 => base,
        _ => base + 1,
    }
}

/// Each order of magnitude is equally likely.
fn spread(rng: &mut Rng, max_bytes: u32) -> u32 {
    let magnitude = rng.below(u64::from(max_bytes.max(2).ilog2()) + 1);
    rng.range(0..=(2u64 << magnitude).min(u64::from(max_bytes))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw_many(profile: Profile) -> Vec<u32> {
        let sizes = Sizes { profile, max_send_bytes: 0, max_rdma_bytes: 0 };
        let mut rng = Rng::new(1);
        (0..2000).map(|_| sizes.draw(&mut rng, 1024, 100_000)).collect()
    }

    #[test]
    fn edges_lie_around_the_mtu() {
        let drawn = draw_many(Profile::Edges);
        for wanted in [0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 16 * 1024 + 1] {
            assert!(drawn.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn nothing_is_longer_than_the_longest() {
        for profile in [Profile::Tiny, Profile::Edges, Profile::Spread, Profile::Bulk] {
            let drawn = draw_many(profile);
            assert!(drawn.iter().all(|len| *len <= 100_000), "{profile:?}");
        }
        assert!(draw_many(Profile::Bulk).iter().any(|len| *len > 90_000));
        assert!(draw_many(Profile::Spread).iter().any(|len| *len > 50_000));
    }
}
