//! The machine's speed without verbs, measured by `baseline`.

use super::effort::{ADDRESS, Effort};
use crate::baseline;
use crate::compare::measure::{Contender, Measure, Quantity};

pub(super) fn measure(measure: &Measure, effort: &Effort) -> Result<f64, String> {
    let (len, rounds) = (measure.size_bytes as usize, effort.rounds(measure));
    let figure = match (measure.contender, measure.quantity) {
        (Contender::Udp, Quantity::Latency) => {
            baseline::udp_ping_pong(ADDRESS, len, rounds).map(|latency| latency.summary().p50_ns as f64)
        }
        (Contender::Segments(care), _) => baseline::udp_segments(ADDRESS, len, care, effort.duration),
        (Contender::Udp, _) => baseline::udp_rate(ADDRESS, len, effort.duration),
        (Contender::Tcp, _) => {
            baseline::tcp_ping_pong(ADDRESS, len, rounds).map(|latency| latency.summary().p50_ns as f64)
        }
        (_, Quantity::Latency) => Ok(baseline::cache_line_ping_pong(effort.duration)),
        _ => Ok(baseline::memory_copy(len, effort.duration)),
    };
    baseline::unpin();
    figure.map_err(|e| e.to_string())
}
