//! `longarm mesh`: processes that all send to each other, to measure a machine with more processes than processors.
//!
//! The first process starts the members, and exchanges their endpoints over pipes, as lines of JSON. Each member
//! has a queue pair for each other member, and one thread that polls.

mod command;
mod member;

pub(crate) use command::{MeshArgs, run};
pub(crate) use member::{MemberArgs, member};

use serde::{Deserialize, Serialize};

use crate::perf::EndpointInfo;

/// A message to a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum MemberRequest {
    /// The endpoints of the other members, in their order.
    Connect(Vec<EndpointInfo>),
    /// Send for this time.
    Run { milliseconds: u64 },
    /// All members are done.
    End,
}

/// A message from a member.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum MemberReport {
    /// Its endpoints, one for each other member.
    Endpoints(Vec<EndpointInfo>),
    Connected,
    /// Messages that completed while the clock ran, that time, and retransmitted packets.
    Done {
        messages: u64,
        seconds: f64,
        resent_packets: u64,
    },
    Failed(String),
}

/// The index of a member's endpoint for another member: it has none for itself.
fn endpoint_index(other: usize, member: usize) -> usize {
    if other < member { other } else { other - 1 }
}
