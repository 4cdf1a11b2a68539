//! Captures of messages through shared memory, as the packets that the wire would have carried.

#[path = "support/captured.rs"]
mod captured;
#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use captured::{Captured, packets, tshark};
use longarm_device::{
    AtomicOp, QpState, QpType, Qpn, RKey, RemoteAddr, SendFlags, SendOp, SendWr, Status, UdDestination,
};
use support::place::with_hub;
use support::{End, Other, QKEY, heard, meet, open, say};
use testkit::wait_until;
use wire::{NakCode, Opcode, Syndrome};

const LEN: usize = 10 << 10;
/// The offset at which messages arrive.
const INBOX: usize = 1 << 17;
/// The first PSN of every queue pair here.
const FIRST_PSN: u32 = 5;

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("longarm-capture-{name}-{}.pcapng", std::process::id()))
}

/// A file that is deleted with this value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pattern() -> Vec<u8> {
    (0..LEN).map(|at| (at / 3) as u8).collect()
}

/// Posts a request and waits for its end.
fn carry_out(end: &End, op: SendOp, len: usize) {
    end.post(op, 0, len).unwrap();
    end.wait(1);
}

/// Checks that no packet has left.
fn sent_no_packets(end: &End) {
    let counters = end.device.counters();
    assert_eq!((counters.get("tx_packets"), counters.get("capture_errors")), (0, 0), "{counters:?}");
}

/// Checks that tshark finds no error in the file, and the same packets as our decoder.
fn others_see_the_same(path: &Path, packets: &[Captured]) {
    assert_eq!(tshark(path, &["-Y", "_ws.malformed || _ws.expert.severity == error"]), Vec::<String>::new());
    let seen = tshark(path, &["-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn"]);
    let ours: Vec<String> =
        packets.iter().map(|packet| format!("{}\t{}", packet.bth.opcode.0, packet.bth.psn.get())).collect();
    assert_eq!(seen, ours);
    let of_memory = tshark(path, &["-Y", "frame.interface_description == \"same host, shared memory (no packets)\""]);
    assert_eq!(of_memory.len(), packets.len());
}

fn requests(packets: &[Captured], outbound: bool) -> Vec<(Opcode, u32)> {
    let wanted = packets.iter().filter(|packet| packet.outbound == outbound && packet.is_request());
    wanted.map(|packet| (packet.bth.opcode, packet.bth.psn.get())).collect()
}

/// The opcodes with consecutive PSNs.
fn in_order(opcodes: &[Opcode], first_psn: u32) -> Vec<(Opcode, u32)> {
    opcodes.iter().zip(first_psn..).map(|(opcode, psn)| (*opcode, psn)).collect()
}

const SEND: [Opcode; 3] = [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST];

#[test]
fn a_capture_from_the_start_has_every_operation() {
    const TEST: &str = "a_capture_from_the_start_has_every_operation";
    let path = std::env::var("LONGARM_CAPTURE").unwrap_or(file(TEST).display().to_string());
    with_hub(TEST, &[("LONGARM_CAPTURE", path.as_str())], || captured_from_the_start(TEST, &path), answer);
}

fn captured_from_the_start(test: &str, path: &str) {
    let own = Temporary(path.into());
    let end = End::on(&open());
    let mut peer = Other::start(test, "peer");
    let theirs = Temporary(format!("{path}.{}", peer.child.id()).into());
    let remote = peer.connect(&end);
    peer.line("posted");
    end.fill(0, &pattern());
    end.receive(INBOX, LEN);
    let add = AtomicOp::FetchAdd { add: 1 };
    carry_out(&end, SendOp::Send, LEN);
    carry_out(&end, SendOp::Write(remote), LEN);
    carry_out(&end, SendOp::Read(remote), LEN);
    carry_out(&end, SendOp::Atomic(remote, add), 8);
    end.post(SendOp::WriteImm(remote, 7), 0, LEN).unwrap();
    // And the response.
    end.wait(2);
    peer.line("answered");
    end.post(SendOp::Write(RemoteAddr { rkey: RKey(remote.rkey.0 ^ 1), ..remote }), 0, 8).unwrap();
    assert_eq!(end.completions(1)[0].status, Status::RemoteAccess);
    peer.line("refused");
    sent_no_packets(&end);
    check_initiator(&own.0);
    check_owner(&theirs.0);
}

/// The other process: takes a SEND and a WRITE with immediate data, responds, and refuses one WRITE.
fn answer() {
    let end = End::on(&open());
    meet(&end);
    (0..2).for_each(|_| end.receive(INBOX, LEN));
    say("posted");
    end.wait(2);
    carry_out(&end, SendOp::Send, LEN);
    say("answered");
    wait_until("the refused WRITE is told", || end.qp.query().state == QpState::Error);
    sent_no_packets(&end);
    say("refused");
    heard();
}

fn check_initiator(path: &Path) {
    use Opcode as O;
    let packets = packets(path);
    let write = [O::RC_WRITE_FIRST, O::RC_WRITE_MIDDLE, O::RC_WRITE_LAST];
    let noticed = [O::RC_WRITE_FIRST, O::RC_WRITE_MIDDLE, O::RC_WRITE_LAST_IMM];
    let expected = [
        in_order(&SEND, FIRST_PSN),
        in_order(&write, FIRST_PSN + 3),
        in_order(&[O::RC_READ_REQUEST], FIRST_PSN + 6),
        // The READ has the PSNs of its response.
        in_order(&[O::RC_FETCH_ADD], FIRST_PSN + 9),
        in_order(&noticed, FIRST_PSN + 10),
        in_order(&[O::RC_WRITE_ONLY], FIRST_PSN + 13),
    ];
    assert_eq!(requests(&packets, true), expected.concat());
    assert_eq!(requests(&packets, false), in_order(&SEND, FIRST_PSN));
    let answers = packets.iter().filter(|packet| !packet.outbound && !packet.is_request());
    let with_data: Vec<(Opcode, u32)> = answers
        .map(|packet| (packet.bth.opcode, packet.bth.psn.get()))
        .filter(|of| of.0 != O::RC_ACKNOWLEDGE)
        .collect();
    let response = [O::RC_READ_RESPONSE_FIRST, O::RC_READ_RESPONSE_MIDDLE, O::RC_READ_RESPONSE_LAST];
    let expected = [in_order(&response, FIRST_PSN + 6), in_order(&[O::RC_ATOMIC_ACKNOWLEDGE], FIRST_PSN + 9)];
    assert_eq!(with_data, expected.concat());
    for opcodes in [SEND, write, response] {
        let bytes = opcodes.map(|opcode| packets.iter().find(|packet| packet.bth.opcode == opcode).unwrap());
        assert!(bytes.map(|packet| packet.payload.as_slice()).concat() == pattern(), "{opcodes:?}");
    }
    assert_eq!(refusal(&packets), (false, FIRST_PSN + 13));
    others_see_the_same(path, &packets);
}

/// The direction and the PSN of the NAK, which comes last.
fn refusal(packets: &[Captured]) -> (bool, u32) {
    let nak = packets.last().expect("packets");
    let syndrome = nak.extensions.aeth.map(|aeth| aeth.syndrome);
    assert_eq!(syndrome, Some(Syndrome::nak(NakCode::RemoteAccessError)), "{nak:?}");
    (nak.outbound, nak.bth.psn.get())
}

/// Checks the owner's capture: it has the messages that came as frames.
fn check_owner(path: &Path) {
    let packets = packets(path);
    let arrived = [&SEND[..], &[Opcode::RC_WRITE_ONLY_IMM]].concat();
    assert_eq!(requests(&packets, false), in_order(&arrived, FIRST_PSN));
    assert_eq!(requests(&packets, true), in_order(&SEND, FIRST_PSN));
    let (outbound, psn) = refusal(&packets);
    assert_eq!((outbound, psn), (true, FIRST_PSN + 4), "it has seen nothing of what lies between");
    others_see_the_same(path, &packets);
}

#[test]
fn a_capture_begins_and_ends_at_any_time() {
    const TEST: &str = "a_capture_begins_and_ends_at_any_time";
    let body = || {
        let end = End::on(&open());
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        carry_out(&end, SendOp::Write(remote), LEN);
        for name in ["first", "second"] {
            let file = Temporary(file(name));
            end.device.capture(&file.0).unwrap();
            carry_out(&end, SendOp::Write(remote), 100);
            carry_out(&end, SendOp::Read(remote), 100);
            end.device.stop_capture();
            carry_out(&end, SendOp::Write(remote), 200);
            let packets = packets(&file.0);
            let opcodes: Vec<Opcode> = packets.iter().map(|packet| packet.bth.opcode).collect();
            use Opcode as O;
            assert_eq!(opcodes, [O::RC_WRITE_ONLY, O::RC_ACKNOWLEDGE, O::RC_READ_REQUEST, O::RC_READ_RESPONSE_ONLY]);
            let psns: Vec<u32> = packets.iter().map(|packet| packet.bth.psn.get() - FIRST_PSN).collect();
            assert_eq!(psns, [0, 0, 1, 1], "{name}: the numbers begin with the capture");
            others_see_the_same(&file.0, &packets);
        }
        sent_no_packets(&end);
        assert_eq!(end.device.counters().get("captured_packets"), 8);
    };
    with_hub(TEST, &[], body, || {
        let end = End::on(&open());
        meet(&end);
        heard();
    });
}

#[test]
fn unreliable_messages_are_captured_too() {
    const TEST: &str = "unreliable_messages_are_captured_too";
    let body = || {
        let end = End::of(&open(), QpType::Uc);
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        let file = Temporary(file(TEST));
        end.device.capture(&file.0).unwrap();
        carry_out(&end, SendOp::Write(remote), LEN);
        carry_out(&end, SendOp::SendImm(9), LEN);
        peer.line("received");
        end.device.stop_capture();
        let packets = packets(&file.0);
        use Opcode as O;
        let opcodes = [
            [O::UC_WRITE_FIRST, O::UC_WRITE_MIDDLE, O::UC_WRITE_LAST],
            [O::UC_SEND_FIRST, O::UC_SEND_MIDDLE, O::UC_SEND_LAST_IMM],
        ];
        assert_eq!(requests(&packets, true), in_order(opcodes.as_flattened(), FIRST_PSN));
        assert_eq!(packets.len(), 6, "nobody acknowledges");
        others_see_the_same(&file.0, &packets);
        sent_no_packets(&end);
    };
    with_hub(TEST, &[], body, || {
        let end = End::of(&open(), QpType::Uc);
        meet_with(&end, || end.receive(INBOX, LEN));
        end.wait(1);
        say("received");
        heard();
    });
}

/// Does the same as [`meet`], and calls `ready` before the other process continues.
fn meet_with(end: &End, ready: impl FnOnce()) {
    say(&format!("peer {}", end.describe()));
    end.connect(&heard());
    ready();
    say("ready");
}

#[test]
fn datagrams_are_captured_as_they_went() {
    const TEST: &str = "datagrams_are_captured_as_they_went";
    let body = || {
        let device = open();
        let mut peer = Other::start(TEST, "peer");
        // This makes a link: the first datagram would not wait long for one.
        let connected = End::on(&device);
        peer.connect(&connected);
        let end = End::of(&device, QpType::Ud);
        let line = peer.line("peer ");
        end.connect(&line);
        let file = Temporary(file(TEST));
        end.device.capture(&file.0).unwrap();
        end.receive(INBOX, 2000);
        peer.tell(&end.describe());
        peer.line("ready");
        let to = Qpn::new(line.split_whitespace().next().unwrap().parse().unwrap());
        send_datagram(&end, to, 500);
        // It has left, and the response has come.
        end.wait(2);
        sent_no_packets(&end);
        end.device.stop_capture();
        let packets = packets(&file.0);
        assert_eq!(requests(&packets, true), [(Opcode::UD_SEND_ONLY, FIRST_PSN)]);
        assert_eq!(requests(&packets, false), [(Opcode::UD_SEND_ONLY, FIRST_PSN)]);
        let sources: Vec<Option<Qpn>> =
            packets.iter().map(|packet| packet.extensions.deth.map(|deth| deth.src_qpn)).collect();
        assert_eq!(sources, [Some(end.qp.qpn()), Some(to)]);
        assert_eq!(packets.iter().map(|packet| packet.payload.len()).collect::<Vec<_>>(), [500, 700]);
        others_see_the_same(&file.0, &packets);
    };
    with_hub(TEST, &[], body, || {
        let device = open();
        let connected = End::on(&device);
        meet(&connected);
        let end = End::of(&device, QpType::Ud);
        say(&format!("peer {}", end.describe()));
        let line = heard();
        end.connect(&line);
        end.receive(INBOX, 2000);
        say("ready");
        end.wait(1);
        send_datagram(&end, Qpn::new(line.split_whitespace().next().unwrap().parse().unwrap()), 700);
        end.wait(1);
        heard();
    });
}

fn send_datagram(end: &End, to: Qpn, len: usize) {
    let gid = end.device.port().gids[0];
    let address = longarm_device::AddressVector::new(gid, gid);
    let datagram = Some(Box::new(UdDestination { address, remote_qpn: to, remote_qkey: QKEY }));
    let payload = longarm_device::Payload::Sgl([end.sge(0, len)].into_iter().collect());
    let flags = SendFlags::SIGNALED;
    end.qp.post_send([SendWr { wr_id: 1, op: SendOp::Send, flags, payload, datagram, xrc_srq: None }]).unwrap();
}
