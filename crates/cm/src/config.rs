//! What a manager is made with.

/// Of a [`Manager`](crate::Manager).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The high 12 bits of the communication ids: who in this host the messages are for. 1 to 4095.
    pub number: u16,
    /// GUID of this node's device.
    pub guid: u64,
    /// Where communication and transaction ids begin. Whoever knows it knows the ids, so it shall be random.
    pub seed: u64,
    /// Most connections and datagram requests of peers that are not established or answered yet. A REQ
    /// beyond them is dropped: its sender repeats it.
    pub half_open_limit: usize,
}

impl Config {
    /// With the usual limit.
    pub fn new(number: u16, guid: u64, seed: u64) -> Config {
        Config { number, guid, seed, half_open_limit: 1 << 16 }
    }
}
