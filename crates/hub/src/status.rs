//! The hub's state, for people and programs.

use crate::counters::Snapshot;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The hub's state at one moment. Times are durations, as hub and client may be in different
/// time namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStatus {
    /// The hub's protocol version.
    pub version: u32,
    /// The hub's process.
    pub pid: u32,
    /// The hub's user.
    pub uid: u32,
    /// The time since the hub started.
    pub uptime_ms: u64,
    /// The network namespace: the inode number of `/proc/self/ns/net`.
    pub network_namespace: u64,
    /// Directory of the hub's socket and log.
    pub runtime_dir: String,
    /// The time without clients after which the hub exits; never if there is none.
    pub idle_timeout_ms: Option<u64>,
    /// The number of slots for clients.
    pub slots: u32,
    /// The number of free ones.
    pub free_slots: u32,
    /// Receive buffer of each slot, as the kernel accounts it.
    pub receive_buffer_bytes: u64,
    /// Whether this hub took the port over from a dead one.
    pub recovered: bool,
    /// The attached processes, in the order of their connections.
    pub clients: Vec<ClientStatus>,
    /// The processes that manage connections, in the order of their connections.
    #[serde(default)]
    pub managers: Vec<ManagerStatus>,
    /// The hub's own counters.
    pub counters: HubCounters,
    /// Counters of management datagrams.
    #[serde(default)]
    pub mads: MadCounters,
}

/// One attached process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The process's number.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// Its slots: the high bytes of its QPNs.
    pub slots: Vec<u8>,
    /// The time since it attached to this hub.
    pub attached_ms: u64,
    /// The number of processes that the hub has introduced it to.
    #[serde(default)]
    pub introductions: u32,
    /// Its counters, if it has a page that can be read.
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
    /// The number of its ports.
    pub ports_total: u64,
    /// The number of closing messages that it has left with the hub.
    #[serde(rename = "wills")]
    pub closing_messages: u64,
    /// MADs queued for it.
    pub mads_delivered: u64,
    /// MADs that it has sent.
    pub mads_sent: u64,
    /// MADs dropped because it did not read.
    pub mads_lost: u64,
}

/// Most ports of one process in its [`ManagerStatus`].
pub const MAX_PORTS_SHOWN: usize = 64;

/// A port in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// The port space.
    pub space: u16,
    /// The address, which may be unspecified, and the port.
    pub address: SocketAddr,
    /// Whether it takes connection requests.
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

/// The hub's counters of management datagrams (MADs).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadCounters {
    /// MADs of the connection manager that arrived.
    pub received: u64,
    /// MADs queued for a process.
    pub delivered: u64,
    /// MADs for no process, answered by the hub.
    pub refused: u64,
    /// MADs sent, those of the hub included.
    pub sent: u64,
    /// Packets with a wrong ICRC.
    pub drop_icrc: u64,
    /// Packets that are not datagrams of the right length.
    pub drop_malformed: u64,
    /// Packets of another partition.
    pub drop_pkey: u64,
    /// Packets without QP1's Q_Key.
    pub drop_qkey: u64,
    /// MADs that are not the connection manager's.
    pub drop_class: u64,
    /// MADs for no process that get no answer.
    pub drop_nobody: u64,
    /// MADs dropped because the process did not read.
    pub drop_unread: u64,
    /// MADs of a process with a source address that is not this host's.
    pub drop_source: u64,
    /// MADs of a process that are not the connection manager's.
    pub drop_unsound: u64,
    /// MADs that the system did not send.
    pub drop_unsent: u64,
    /// MADs that the network could not deliver.
    #[serde(default)]
    pub undelivered: u64,
    /// Closing messages sent, repetitions included.
    #[serde(rename = "wills_sent")]
    pub closing_sent: u64,
    /// Closing messages that were answered.
    #[serde(rename = "wills_answered")]
    pub closing_answered: u64,
    /// Closing messages that no peer answered.
    #[serde(rename = "wills_unanswered")]
    pub closing_unanswered: u64,
    /// Closing messages dropped because there were too many.
    #[serde(rename = "wills_dropped")]
    pub closing_dropped: u64,
}

/// The hub's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubCounters {
    /// Connections accepted.
    pub connections: u64,
    /// Processes attached.
    pub attached: u64,
    /// Processes that came back after the death of an earlier hub.
    pub reattached: u64,
    /// Attached processes that ended, or closed their session.
    pub detached: u64,
    /// Connections refused because the process is another user's.
    pub refused_users: u64,
    /// Connections refused because there were too many, or the client has another version.
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
    /// Packets for a QPN that no process has.
    pub stray_packets: u64,
    /// Packets to the port that are no RoCEv2 packets.
    pub alien_packets: u64,
}
