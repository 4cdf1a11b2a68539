//! What the hub knows, as it shows it to people and programs.

use crate::counters::Snapshot;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

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
    /// The processes that manage connections, in the order in which they came.
    #[serde(default)]
    pub managers: Vec<ManagerStatus>,
    /// The hub's own counters.
    pub counters: HubCounters,
    /// What the hub counts about management datagrams.
    #[serde(default)]
    pub mads: MadCounters,
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
    /// With how many other processes the hub has introduced it to share memory.
    #[serde(default)]
    pub introductions: u32,
    /// Its counters, if it shows any that can be read.
    pub counters: Option<Snapshot>,
}

/// One process that manages connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerStatus {
    /// Its number: the high bits of its communication ids.
    pub number: u16,
    /// Its process.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Its ports, the first [`MAX_PORTS_SHOWN`] of them.
    pub ports: Vec<PortStatus>,
    /// How many ports it has.
    pub ports_total: u64,
    /// How many last messages wait for its end.
    #[serde(rename = "wills")]
    pub closing_messages: u64,
    /// MADs that it was given.
    pub mads_delivered: u64,
    /// MADs that it has sent.
    pub mads_sent: u64,
    /// MADs that it lost because it did not read.
    pub mads_lost: u64,
}

/// Most ports of one process in its [`ManagerStatus`].
pub const MAX_PORTS_SHOWN: usize = 64;

/// A port in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// The port space.
    pub space: u16,
    /// The address, maybe unspecified, and the port.
    pub address: SocketAddr,
    /// Whether requests for connections are taken.
    pub listening: bool,
}

impl PortStatus {
    /// The name of the port space.
    pub fn space_name(&self) -> &'static str {
        match self.space {
            0x0002 => "ipoib",
            0x0106 => "tcp",
            0x0111 => "udp",
            0x013f => "ib",
            _ => "?",
        }
    }
}

/// What the hub counts about management datagrams (MADs).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadCounters {
    /// MADs of the connection manager that arrived.
    pub received: u64,
    /// MADs given to a process.
    pub delivered: u64,
    /// MADs for nobody, answered by the hub.
    pub refused: u64,
    /// MADs sent, those of the hub included.
    pub sent: u64,
    /// Packets with a wrong ICRC.
    pub drop_icrc: u64,
    /// Packets that are no datagram of the right length.
    pub drop_malformed: u64,
    /// Packets of another partition.
    pub drop_pkey: u64,
    /// Packets without QP1's Q_Key.
    pub drop_qkey: u64,
    /// MADs that are not the connection manager's.
    pub drop_class: u64,
    /// MADs for nobody that have no answer.
    pub drop_nobody: u64,
    /// MADs lost because the process did not read them.
    pub drop_unread: u64,
    /// MADs that a process wanted to send from an address that is not this host's.
    pub drop_source: u64,
    /// MADs that a process wanted to send and that are none of the connection manager.
    pub drop_unsound: u64,
    /// MADs that the system did not take.
    pub drop_unsent: u64,
    /// MADs that the network could not deliver.
    #[serde(default)]
    pub undelivered: u64,
    /// Last messages of processes that are gone, repetitions included.
    #[serde(rename = "wills_sent")]
    pub closing_sent: u64,
    /// Last messages that were answered.
    #[serde(rename = "wills_answered")]
    pub closing_answered: u64,
    /// Last messages that nobody answered.
    #[serde(rename = "wills_unanswered")]
    pub closing_unanswered: u64,
    /// Last messages not kept, as there were too many.
    #[serde(rename = "wills_dropped")]
    pub closing_dropped: u64,
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
    /// Pairs of processes introduced to each other.
    #[serde(default)]
    pub introduced: u64,
    /// Packets for QP0 or QP1.
    pub management_packets: u64,
    /// Packets for a QPN that belongs to nobody.
    pub stray_packets: u64,
    /// Packets to the port that are no RoCEv2 packets.
    pub alien_packets: u64,
}
