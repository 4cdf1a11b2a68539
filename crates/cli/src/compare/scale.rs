//! C1 and C2: the cost of many idle queue pairs.

use std::net::IpAddr;
use std::time::Duration;

use provider::Device;

use super::idle::{idle_cpu_ns, resident_bytes};
use crate::error::Error;
use crate::perf::{Endpoints, Shape, TestTransport};

/// The cost of idle queue pairs.
pub(super) struct IdleCost {
    pub(super) qps: u32,
    /// Resident memory per queue pair, including its queues of depth 16.
    pub(super) bytes_per_qp: u64,
    /// CPU time of the whole process per idle second.
    pub(super) cpu_ns_per_second: u64,
}

/// Makes `qps` queue pairs, connects them with each other, and measures them while they are idle.
pub(super) fn idle_cost(device: &Device, address: IpAddr, qps: u32) -> Result<IdleCost, Error> {
    let shape = Shape { transport: TestTransport::Rc, qps, depth: 16, region_bytes: 4096, path_mtu: None };
    // Make one queue pair first: completion queues and region are not part of a queue pair's cost.
    let warm = Endpoints::new(device, address, Shape { qps: 1, ..shape })?;
    warm.connect(&warm.infos())?;
    let before = resident_bytes()?;
    let endpoints = Endpoints::new(device, address, shape)?;
    endpoints.connect(&endpoints.infos())?;
    let grown = resident_bytes()?.saturating_sub(before);
    let watched = Duration::from_secs(2);
    std::thread::sleep(Duration::from_millis(500));
    let cpu = idle_cpu_ns(watched)?;
    Ok(IdleCost { qps, bytes_per_qp: grown / u64::from(qps), cpu_ns_per_second: cpu / watched.as_secs() })
}
