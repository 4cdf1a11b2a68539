//! The measuring side.

use std::net::IpAddr;
use std::sync::Barrier;
use std::thread;

use provider::Device;
use serde::{Deserialize, Serialize};

use super::by_address::{self, CmConnections, MeetingPoint};
use super::control::{ControlConnection, ControlReply, ControlRequest};
use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::{Test, TestMode};
use super::stats::LatencySummary;
use super::stopped::Stopped;
use super::stream::StreamResult;
use super::work::shape;
use super::{latency, stream};
use crate::baseline::pin_client;
use crate::error::Error;

/// The result of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    pub(crate) test: Test,
    /// Latency tests: the latencies.
    pub(crate) latency: Option<LatencySummary>,
    /// Stream tests: messages that arrived, per second.
    pub(crate) messages_per_second: f64,
    /// Payload bytes that arrived, per second.
    pub(crate) bytes_per_second: f64,
    /// UC and UD: messages that were sent and did not arrive.
    pub(crate) lost_messages: u64,
    /// Packets that this side retransmitted.
    pub(crate) retransmitted_packets: u64,
}

/// Runs one test with the server at the other end of `control`.
pub(crate) fn measure(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    test: &Test,
) -> Result<Measurement, Error> {
    measure_stopped(control, device, address, test, None)
}

/// Like [`measure`]; in a latency test the process `stop`, the server, is stopped while the
/// clock runs.
pub(super) fn measure_stopped(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    test: &Test,
    stop: Option<u32>,
) -> Result<Measurement, Error> {
    let groups = groups(device, address, test)?;
    let infos = groups.iter().flat_map(Endpoints::infos).collect();
    let reply = control.request(&ControlRequest::Measure { test: *test, endpoints: infos })?;
    let ControlReply::Endpoints { endpoints: peers, meeting } = reply else {
        return Err(Error::Peer("the peer did not answer with its endpoints".into()));
    };
    check_count(&groups, test, &peers)?;
    let _connections = join(&groups, &peers, meeting.as_ref(), control.is_by_address(test.transport))?;
    match test.mode {
        TestMode::Latency => {
            latency::prepare(&groups[0], test)?;
            let stop = || stop.map(Stopped::new).transpose();
            let latency = latency::client(&groups[0], &peers[0], test, stop)?.summary();
            control.request(&ControlRequest::Finish { messages: 0 })?;
            let nothing = StreamResult::default();
            Ok(Measurement { latency: Some(latency), ..summary(&groups, test, &nothing, 0) })
        }
        TestMode::Stream => {
            let carried = stream(&groups, &peers, test, control.is_by_address(test.transport))?;
            let reply = control.request(&ControlRequest::Finish { messages: carried.messages })?;
            let ControlReply::Finished { messages: arrived, .. } = reply else {
                return Err(Error::Peer("the peer did not report the arrived messages".into()));
            };
            let arrived = if test.op.uses_recv() { arrived } else { carried.messages };
            Ok(summary(&groups, test, &carried, arrived))
        }
    }
}

/// The endpoints of each thread.
pub(super) fn groups(device: &Device, address: IpAddr, test: &Test) -> Result<Vec<Endpoints>, Error> {
    (0..test.threads).map(|_| Endpoints::new(device, address, shape(test))).collect()
}

/// Checks that the peer has an endpoint for each of ours.
pub(super) fn check_count(groups: &[Endpoints], test: &Test, peers: &[EndpointInfo]) -> Result<(), Error> {
    if peers.len() != groups.len() * test.qps as usize {
        return Err(Error::Peer(format!("the peer has {} queue pairs for {} threads", peers.len(), groups.len())));
    }
    Ok(())
}

/// Connects the endpoints of each thread with those of the server: by their numbers, or by address.
pub(crate) fn join(
    groups: &[Endpoints],
    peers: &[EndpointInfo],
    meeting: Option<&MeetingPoint>,
    by_address: bool,
) -> Result<Option<CmConnections>, Error> {
    match meeting.filter(|_| by_address) {
        Some(point) => {
            groups.iter().try_for_each(Endpoints::initialize)?;
            Ok(Some(by_address::connect(groups, groups[0].address(), point)?))
        }
        None if by_address => Err(Error::Peer("the peer told no address to connect to".into())),
        None => connect_by_number(groups, peers).map(|()| None),
    }
}

/// Connects the endpoints of each thread with as many of the peer.
pub(super) fn connect_by_number(groups: &[Endpoints], peers: &[EndpointInfo]) -> Result<(), Error> {
    let mut rest = peers;
    for group in groups {
        let (own, others) = rest.split_at(group.qps.len().min(rest.len()));
        group.connect(own)?;
        rest = others;
    }
    Ok(())
}

/// Runs one thread for each group. They begin together; the time runs until the last one ends.
fn stream(groups: &[Endpoints], peers: &[EndpointInfo], test: &Test, by_address: bool) -> Result<StreamResult, Error> {
    if let [group] = groups {
        return stream::client(group, peers, test, by_address);
    }
    let begin = Barrier::new(groups.len());
    let carried: Result<Vec<StreamResult>, Error> = thread::scope(|scope| {
        let begin = &begin;
        let pairs = groups.iter().zip(peers.chunks(test.qps as usize)).enumerate();
        let threads: Vec<_> = pairs
            .map(|(index, (group, peers))| {
                scope.spawn(move || {
                    pin_client(index, groups.len());
                    begin.wait();
                    stream::client(group, peers, test, by_address)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|outcome| outcome.map_err(|_| Error::Peer("a sending thread failed".into()))?).collect()
    });
    Ok(StreamResult::together(&carried?))
}

fn summary(groups: &[Endpoints], test: &Test, carried: &StreamResult, arrived: u64) -> Measurement {
    let rate = carried.rate(arrived);
    let qps = groups.iter().flat_map(|group| &group.qps);
    Measurement {
        test: *test,
        latency: None,
        messages_per_second: rate,
        bytes_per_second: rate * f64::from(test.size_bytes),
        lost_messages: carried.messages.saturating_sub(arrived),
        retransmitted_packets: qps.map(|qp| qp.counters().retransmitted_packets).sum(),
    }
}
