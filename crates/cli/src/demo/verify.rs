//! Verifies one operation: bytes that differ at every position go over the wire,
//! and the side that holds them afterwards compares.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use device::{Access, AtomicOp, BindMw, MwType, Payload, RemoteAddr, SendFlags, SendOp, SendWr, Status};
use provider::{Device, Mw};

use crate::error::Error;
use crate::perf::{
    ControlConnection, ControlReply, ControlRequest, EndpointInfo, Endpoints, MeetingListener, Op, Shape,
    TestTransport, begin, expect_finish, join,
};

/// The immediate data of every case.
const IMMEDIATE: u32 = 0x4c6f_6e67;
/// Atomics per case, and the addend of each fetch-and-add.
const ATOMICS: u64 = 100;
const ADD: u64 = 3;
/// The longest time that bytes without a completion may take to arrive.
const PATIENCE: Duration = Duration::from_secs(2);
/// Length of the SEND that invalidates; its buffer lies beyond the target of the WRITE before it.
const NOTICE_BYTES: u32 = 64;
/// Depth of the queues.
const DEPTH: u32 = 256;

/// The result of a case.
#[derive(Clone, Debug)]
pub(crate) struct CaseResult {
    pub(crate) verified: bool,
    pub(crate) detail: String,
}

/// Runs the active side of one case.
pub(crate) fn drive(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    (op, transport, size_bytes): (Op, TestTransport, u32),
) -> Result<CaseResult, Error> {
    let endpoints = Endpoints::new(device, address, shape(transport, size_bytes))?;
    let endpoint = endpoints.infos().remove(0);
    let reply = control.request(&ControlRequest::Verify { op, transport, size_bytes, endpoint })?;
    let ControlReply::Endpoints { endpoints: peers, meeting } = reply else {
        return Err(Error::Peer("the peer did not answer with its endpoint".into()));
    };
    let groups = [endpoints];
    let _connections = join(&groups, &peers, meeting.as_ref(), control.is_by_address(transport))?;
    let [endpoints] = &groups;
    endpoints.write_region(0, &pattern(size_bytes, op));
    let mut ours = act(endpoints, &peers[0], op, size_bytes)?;
    if op == Op::SendInvalidate {
        ours = dead_key(endpoints, &peers[0], size_bytes, device.faults().is_some())?;
    }
    let ControlReply::Finished { verified, detail, .. } = control.request(&ControlRequest::Finish { messages: 1 })?
    else {
        return Err(Error::Peer("the peer did not report its result".into()));
    };
    Ok(match ours {
        Some(problem) => CaseResult { verified: false, detail: problem },
        None => CaseResult { verified, detail },
    })
}

/// Executes the operation; the text describes a wrong result on the active side.
fn act(endpoints: &Endpoints, peer: &EndpointInfo, op: Op, size_bytes: u32) -> Result<Option<String>, Error> {
    let remote = peer.remote(0);
    match op {
        Op::Send => post(endpoints, peer, SendOp::Send, size_bytes).map(|()| None),
        Op::SendImm => post(endpoints, peer, SendOp::SendImm(IMMEDIATE), size_bytes).map(|()| None),
        Op::Write => post(endpoints, peer, SendOp::Write(remote), size_bytes).map(|()| None),
        Op::WriteImm => post(endpoints, peer, SendOp::WriteImm(remote, IMMEDIATE), size_bytes).map(|()| None),
        Op::SendInvalidate => {
            post(endpoints, peer, SendOp::Write(remote), size_bytes)?;
            post(endpoints, peer, SendOp::SendInvalidate(remote.rkey), NOTICE_BYTES).map(|()| None)
        }
        Op::Read => {
            endpoints.write_region(0, &vec![0; size_bytes as usize]);
            post(endpoints, peer, SendOp::Read(remote), size_bytes)?;
            Ok(compare(endpoints, size_bytes, 0, op))
        }
        Op::FetchAdd | Op::CompareSwap => atomics(endpoints, peer, op, remote),
    }
}

fn post(endpoints: &Endpoints, peer: &EndpointInfo, op: SendOp, size_bytes: u32) -> Result<(), Error> {
    endpoints.qps[0].post_send([request(endpoints, peer, op, size_bytes)])?;
    endpoints.wait(&endpoints.send_cq).map(|_| ())
}

fn request(endpoints: &Endpoints, peer: &EndpointInfo, op: SendOp, size_bytes: u32) -> SendWr {
    let payload = if size_bytes == 0 { Payload::empty() } else { Payload::Sgl(endpoints.sgl(0, size_bytes)) };
    SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, payload, datagram: endpoints.datagram(peer), xrc_srq: None }
}

/// A chain of atomics; each must return the value that the previous one left.
fn atomics(endpoints: &Endpoints, peer: &EndpointInfo, op: Op, remote: RemoteAddr) -> Result<Option<String>, Error> {
    for n in 0..ATOMICS {
        let before = n * ADD;
        let atomic = match op {
            Op::FetchAdd => AtomicOp::FetchAdd { add: ADD },
            _ => AtomicOp::CompareSwap { compare: before, swap: before + ADD },
        };
        post(endpoints, peer, SendOp::Atomic(remote, atomic), 8)?;
        let mut old = [0; 8];
        endpoints.read_region(0, &mut old);
        if u64::from_ne_bytes(old) != before {
            return Ok(Some(format!("{} number {n} returned {}, not {before}", op.name(), u64::from_ne_bytes(old))));
        }
    }
    Ok(None)
}

/// Checks that the peer refuses the invalidated key; the text describes any other outcome.
///
/// The peer sends one NAK and enters the error state. Where packets get lost, the NAK may be lost too, and
/// then the peer is silent (IB specification 10.3.1: a queue pair in the error state drops inbound packets).
fn dead_key(endpoints: &Endpoints, peer: &EndpointInfo, size_bytes: u32, lossy: bool) -> Result<Option<String>, Error> {
    endpoints.qps[0].post_send([request(endpoints, peer, SendOp::Write(peer.remote(0)), size_bytes.max(1))])?;
    let status = endpoints.wait_any(&endpoints.send_cq)?.status;
    let refused = status == Status::RemoteAccess || lossy && status == Status::RetryExceeded;
    Ok((!refused).then(|| format!("a WRITE with the invalidated key ended as {status:?}")))
}

/// Runs the passive side of one case.
pub(crate) fn serve(
    control: &mut ControlConnection,
    device: &Device,
    address: IpAddr,
    op: Op,
    transport: TestTransport,
    size_bytes: u32,
    peer: &EndpointInfo,
) -> Result<(), Error> {
    if !op.exists_on(transport) || size_bytes > 1 << 30 {
        return Err(Error::Usage(format!("there is no {} of {size_bytes} bytes on {}", op.name(), transport.name())));
    }
    let groups = [Endpoints::new(device, address, shape(transport, size_bytes))?];
    let listener = begin(&groups, std::slice::from_ref(peer), address, control.is_by_address(transport))?;
    let [endpoints] = &groups;
    let mut info = endpoints.infos().remove(0);
    let window = match op {
        Op::SendInvalidate => Some(open_window(endpoints, &mut info)?),
        _ => None,
    };
    if op == Op::Read {
        endpoints.write_region(0, &pattern(size_bytes, op));
    }
    if op.uses_recv() {
        let (offset, room) = match op {
            Op::SendInvalidate => (u64::from(size_bytes), NOTICE_BYTES),
            _ => (0, size_bytes),
        };
        endpoints.post_recvs(0, 1, offset, room)?;
    }
    let meeting = listener.as_ref().map(MeetingListener::point);
    control.send(&ControlReply::Endpoints { endpoints: vec![info], meeting })?;
    let _connections = listener.map(|listener| listener.accept(&groups)).transpose()?;
    let notice = if op.uses_recv() { check_notice(endpoints, op, size_bytes)? } else { None };
    expect_finish(control)?;
    let problem = notice.or_else(|| await_memory(endpoints, op, size_bytes));
    let reply =
        ControlReply::Finished { messages: 1, verified: problem.is_none(), detail: problem.unwrap_or_default() };
    control.send(&reply)?;
    drop(window);
    Ok(())
}

/// Binds a memory window of type 2 over the whole region; the peer gets its key instead of the region's.
fn open_window(endpoints: &Endpoints, info: &mut EndpointInfo) -> Result<Mw, Error> {
    let window = endpoints.pd.alloc_mw(MwType::Two)?;
    let old = window.rkey();
    let new_rkey = device::RKey(old.0 & !0xff | (old.0 + 1) & 0xff);
    let bind = BindMw {
        window: old,
        new_rkey,
        region: endpoints.mr.lkey(),
        addr: endpoints.mr.addr(),
        len_bytes: endpoints.mr.len_bytes(),
        access: Access::REMOTE_WRITE,
    };
    let wr = SendWr {
        wr_id: 0,
        op: SendOp::Bind(bind),
        flags: SendFlags::SIGNALED,
        payload: Payload::empty(),
        datagram: None,
        xrc_srq: None,
    };
    endpoints.qps[0].post_send([wr])?;
    endpoints.wait(&endpoints.send_cq)?;
    info.rkey = new_rkey.0;
    Ok(window)
}

/// Waits for the receive completion and checks its fields.
fn check_notice(endpoints: &Endpoints, op: Op, size_bytes: u32) -> Result<Option<String>, Error> {
    let completion = endpoints.wait(&endpoints.recv_cq)?;
    let expected_bytes = if op == Op::SendInvalidate { NOTICE_BYTES } else { size_bytes + endpoints.grh_bytes() };
    let expected_imm = matches!(op, Op::SendImm | Op::WriteImm).then_some(IMMEDIATE);
    if completion.byte_len != expected_bytes {
        return Ok(Some(format!("{} bytes were announced, not {expected_bytes}", completion.byte_len)));
    }
    if completion.imm != expected_imm {
        return Ok(Some(format!("immediate data is {:?}, not {expected_imm:?}", completion.imm)));
    }
    Ok(None)
}

/// Compares memory. A UC WRITE has no completion at the receiver, so the check waits a moment for it.
fn await_memory(endpoints: &Endpoints, op: Op, size_bytes: u32) -> Option<String> {
    let start = Instant::now();
    loop {
        match check_memory(endpoints, op, size_bytes) {
            Some(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
            outcome => return outcome,
        }
    }
}

fn check_memory(endpoints: &Endpoints, op: Op, size_bytes: u32) -> Option<String> {
    match op {
        Op::Read => None,
        Op::FetchAdd | Op::CompareSwap => {
            let mut word = [0; 8];
            endpoints.read_region(0, &mut word);
            let value = u64::from_ne_bytes(word);
            (value != ATOMICS * ADD).then(|| format!("the word is {value} in the end, not {}", ATOMICS * ADD))
        }
        Op::Send | Op::SendImm => compare(endpoints, size_bytes, endpoints.grh_bytes() as usize, op),
        Op::Write | Op::WriteImm | Op::SendInvalidate => compare(endpoints, size_bytes, 0, op),
    }
}

/// The first difference between the local region and the pattern, if any.
fn compare(endpoints: &Endpoints, size_bytes: u32, offset: usize, op: Op) -> Option<String> {
    let (expected, mut found) = (pattern(size_bytes, op), vec![0; size_bytes as usize]);
    endpoints.read_region(offset, &mut found);
    let at = expected.iter().zip(&found).position(|(a, b)| a != b)?;
    Some(format!("byte {at} of {size_bytes} is {:#04x}, not {:#04x}", found[at], expected[at]))
}

/// Bytes that identify their position: none repeats at the distance of a packet. No message
/// begins like an EtherType followed by zeros: Wireshark would decode it as a frame.
fn pattern(size_bytes: u32, op: Op) -> Vec<u8> {
    let seed = op as u32 * 16 + 13;
    (0..size_bytes).map(|i| (i.wrapping_mul(31).wrapping_add(i >> 8).wrapping_add(seed)) as u8 | 1).collect()
}

fn shape(transport: TestTransport, size_bytes: u32) -> Shape {
    Shape { transport, qps: 1, depth: DEPTH, region_bytes: size_bytes as usize + 4096, path_mtu: None }
}
