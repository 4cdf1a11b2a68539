//! The plan of a run: everything that its seed decides beforehand.

use fastrand::Rng;

use crate::server::{KvLayout, WhenFull};
use crate::sim::actor::MachineClock;

/// The outline of a run, drawn from its seed.
#[derive(Clone, Debug)]
pub(crate) struct SimPlan {
    pub(crate) layout: KvLayout,
    pub(crate) clients: usize,
    /// Operations of each client.
    pub(crate) operations: usize,
    pub(crate) keys: usize,
    /// Keys of these numbers and above are counters.
    pub(crate) first_counter: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) when_full: WhenFull,
    /// Keys that the index has room for at first.
    pub(crate) index_keys: u64,
    pub(crate) in_place_bytes: u64,
    pub(crate) reuse_after_ns: u64,
    /// Clients may PUT alone.
    pub(crate) writable: bool,
    pub(crate) lease_ns: u64,
    pub(crate) has_expiry: bool,
    /// Clients change values that are there, most of them alone.
    pub(crate) is_eager: bool,
    pub(crate) longest: &'static [usize],
    /// Words between two pauses, on average; and one pause in so many is long.
    pub(crate) words: u32,
    pub(crate) stop_one_in: u32,
    pub(crate) longest_stop_ns: u64,
    /// Parts of 1000.
    pub(crate) loss: u32,
    pub(crate) doubles: u32,
    pub(crate) late: u32,
    /// A client's life ends after so many pauses at most; zero: it lives on.
    pub(crate) client_pauses: u32,
    /// So does the server's.
    pub(crate) server_pauses: u32,
    /// Lives of the server.
    pub(crate) lives: u32,
    pub(crate) timeout_ns: u64,
    /// Of the server, and then of each client.
    pub(crate) clocks: Vec<MachineClock>,
}

impl SimPlan {
    pub(crate) fn draw(layout: KvLayout, rng: &mut Rng) -> SimPlan {
        let clients = rng.usize(2..=4);
        let writable = !matches!(layout, KvLayout::Tree | KvLayout::ClusterAtomic) && rng.u8(..3) > 0;
        let is_eager = writable && rng.bool();
        let has_expiry = !is_eager && rng.u8(..3) == 0;
        let is_tight = !is_eager && rng.u8(..4) == 0;
        // So little that the keys of a run do not fit. The longest value does, beside the index and the notes of all keys, which never
        // shrink.
        let max_bytes = if is_tight { rng.u64(5..9) << 10 } else { 1 << 20 };
        let memory_bytes = if is_tight { max_bytes + (rng.u64(24..64) << 10) } else { 2 << 20 };
        let keys = rng.usize(
            1..=if is_eager {
                2
            } else if is_tight {
                24
            } else if has_expiry {
                3
            } else {
                8
            },
        );
        let has_faults = rng.u8(..5) > 0;
        let pauses = if is_eager { [30, 60, 200] } else { [40, 150, 600] };
        let part = |rng: &mut Rng, most: u32| if has_faults { rng.u32(..=most) } else { 0 };
        let (loss, doubles, late) = (part(rng, 150), part(rng, 150), part(rng, 100));
        SimPlan {
            layout,
            clients,
            operations: if is_eager { rng.usize(20..50) } else { rng.usize(8..30) },
            keys,
            first_counter: keys - if is_eager { 0 } else { rng.usize(..=keys.min(3)) },
            memory_bytes,
            max_bytes,
            when_full: if rng.bool() { WhenFull::Evict } else { WhenFull::Refuse },
            index_keys: rng.u64(1..16),
            in_place_bytes: [0, 64, 1024, 1 << 20][rng.usize(..4)],
            reuse_after_ns: [20_000, 500_000, 10_000_000][rng.usize(..3)],
            writable,
            lease_ns: if is_eager { [50_000, 200_000, 1_000_000] } else { [200_000, 2_000_000, 20_000_000] }
                [rng.usize(..3)],
            has_expiry,
            is_eager,
            longest: if is_eager {
                [&[8, 20][..], &[60, 60, 400]][rng.usize(..2)]
            } else if is_tight {
                [&[100, 900][..], &[900, 900, 1800], &[1800]][rng.usize(..3)]
            } else {
                [&[8, 30, 30, 100, 700][..], &[8, 100, 1500, 6000], &[8, 8, 8]][rng.usize(..3)]
            },
            words: if is_eager { [1, 3, 10] } else { [4, 40, 300] }[rng.usize(..3)],
            stop_one_in: [30, 100, 1000][rng.usize(..3)],
            longest_stop_ns: [if is_eager { 1_000_000 } else { 100_000 }, 5_000_000, 40_000_000][rng.usize(..3)],
            loss,
            doubles,
            late,
            client_pauses: if has_faults && rng.bool() { pauses[rng.usize(..3)] } else { 0 },
            server_pauses: if has_faults && rng.u8(..4) == 0 { rng.u32(50..2000) } else { 0 },
            lives: rng.u32(1..4),
            timeout_ns: [10_000_000, 60_000_000][rng.usize(..2)],
            clocks: (0..=clients).map(|machine| SimPlan::clock(rng, machine > 0, has_expiry)).collect(),
        }
    }

    /// True if the memory may be full.
    pub(crate) fn is_tight(&self) -> bool {
        self.max_bytes < 1 << 20
    }

    /// Clocks of machines differ in what they show, and run 0.1 ‰ faster or slower at most. One that jumps makes leases and waits
    /// end early. Where keys expire none does: a client takes the clock of the machine's boot for one that runs.
    fn clock(rng: &mut Rng, drifts: bool, has_expiry: bool) -> MachineClock {
        let jumps = !has_expiry && rng.u8(..6) == 0;
        MachineClock {
            offset_ns: rng.u64(..1_000_000_000_000),
            drift: if drifts { rng.i64(-100..=100) } else { 0 },
            jump: jumps.then(|| (rng.u64(2_000_000..20_000_000), rng.u64(..3_600_000_000_000))),
        }
    }
}
