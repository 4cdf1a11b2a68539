//! One measurement, before it runs.

use std::time::Duration;

use clap::ValueEnum;
use longarm_rpc::{Client, ClientOptions, Status, Way};
use serde::{Deserialize, Serialize};

use super::local::BenchServer;

/// The quantity to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BenchMode {
    /// The time of one call at a time, from request to reply
    Latency,
    /// Calls per second, with as many outstanding as the depth allows
    Rate,
    /// The time of calls that start at a fixed rate, counted from their planned start
    Load,
}

/// A way, the size of its messages, and the amount of calls.
#[derive(Clone, Debug)]
pub(super) struct BenchCase {
    pub(super) way: Way,
    pub(super) mode: BenchMode,
    pub(super) size_bytes: u32,
    pub(super) reply_bytes: u32,
    pub(super) clients: u32,
    /// Calls outstanding for each client.
    pub(super) depth: u16,
    /// Threads that drive the clients.
    pub(super) threads: u32,
    /// Threads that share each client.
    pub(super) share: u32,
    pub(super) duration: Duration,
    /// Calls after which the measurement ends, all clients together.
    pub(super) calls: Option<u64>,
    /// Latency: calls in one sample.
    pub(super) together: u32,
    pub(super) load_percent: u32,
}

impl BenchCase {
    /// The settings of its clients.
    pub(super) fn options(&self, server: &BenchServer) -> ClientOptions {
        let standard = server.options();
        ClientOptions {
            way: Some(self.way),
            slots: standard.slots.max(self.depth * self.share as u16),
            ..standard.clone()
        }
    }

    /// Connects one client.
    pub(super) fn connect(&self, server: &BenchServer) -> Result<Client, Status> {
        Client::connect(server.address(), &self.options(server))
    }

    /// Whether the reply is the request.
    pub(super) fn is_echo(&self) -> bool {
        self.size_bytes == self.reply_bytes
    }

    /// The calls of one of the threads.
    pub(super) fn calls_of_thread(&self) -> u64 {
        self.calls.map_or(u64::MAX, |calls| calls.div_ceil(u64::from(self.threads)))
    }
}
