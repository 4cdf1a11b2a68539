//! Runs the measured programs and parses their output.

mod api;
mod effort;
mod iperf3;
mod perftest;
mod sides;
mod sockets;
mod ucx;

pub(super) use api::environment;
pub(super) use effort::{ADDRESS, Effort};
pub(super) use iperf3::parse as iperf3_received;
pub(super) use perftest::{column as perftest_column, parse as perftest_figure, parse as parse_perftest};
pub(super) use sides::{ask, free_port, serve};

use super::measure::{Contender, Measure};

/// Measures one figure; the error explains the failure.
pub(super) fn measure(measure: &Measure, effort: &Effort) -> Result<f64, String> {
    crate::baseline::unpin();
    match measure.contender {
        Contender::Api(message_path) => api::measure(measure, message_path, effort),
        Contender::Perftest(message_path) => perftest::measure(measure, message_path, effort),
        Contender::Guest(_) => Err("the guest of a virtual machine was not run: --vm".into()),
        Contender::UcxShm => ucx::measure(measure, "posix,cma,self", 10e9, effort),
        Contender::UcxTcp => ucx::measure(measure, "tcp,self", 2e9, effort),
        Contender::Iperf3 => iperf3::measure(effort),
        Contender::Udp | Contender::Segments(_) | Contender::Tcp | Contender::Memory => {
            sockets::measure(measure, effort)
        }
    }
}
