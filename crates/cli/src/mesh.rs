//! `longarm mesh`: processes that all talk to each other, to see what a crowded machine does to them.
//!
//! The first process starts the members, and hands each the endpoints of the others over pipes, one line of JSON each
//! way. Each member has a queue pair for each other one, and one thread that polls.

mod command;
mod member;

pub(crate) use command::{MeshArgs, run};
pub(crate) use member::{MemberArgs, member};

use serde::{Deserialize, Serialize};

use crate::perf::EndpointInfo;

/// What a member is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    /// The endpoints of the others, in their order.
    Connect(Vec<EndpointInfo>),
    /// Begin, and send for so long.
    Run { milliseconds: u64 },
    /// Everybody is done.
    End,
}

/// What a member says.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Report {
    /// Its endpoints, one for each other member.
    Endpoints(Vec<EndpointInfo>),
    Connected,
    /// Messages that were completed while the clock ran, how long that was, and packets sent again.
    Done {
        messages: u64,
        seconds: f64,
        resent_packets: u64,
    },
    Failed(String),
}

/// Which of a member's endpoints is for another one: it has none for itself.
fn place_of(other: usize, member: usize) -> usize {
    if other < member { other } else { other - 1 }
}
