//! Compares Longarm with the host's sockets: latency, bandwidth and message rate.

use std::net::IpAddr;
use std::time::Duration;

use device::Capabilities;
use provider::Device;

use super::progress::DemoProgress;
use crate::baseline;
use crate::error::Error;
use crate::perf::{ControlConnection, LatencySummary, Op, Test, TestMode, TestTransport, measure};

/// One latency.
pub(crate) struct LatencyRow {
    pub(crate) name: String,
    pub(crate) latency: LatencySummary,
    pub(crate) ours: bool,
}

/// One rate: bytes or messages per second.
pub(crate) struct RateRow {
    pub(crate) name: String,
    pub(crate) per_second: f64,
    pub(crate) ours: bool,
}

/// All measured rows.
pub(crate) struct Comparison {
    pub(crate) latencies: Vec<LatencyRow>,
    pub(crate) bandwidths: Vec<RateRow>,
    pub(crate) rates: Vec<RateRow>,
}

/// Duration and rounds of each part.
#[derive(Clone, Copy)]
pub(crate) struct DemoEffort {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
}

/// The progress steps of [`run`], those of [`LATENCIES`] apart.
const OTHER_STEPS: usize = 9;

/// Bytes of a small message.
const SMALL: u32 = 64;

/// The latencies: operation, service and bytes.
const LATENCIES: [(Op, TestTransport, u32); 5] = [
    (Op::Send, TestTransport::Rc, SMALL),
    (Op::Send, TestTransport::Ud, SMALL),
    (Op::Write, TestTransport::Rc, SMALL),
    (Op::Read, TestTransport::Rc, SMALL),
    (Op::FetchAdd, TestTransport::Rc, 8),
];

/// The number of progress steps of [`run`].
pub(crate) fn steps(abilities: &Capabilities) -> usize {
    OTHER_STEPS + latencies_of(abilities).count()
}

/// The latencies of operations that the device has.
fn latencies_of(abilities: &Capabilities) -> impl Iterator<Item = (Op, TestTransport, u32)> {
    LATENCIES.into_iter().filter(|(op, transport, _)| op.missing(*transport, abilities).is_none())
}

/// Measures all rows, sockets and Longarm in turn.
pub(crate) fn run(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    effort: DemoEffort,
    progress: &mut DemoProgress,
) -> Result<Comparison, Error> {
    Ok(Comparison {
        latencies: latencies(control, device, address, effort, progress)?,
        bandwidths: bandwidths(control, device, address, effort, progress)?,
        rates: rates(control, device, address, effort, progress)?,
    })
}

fn latencies(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    effort: DemoEffort,
    progress: &mut DemoProgress,
) -> Result<Vec<LatencyRow>, Error> {
    let mut rows = Vec::new();
    for (name, baseline) in
        [("plain UDP", baseline::udp_ping_pong as fn(_, _, _) -> _), ("TCP, no delay", baseline::tcp_ping_pong)]
    {
        progress.step(&format!("latency of {name}"));
        let latency: std::io::Result<crate::perf::Latency> = baseline(address, SMALL as usize, effort.rounds);
        rows.push(LatencyRow { name: name.into(), latency: latency?.summary(), ours: false });
    }
    for (op, transport, size) in latencies_of(&device.capabilities()) {
        let name = format!("{} {}", transport.name(), op.name());
        progress.step(&format!("latency of {name}"));
        let result = measure(control, device, address, &test(op, transport, TestMode::Latency, size, 16, effort))?;
        rows.extend(result.latency.map(|latency| LatencyRow { name, latency, ours: true }));
    }
    Ok(rows)
}

fn bandwidths(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    effort: DemoEffort,
    progress: &mut DemoProgress,
) -> Result<Vec<RateRow>, Error> {
    progress.step("bandwidth of TCP");
    let tcp = baseline::tcp_stream(address, effort.duration)?;
    progress.step("bandwidth of plain UDP");
    let udp = baseline::udp_stream(address, effort.duration)?;
    let mut rows = vec![
        RateRow { name: "TCP, one stream".into(), per_second: tcp, ours: false },
        RateRow { name: "plain UDP, 64 KB datagrams".into(), per_second: udp, ours: false },
    ];
    for (op, size) in [(Op::Send, 64 << 10), (Op::Write, 1 << 20), (Op::Read, 1 << 20)] {
        let name = format!("RC {} {}", op.name(), crate::report::size(u64::from(size)));
        progress.step(&format!("bandwidth of {name}"));
        let result =
            measure(control, device, address, &test(op, TestTransport::Rc, TestMode::Stream, size, 32, effort))?;
        rows.push(RateRow { name, per_second: result.bytes_per_second, ours: true });
    }
    Ok(rows)
}

fn rates(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    effort: DemoEffort,
    progress: &mut DemoProgress,
) -> Result<Vec<RateRow>, Error> {
    progress.step("message rate of UDP sendto");
    let udp = baseline::udp_rate(address, SMALL as usize, effort.duration)?;
    let mut rows = vec![RateRow { name: "UDP, one sendto each".into(), per_second: udp, ours: false }];
    progress.step("message rate of RC SEND");
    let result =
        measure(control, device, address, &test(Op::Send, TestTransport::Rc, TestMode::Stream, SMALL, 128, effort))?;
    rows.push(RateRow { name: "RC SEND, depth 128".into(), per_second: result.messages_per_second, ours: true });
    Ok(rows)
}

fn test(op: Op, transport: TestTransport, mode: TestMode, size_bytes: u32, depth: u32, effort: DemoEffort) -> Test {
    Test {
        threads: 1,
        together: 1,
        op,
        transport,
        mode,
        size_bytes,
        depth,
        qps: 1,
        rounds: effort.rounds,
        duration_ms: effort.duration.as_millis() as u64,
    }
}
