//! Operations, services and parameters of a test.

use std::time::Duration;

use clap::ValueEnum;
use device::Capabilities;
use provider::Device;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Op {
    /// SEND into the peer's receive buffer
    Send,
    /// SEND with 32 bits of immediate data
    SendImm,
    /// SEND that invalidates a key of the peer (`demo` only)
    #[value(skip)]
    SendInvalidate,
    /// WRITE into the peer's memory
    Write,
    /// WRITE with 32 bits of immediate data
    WriteImm,
    /// READ from the peer's memory
    Read,
    /// Compare-and-swap on 8 bytes of the peer's memory
    CompareSwap,
    /// Fetch-and-add on 8 bytes of the peer's memory
    FetchAdd,
}

/// A transport service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TestTransport {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram
    Ud,
}

impl Op {
    pub(crate) const ALL: [Op; 8] =
        [Op::Send, Op::SendImm, Op::SendInvalidate, Op::Write, Op::WriteImm, Op::Read, Op::CompareSwap, Op::FetchAdd];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::Send => "SEND",
            Op::SendImm => "SEND with immediate",
            Op::SendInvalidate => "SEND with invalidate",
            Op::Write => "WRITE",
            Op::WriteImm => "WRITE with immediate",
            Op::Read => "READ",
            Op::CompareSwap => "compare-and-swap",
            Op::FetchAdd => "fetch-and-add",
        }
    }

    /// Whether the service has this operation (IB specification, table 38).
    pub(crate) fn exists_on(self, transport: TestTransport) -> bool {
        match transport {
            TestTransport::Rc => true,
            TestTransport::Uc => matches!(self, Op::Send | Op::SendImm | Op::Write | Op::WriteImm),
            TestTransport::Ud => matches!(self, Op::Send | Op::SendImm),
        }
    }

    /// The ability that the operation needs on this service, and that the device lacks.
    pub(crate) fn missing(self, transport: TestTransport, device: &Capabilities) -> Option<&'static str> {
        let needs = [
            (transport == TestTransport::Uc, device.uc, "unreliable connections"),
            (transport == TestTransport::Ud, device.ud, "datagrams"),
            (matches!(self, Op::SendImm | Op::WriteImm), device.immediate, "immediate data"),
            (self.is_atomic(), device.atomics, "atomic operations"),
            (self == Op::SendInvalidate, device.windows_2 && !device.by_address_only, "windows before the connection"),
        ];
        needs.into_iter().find(|(needed, there, _)| *needed && !there).map(|(_, _, what)| what)
    }

    /// Whether the operation uses a receive WQE of the peer.
    pub(crate) fn uses_recv(self) -> bool {
        matches!(self, Op::Send | Op::SendImm | Op::SendInvalidate | Op::WriteImm)
    }

    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Op::CompareSwap | Op::FetchAdd)
    }
}

impl TestTransport {
    pub(crate) const ALL: [TestTransport; 3] = [TestTransport::Rc, TestTransport::Uc, TestTransport::Ud];

    pub(crate) fn name(self) -> &'static str {
        match self {
            TestTransport::Rc => "RC",
            TestTransport::Uc => "UC",
            TestTransport::Ud => "UD",
        }
    }
}

/// The kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TestMode {
    /// One message at a time; half the round trip, or post to completion for READ and atomics
    Latency,
    /// As many messages as the depth allows, for a time
    Stream,
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Test {
    pub(crate) op: Op,
    pub(crate) transport: TestTransport,
    pub(crate) mode: TestMode,
    /// Bytes per message.
    pub(crate) size_bytes: u32,
    /// Work requests outstanding per queue pair.
    pub(crate) depth: u32,
    /// Queue pairs.
    pub(crate) qps: u32,
    /// Threads on each side, each with its own queue pairs and completion queues.
    pub(crate) threads: u32,
    /// Latency: number of rounds.
    pub(crate) rounds: u32,
    /// Latency: rounds between two reads of the clock; their mean is one sample.
    pub(crate) together: u32,
    /// Stream: duration.
    pub(crate) duration_ms: u64,
}

/// The largest values that a test may ask of a peer.
const MAX_SIZE_BYTES: u32 = 1 << 30;
const MAX_DEPTH: u32 = 8192;
const MAX_QPS: u32 = 1 << 18;
const MAX_THREADS: u32 = 256;
const MAX_ROUNDS_TOGETHER: u32 = 4096;

impl Test {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.duration_ms)
    }

    /// Checks that the device has the operation and the service.
    pub(crate) fn check_device(&self, device: &Device) -> Result<(), Error> {
        match self.op.missing(self.transport, &device.capabilities()) {
            Some(what) => Err(Error::Lacks { device: device.info().name, what }),
            None => Ok(()),
        }
    }

    /// Checks the parameters; the error uses the names of the command line.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.op.exists_on(self.transport) {
            return Err(format!(
                "{} has no {}: the specification gives it to RC only, or to RC and UC",
                self.transport.name(),
                self.op.name()
            ));
        }
        if self.op.is_atomic() && self.size_bytes != 8 {
            return Err(format!("{} works on 8 bytes: use --size 8", self.op.name()));
        }
        if self.transport == TestTransport::Ud && self.size_bytes > 4096 {
            return Err("a UD message is one packet: at most 4096 bytes, and no more than the path MTU".into());
        }
        if self.mode == TestMode::Latency && self.threads != 1 {
            return Err("latency is measured by one thread: use --mode stream".into());
        }
        let in_range = [
            ("--size", self.size_bytes, 0, MAX_SIZE_BYTES),
            ("--depth", self.depth, 1, MAX_DEPTH),
            ("--qps", self.qps, 1, MAX_QPS),
            ("--rounds", self.rounds, 1, u32::MAX / 2),
            ("--together", self.together, 1, MAX_ROUNDS_TOGETHER),
            ("--threads", self.threads, 1, MAX_THREADS.min(MAX_QPS / self.qps.clamp(1, MAX_QPS))),
        ];
        match in_range.iter().find(|(_, value, least, most)| value < least || value > most) {
            None => Ok(()),
            Some((name, value, least, most)) => Err(format!("{name} {value} is not between {least} and {most}")),
        }
    }
}
