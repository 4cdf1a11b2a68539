//! What the hub knows, as it shows it to people and programs.

use crate::counters::Snapshot;
use serde::{Deserialize, Serialize};

/// The hub's state at one moment. Times are durations, as the two ends may be in different
/// time namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The hub's protocol version.
    pub version: u32,
    /// The hub's process.
    pub pid: u32,
    /// The hub's user.
    pub uid: u32,
    /// How long the hub has been running.
    pub uptime_ms: u64,
    /// The network namespace: the inode number of `/proc/self/ns/net`.
    pub network_namespace: u64,
    /// Directory of the hub's socket and log.
    pub runtime_dir: String,
    /// After how long without clients the hub leaves; never without it.
    pub idle_timeout_ms: Option<u64>,
    /// How many slots there are for clients.
    pub slots: u32,
    /// How many of them are free.
    pub free_slots: u32,
    /// Receive buffer of each slot, as the kernel accounts it.
    pub receive_buffer_bytes: u64,
    /// Whether this hub took the port over from one that died.
    pub recovered: bool,
    /// The attached processes, in the order in which they came.
    pub clients: Vec<ClientStatus>,
    /// The hub's own counters.
    pub counters: HubCounters,
}

/// One attached process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its number.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Its slots: the high bytes of its QPNs.
    pub slots: Vec<u8>,
    /// For how long it has been attached to this hub.
    pub attached_ms: u64,
    /// Its counters, if it shows any that can be read.
    pub counters: Option<Snapshot>,
}

/// What the hub counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubCounters {
    /// Connections accepted.
    pub connections: u64,
    /// Processes attached.
    pub attached: u64,
    /// Processes that came back after the death of another hub.
    pub reattached: u64,
    /// Attached processes that ended, or closed their session.
    pub detached: u64,
    /// Connections refused because the process is another user's.
    pub refused_users: u64,
    /// Connections refused because there were too many, or the client speaks another version.
    pub refused_others: u64,
    /// Messages that made no sense.
    pub malformed: u64,
    /// Messages that came at the wrong time.
    pub out_of_order: u64,
    /// Requests that could not be granted.
    pub denied: u64,
    /// Packets for QP0 or QP1.
    pub management_packets: u64,
    /// Packets for a QPN that belongs to nobody.
    pub stray_packets: u64,
    /// Packets to the port that are no RoCEv2 packets.
    pub alien_packets: u64,
}
