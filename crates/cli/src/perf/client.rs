//! The side that measures.

use std::net::IpAddr;

use device::Device;
use serde::{Deserialize, Serialize};

use super::control::{Control, Reply, Request};
use super::endpoint::Endpoints;
use super::spec::{Mode, Test};
use super::stats::LatencySummary;
use super::{latency, shape, stream};
use crate::error::Error;

/// What came out of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) test: Test,
    /// Latency tests.
    pub(crate) latency: Option<LatencySummary>,
    /// Stream tests: messages that arrived, per second.
    pub(crate) messages_per_second: f64,
    /// Payload bytes that arrived, per second.
    pub(crate) bytes_per_second: f64,
    /// UC and UD: messages that were sent and did not arrive.
    pub(crate) lost_messages: u64,
    /// Packets sent again by this side.
    pub(crate) retransmitted_packets: u64,
}

/// Runs one test with the server at the other end of `control`.
pub(crate) fn measure(
    control: &mut Control,
    device: &Device,
    address: IpAddr,
    test: &Test,
) -> Result<Measurement, Error> {
    let endpoints = Endpoints::new(device, address, shape(test))?;
    let Reply::Endpoints(peers) = control.ask(&Request::Measure { test: *test, endpoints: endpoints.infos() })? else {
        return Err(Error::Peer("the peer did not answer with its endpoints".into()));
    };
    endpoints.connect(&peers)?;
    match test.mode {
        Mode::Latency => {
            latency::prepare(&endpoints, test)?;
            let latency = latency::client(&endpoints, &peers[0], test)?.summary();
            control.ask(&Request::Finish { messages: 0 })?;
            Ok(Measurement { latency: Some(latency), ..summary(&endpoints, test, 0, 0, 0.0) })
        }
        Mode::Stream => {
            let carried = stream::client(&endpoints, &peers, test)?;
            let reply = control.ask(&Request::Finish { messages: carried.messages })?;
            let Reply::Finished { messages: arrived, .. } = reply else {
                return Err(Error::Peer("the peer did not say what arrived".into()));
            };
            let arrived = if test.op.uses_recv() { arrived } else { carried.messages };
            Ok(summary(&endpoints, test, carried.messages, arrived, carried.elapsed.as_secs_f64()))
        }
    }
}

fn summary(endpoints: &Endpoints, test: &Test, sent: u64, arrived: u64, seconds: f64) -> Measurement {
    let rate = if seconds > 0.0 { arrived as f64 / seconds } else { 0.0 };
    Measurement {
        test: *test,
        latency: None,
        messages_per_second: rate,
        bytes_per_second: rate * f64::from(test.size_bytes),
        lost_messages: sent.saturating_sub(arrived),
        retransmitted_packets: endpoints.qps.iter().map(|qp| qp.counters().retransmitted_packets).sum(),
    }
}
