//! Runs the measured programs and parses their output.

mod api;
mod iperf3;
mod perftest;
mod sides;
mod sockets;
mod ucx;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub(super) use api::environment;
pub(super) use iperf3::parse as iperf3_received;
pub(super) use perftest::{column as perftest_column, parse as perftest_figure, parse as parse_perftest};
pub(super) use sides::{ask, free_port, serve};

use super::measure::{Contender, Measure};

/// The address of all measurements.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Duration and device of the measurements.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    /// The approximate duration of one figure.
    pub(super) duration: Duration,
    /// Longarm's device that has [`ADDRESS`].
    pub(super) device: String,
}

impl Effort {
    /// The number of repetitions of an operation that takes about `each_ns` nanoseconds.
    fn times(&self, each_ns: f64, least: u32, most: u32) -> u32 {
        let times = self.duration.as_nanos() as f64 / each_ns;
        (times as u32).clamp(least, most)
    }

    /// Rounds of a latency test.
    fn rounds(&self, measure: &Measure) -> u32 {
        self.times(8_000.0 + f64::from(measure.size_bytes), 200, 200_000)
    }
}

/// Measures one figure; the error explains the failure.
pub(super) fn measure(measure: &Measure, effort: &Effort) -> Result<f64, String> {
    crate::baseline::unpin();
    match measure.contender {
        Contender::Api(way) => api::measure(measure, way, effort),
        Contender::Perftest(way) => perftest::measure(measure, way, effort),
        Contender::Guest(_) => Err("the guest of a virtual machine was not run: --vm".into()),
        Contender::UcxShm => ucx::measure(measure, "posix,cma,self", 10e9, effort),
        Contender::UcxTcp => ucx::measure(measure, "tcp,self", 2e9, effort),
        Contender::Iperf3 => iperf3::measure(effort),
        Contender::Udp | Contender::Segments(_) | Contender::Tcp | Contender::Memory => {
            sockets::measure(measure, effort)
        }
    }
}
