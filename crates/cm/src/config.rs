//! Configuration of a manager.

/// The configuration of a [`Manager`](crate::Manager).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The high 12 bits of the communication ids, 1 to 4095: they identify the process on this host.
    pub number: u16,
    /// GUID of this node's device.
    pub guid: u64,
    /// The seed of communication and transaction ids. It must be random, since the ids follow from it.
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
