//! Operations under injected faults, and captures that other programs can read.

use std::path::{Path, PathBuf};
use std::process::Command;

use transport::{AtomicOp, QpType, SendOp};

use super::rig::*;
use crate::FaultPlan;

fn plan(text: &str) -> FaultPlan {
    text.parse().unwrap()
}

const ROUGH: &str = "seed=7,loss=0.05,dup=0.03,reorder=0.05,corrupt=0.01";

fn rough_pair(group: &udp::PortGroup, setup: Setup) -> (Node, Node) {
    let (a, b) = pair(group, setup);
    a.device.set_faults(Some(plan(ROUGH)));
    b.device.set_faults(Some(plan("seed=8,loss=0.05,dup=0.03,reorder=0.05,corrupt=0.01")));
    (a, b)
}

#[test]
fn reliable_sends_survive() {
    on_loopback(|group| {
        let (a, b) = rough_pair(group, Setup::new(QpType::Rc));
        for message in 0..60 {
            let data = pattern(message, 20_000);
            b.post_recv(message as u64, 0, data.len());
            a.write(0, &data);
            a.send(message as u64, SendOp::Send, 0, data.len());
            assert_eq!(b.received().wr_id, message as u64);
            assert_eq!(b.read(0, data.len()), data);
            assert_eq!(a.sent().wr_id, message as u64);
        }
        let counters = a.device.counters();
        assert!(counters.get("fault_lost") > 0 && counters.get("fault_held") > 0, "{counters:?}");
        assert!(counters.get("fault_duplicated") > 0 && counters.get("fault_corrupted") > 0, "{counters:?}");
        assert!(b.device.counters().get("drop_bad_icrc") > 0, "{:?}", b.device.counters());
        assert!(a.qp.counters().retransmitted_packets > 0);
    });
}

#[test]
fn reliable_reads_and_writes_survive() {
    on_loopback(|group| {
        let (a, b) = rough_pair(group, Setup::new(QpType::Rc));
        for message in 0..20 {
            let data = pattern(message, 100_000);
            a.write(0, &data);
            a.send(1, SendOp::Write(b.remote(0)), 0, data.len());
            a.send(2, SendOp::Read(b.remote(0)), 200_000, data.len());
            a.sent();
            a.sent();
            assert_eq!(b.read(0, data.len()), data);
            assert_eq!(a.read(200_000, data.len()), data);
        }
    });
}

#[test]
fn atomics_happen_once() {
    on_loopback(|group| {
        let (a, b) = rough_pair(group, Setup::new(QpType::Rc));
        for expected in 0..400u64 {
            a.send(1, SendOp::Atomic(b.remote(64), AtomicOp::FetchAdd { add: 1 }), 0, 8);
            a.sent();
            assert_eq!(a.read(0, 8), expected.to_ne_bytes());
        }
    });
}

#[test]
fn a_requester_retries_when_the_receiver_is_not_ready() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        b.device.set_faults(Some(plan("seed=1,rnr=0.4")));
        for message in 0..50 {
            b.post_recv(message, 0, 100);
            a.send(message, SendOp::Send, 0, 100);
            assert_eq!(b.received().wr_id, message);
            a.sent();
        }
        assert!(b.device.counters().get("fault_receiver_not_ready") > 0);
        assert!(a.qp.counters().rx_rnr_naks > 0);
        assert_eq!(b.device.faults(), Some(plan("seed=1,rnr=0.4")));
    });
}

#[test]
fn delays_are_kept_and_end_with_the_plan() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.device.set_faults(Some(plan("delay=20ms")));
        let start = std::time::Instant::now();
        a.send(1, SendOp::Write(b.remote(0)), 0, 100);
        a.sent();
        assert!(start.elapsed() >= std::time::Duration::from_millis(20));
        a.device.set_faults(Some(plan("delay=3600s")));
        a.send(2, SendOp::Write(b.remote(0)), 0, 100);
        a.device.set_faults(None);
        assert_eq!(a.sent().wr_id, 2, "what waited was let go");
    });
}

#[test]
fn unreliable_messages_arrive_whole_or_not_at_all() {
    on_loopback(|group| {
        let (a, b) = rough_pair(group, Setup::new(QpType::Uc));
        const LEN: usize = 3000;
        const MESSAGES: usize = 200;
        for message in 0..MESSAGES {
            b.post_recv(message as u64, message * LEN, LEN);
        }
        for message in 0..MESSAGES {
            a.write(0, &pattern(message, LEN));
            a.send(1, SendOp::SendImm(message as u32), 0, LEN);
            a.sent();
        }
        let mut out = Vec::new();
        wait_until("quiet", || b.recv_cq.poll(&mut out, 100).unwrap() == 0 && out.len() > MESSAGES / 4);
        assert!(out.len() < MESSAGES, "some were lost");
        for completion in out.iter().filter(|c| c.status == transport::Status::Success) {
            let message = completion.imm.unwrap() as usize;
            assert_eq!(b.read(completion.wr_id as usize * LEN, LEN), pattern(message, LEN), "message {message}");
        }
    });
}

/// A file that is deleted when this is dropped.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> TempFile {
        TempFile(std::env::temp_dir().join(format!("longarm-{}-{name}", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The output of tshark for a capture.
fn tshark(file: &Path, args: &[&str]) -> Vec<String> {
    let output = Command::new("tshark").arg("-r").arg(file).args(args).output().expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_reads_a_capture() {
    on_loopback(|group| {
        let file = TempFile::new("capture.pcapng");
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        assert_eq!(a.device.capture(&file.0).unwrap(), file.0);
        let other = b.device.capture(&file.0).unwrap();
        assert_ne!(other, file.0, "one file is not written by two");
        b.post_recv(1, 0, 5000);
        a.send(1, SendOp::SendImm(7), 0, 5000);
        a.sent();
        a.send(2, SendOp::Read(b.remote(0)), 0, 3000);
        a.sent();
        a.send(3, SendOp::Atomic(b.remote(0), AtomicOp::FetchAdd { add: 1 }), 0, 8);
        a.sent();
        a.device.stop_capture();
        b.device.stop_capture();
        let _other = TempFile(other.clone());
        for file in [&file.0, &other] {
            assert!(tshark(file, &["-Y", "_ws.malformed"]).is_empty());
            let opcodes = tshark(file, &["-T", "fields", "-e", "infiniband.bth.opcode"]);
            assert!(opcodes.iter().all(|opcode| !opcode.is_empty()), "all of it is RoCE: {opcodes:?}");
            // SEND First, READ request, FETCH ADD and its response.
            for opcode in ["0", "12", "20", "18"] {
                assert!(opcodes.iter().any(|seen| seen == opcode), "{opcode} in {opcodes:?}");
            }
        }
        let counted = a.device.counters();
        let packets = tshark(&file.0, &[]).len() as u64;
        assert_eq!(packets, counted.get("captured_packets"));
    });
}

#[test]
pub(crate) fn every_captured_icrc_is_right() {
    on_loopback(|group| {
        let file = TempFile::new("icrc.pcapng");
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.device.capture(&file.0).unwrap();
        for _ in 0..3 {
            a.send(1, SendOp::Write(b.remote(0)), 0, 200_000);
            a.sent();
        }
        a.device.stop_capture();
        let packets = left(&file.0).len();
        assert!(packets > 586, "{packets}");
    });
}

/// The packets that have left according to our own capture: PSN and IPv4 identification.
fn left(file: &Path) -> Vec<(u32, u16)> {
    let bytes = std::fs::read(file).unwrap();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(bytes.as_slice()).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        let Some(packet) = block.unwrap().into_enhanced_packet() else { continue };
        let frame = wire::frame::decode(&packet.data).expect("a frame");
        let check = wire::icrc::check(&frame.flow, frame.payload, frame.identification);
        assert_eq!(check, wire::icrc::Check::Good);
        let ib = &frame.payload[..frame.payload.len() - wire::ICRC_LEN];
        packets.push((wire::Packet::parse(ib).unwrap().bth().psn.get(), frame.identification));
    }
    packets
}

#[test]
fn a_seed_decides_on_packets_in_the_order_of_staging() {
    on_loopback(|group| {
        const PACKETS: usize = 300;
        let file = TempFile::new("order.pcapng");
        let (a, b) = pair(group, Setup::new(QpType::Uc));
        let plan = plan("seed=5,loss=0.03,dup=0.03");
        a.device.set_faults(Some(plan));
        a.device.capture(&file.0).unwrap();
        let first = a.qp.query().sq_psn.get();
        let mtu = a.qp.query().path_mtu.bytes() as usize;
        a.send(1, SendOp::Write(b.remote(0)), 0, PACKETS * mtu);
        a.sent();
        a.device.stop_capture();
        let injector = faults::Injector::new(plan);
        let copies = |verdict: faults::Verdict| if verdict.drop { 0 } else { 1 + usize::from(verdict.duplicate) };
        let expected: Vec<u32> = (0..PACKETS as u64)
            .flat_map(|k| std::iter::repeat_n((first + k as u32) & 0xff_ffff, copies(injector.verdict(k))))
            .collect();
        let left = left(&file.0);
        assert_eq!(left.iter().map(|(psn, _)| *psn).collect::<Vec<_>>(), expected);
        let groups = left.iter().filter(|(_, identification)| *identification == 0).count();
        assert!(groups <= 300 / 8, "{groups} groups for {} packets", left.len());
    });
}

#[test]
fn packets_without_a_fault_leave_in_groups() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.device.set_faults(Some(plan("seed=3,loss=0.01,dup=0.005,reorder=0.005,corrupt=0.005")));
        for message in 0..40 {
            let data = pattern(message, 200_000);
            a.write(0, &data);
            a.send(1, SendOp::Write(b.remote(0)), 0, data.len());
            a.sent();
            assert_eq!(b.read(0, data.len()), data);
        }
        let counters = a.device.counters();
        let (packets, groups) = (counters.get("tx_packets"), counters.get("tx_groups"));
        assert!(counters.get("fault_lost") > 0 && counters.get("fault_held") > 0, "{counters:?}");
        assert!(counters.get("fault_duplicated") > 0 && counters.get("fault_corrupted") > 0, "{counters:?}");
        assert!(packets > 4 * groups, "{packets} packets in {groups} groups");
    });
}

#[test]
fn a_capture_has_the_packets_that_faults_leave() {
    on_loopback(|group| {
        let file = TempFile::new("faults.pcapng");
        let (a, b) = pair(group, Setup::new(QpType::Uc));
        a.device.set_faults(Some(plan("loss=1")));
        a.device.capture(&file.0).unwrap();
        a.send(1, SendOp::Write(b.remote(0)), 0, 10_000);
        a.sent();
        a.device.stop_capture();
        assert!(tshark(&file.0, &[]).is_empty(), "what is lost does not leave");
        assert!(a.device.counters().get("fault_lost") >= 10);
    });
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    on_loopback(|group| {
        let a = crate::testing::open(group, 1, "lo");
        let error = a.capture("/nonexistent/directory/file").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/directory/file"), "{error}");
    });
}
