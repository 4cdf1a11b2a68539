//! The serving side: makes endpoints, responds, and reports its results.

use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use provider::Device;

use super::by_address::MeetingListener;
use super::client::{check_count, connect_by_number, groups};
use super::control::{ControlConnection, ControlReply, ControlRequest, VERSION, expect_finish};
use super::credits::CreditGiver;
use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::{Test, TestMode};
use super::{latency, stream};
use crate::baseline::{pin_server, pin_to_core};
use crate::demo::verify;
use crate::error::Error;

/// Serves one client until it disconnects.
pub(super) fn serve(control: &mut ControlConnection, capture: Option<&Path>) -> Result<(), Error> {
    let address = control.local()?.ip().to_canonical();
    let device = match prepare(address, capture) {
        Ok(device) => device,
        Err(problem) => {
            // The client's greeting comes first; the reason is the response to it.
            let _ = control.receive::<ControlRequest>()?;
            control.send(&ControlReply::Failed { reason: problem.to_string() })?;
            return Err(problem);
        }
    };
    // Pin after the device has started its thread, so that the two do not share the core.
    pin_to_core(1);
    while let Some(request) = control.receive::<ControlRequest>()? {
        let outcome = match request {
            ControlRequest::Hello { .. } => Ok(control.send(&ControlReply::Hello { version: VERSION })?),
            ControlRequest::ByAddress => Ok(control.agree()?),
            ControlRequest::Measure { test, endpoints } => serve_test(control, &device, address, &test, &endpoints),
            ControlRequest::Verify { op, transport, size_bytes, endpoint } => {
                verify::serve(control, &device, address, op, transport, size_bytes, &endpoint)
            }
            ControlRequest::Finish { .. } => Err(Error::Peer("there is no test to finish".into())),
            ControlRequest::Bye => return Ok(()),
        };
        if let Err(problem) = outcome {
            control.send(&ControlReply::Failed { reason: problem.to_string() })?;
        }
    }
    Ok(())
}

/// Opens the device that has the address, and captures its packets if `capture` names a file.
fn prepare(address: IpAddr, capture: Option<&Path>) -> Result<Device, Error> {
    let device = super::open(address)?;
    if let Some(path) = capture {
        device.capture(path)?;
    }
    Ok(device)
}

fn serve_test(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    test: &Test,
    peers: &[EndpointInfo],
) -> Result<(), Error> {
    test.check().map_err(Error::Usage)?;
    let groups = groups(device, address, test)?;
    check_count(&groups, test, peers)?;
    let listener = begin(&groups, peers, address, control.is_by_address(test.transport))?;
    for group in &groups {
        match test.mode {
            TestMode::Latency => latency::prepare(group, test)?,
            TestMode::Stream => stream::prepare(group, test)?,
        }
    }
    let endpoints = groups.iter().flat_map(Endpoints::infos).collect();
    let meeting = listener.as_ref().map(MeetingListener::point);
    control.send(&ControlReply::Endpoints { endpoints, meeting })?;
    let _connections = listener.map(|listener| listener.accept(&groups)).transpose()?;
    let messages = match test.mode {
        TestMode::Latency => {
            latency::server(&groups[0], &peers[0], test)?;
            expect_finish(control)?
        }
        TestMode::Stream if test.op.uses_recv() => receive_stream(control, &groups, peers, test)?,
        // One-sided: the device serves, without this program.
        TestMode::Stream => expect_finish(control)?,
    };
    Ok(control.send(&ControlReply::Finished { messages, verified: true, detail: String::new() })?)
}

/// Connects the endpoints with the client's by their numbers, or listens for them. Then receives may be posted.
pub(crate) fn begin(
    groups: &[Endpoints],
    peers: &[EndpointInfo],
    address: IpAddr,
    by_address: bool,
) -> Result<Option<MeetingListener>, Error> {
    if !by_address {
        return connect_by_number(groups, peers).map(|()| None);
    }
    groups.iter().try_for_each(Endpoints::initialize)?;
    MeetingListener::open(address).map(Some)
}

/// Receives with one thread for each group, while another waits for the client's message.
fn receive_stream(
    control: &mut ControlConnection,
    groups: &[Endpoints],
    peers: &[EndpointInfo],
    test: &Test,
) -> Result<u64, Error> {
    let by_address = control.is_by_address(test.transport);
    let mut credits = groups
        .iter()
        .zip(peers.chunks(test.qps as usize))
        .map(|(group, peers)| by_address.then(|| CreditGiver::new(group, peers, test)));
    let first = credits.next().flatten();
    let (told, arrived) = (OnceLock::new(), AtomicU64::new(0));
    let finished = || match told.get() {
        None => Ok(None),
        Some(Ok(sent)) => Ok(Some(*sent)),
        Some(Err(problem)) => Err(Error::Peer(format!("the client's message was lost: {problem}"))),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| told.set(expect_finish(control)));
        let (finished, arrived) = (&finished, &arrived);
        let others: Vec<_> = groups[1..]
            .iter()
            .enumerate()
            .zip(credits)
            .map(|((index, group), credits)| {
                scope.spawn(move || {
                    pin_server(index + 1, groups.len());
                    stream::server(group, test, credits, arrived, finished)
                })
            })
            .collect();
        pin_server(0, groups.len());
        stream::server(&groups[0], test, first, arrived, finished)?;
        let mut joined = others.into_iter().map(|thread| thread.join());
        joined.try_for_each(|outcome| outcome.map_err(|_| Error::Peer("a receiving thread failed".into()))?)
    })?;
    Ok(arrived.load(Relaxed))
}
