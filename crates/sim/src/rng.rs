//! Independent streams of randomness, all from one seed.
//!
//! Each part of a run has a stream of its own, so that another draw in one part
//! does not change the others.

use core::time::Duration;

use faults::Rng;
use transport::Time;

/// The part of the simulation that draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    /// The scenario itself.
    Scenario,
    /// Jitter of the direction between two nodes.
    Link(usize, usize),
    /// The faults of the direction between two nodes.
    Faults(usize, usize),
    /// Refused receives of a node.
    Refusals(usize),
    /// The keys of a node's memory.
    Keys(usize),
    /// Layout and first contents of a node's memory.
    Memory(usize),
    /// The application of a queue pair.
    Application(usize),
    /// The times at which a host does things.
    Host,
    /// One part of a run of connection managers.
    Connections(usize),
}

impl Stream {
    fn index(self) -> u64 {
        let (kind, a, b) = match self {
            Stream::Scenario => (0, 0, 0),
            Stream::Link(a, b) => (1, a, b),
            Stream::Faults(a, b) => (2, a, b),
            Stream::Refusals(a) => (3, a, 0),
            Stream::Keys(a) => (4, a, 0),
            Stream::Memory(a) => (5, a, 0),
            Stream::Application(a) => (6, a, 0),
            Stream::Host => (7, 0, 0),
            Stream::Connections(a) => (8, a, 0),
        };
        (kind << 32) | ((a as u64) << 16) | b as u64
    }

    /// The generator of this stream in the run of `seed`.
    pub(crate) fn rng(self, seed: u64) -> Rng {
        Rng::for_index(seed, self.index())
    }

    /// A seed for something that makes its own generator.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        self.rng(seed).next_u64()
    }
}

/// A duration of at most `most`.
pub(crate) fn up_to(rng: &mut Rng, most: Duration) -> Duration {
    Duration::from_nanos(rng.range(0..=most.as_nanos() as u64))
}

/// A duration between two others, in microseconds.
pub(crate) fn micros(rng: &mut Rng, range: core::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_micros(rng.range(range))
}

/// A time between two others, in microseconds.
pub(crate) fn time_us(rng: &mut Rng, range: core::ops::RangeInclusive<u64>) -> Time {
    Time(0) + micros(rng, range)
}

/// One of several, each equally likely.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}
