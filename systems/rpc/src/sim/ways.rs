//! The ways to carry messages, each with the memory and the connection that it needs.

use fastrand::Rng;

use crate::carrier::{Carrier, ImmediateCarrier, RING_START_BYTES, RingCarrier};
use crate::sim::network::AreaSizes;
use crate::sim::pick;

/// A way that the simulator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimWay {
    /// Rings in each other's memory.
    Ring,
    /// Slots in each other's memory, told by immediate data.
    Immediate,
}

impl SimWay {
    /// All ways.
    pub const ALL: [SimWay; 2] = [SimWay::Ring, SimWay::Immediate];

    /// The way with that name, in lower case.
    pub fn named(name: &str) -> Option<SimWay> {
        SimWay::ALL.into_iter().find(|way| format!("{way:?}").eq_ignore_ascii_case(name))
    }
}

/// The sizes of a session in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayPlan {
    pub(crate) way: SimWay,
    pub(crate) slots: u16,
    ring_bytes: u64,
    slot_bytes: u64,
    /// Nobody polls memory: immediate data wakes both ends.
    pub(crate) is_sleepy: bool,
}

/// Both ends of a session in some way.
pub(crate) struct Pairing {
    /// The client's and the server's.
    pub(crate) carriers: [Carrier; 2],
    pub(crate) sizes: [AreaSizes; 2],
    pub(crate) unreliable_writes: bool,
}

impl WayPlan {
    pub(crate) fn draw(way: SimWay, rng: &mut Rng) -> WayPlan {
        let is_sleepy = match way {
            SimWay::Ring => false,
            SimWay::Immediate => rng.bool(),
        };
        WayPlan {
            way,
            slots: pick(rng, &[1, 2, 3, 8, 32, 64]),
            ring_bytes: 512 * pick(rng, &[1, 2, 3, 8, 64]),
            slot_bytes: pick(rng, &[64, 128, 256, 1024, 4096]),
            is_sleepy,
        }
    }

    /// A new session; `node` is the client's number at its server.
    pub(crate) fn pair(&self, node: u16) -> Pairing {
        let both = |bytes| [AreaSizes { area_bytes: bytes, read_area_bytes: 0 }; 2];
        match self.way {
            SimWay::Ring => Pairing {
                carriers: [(); 2].map(|()| Carrier::Ring(RingCarrier::new(self.ring_bytes))),
                sizes: both(RING_START_BYTES + self.ring_bytes),
                unreliable_writes: false,
            },
            SimWay::Immediate => Pairing {
                carriers: [true, self.is_sleepy]
                    .map(|tell| Carrier::Immediate(ImmediateCarrier::new(self.slots, self.slot_bytes, node, tell))),
                sizes: both(u64::from(self.slots) * self.slot_bytes),
                unreliable_writes: false,
            },
        }
    }
}
