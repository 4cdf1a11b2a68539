//! Hostile peers: none of their packets changes memory or stops other queue pairs.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use faults::Rng;
use transport::{QpState, QpType, SendOp};
use wire::{AtomicEth, Bth, Deth, Flow, Opcode, PKey, Psn, QKey, Qpn, RKey, ROCE_PORT, Reth, icrc};

use super::rig::*;

/// A program that sends RoCEv2 packets to the victim, from an address of this machine.
struct Attacker {
    socket: UdpSocket,
    flow: Flow,
}

impl Attacker {
    /// An attacker with a source and a destination address.
    fn new(source: IpAddr, destination: IpAddr) -> Attacker {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        let flow = Flow { source, destination, source_port: socket.local_addr().unwrap().port() };
        Attacker { socket, flow }
    }

    /// Sends bytes with an ICRC that is right for identification 0, which a receiver accepts
    /// for any.
    fn send(&self, ib: &[u8]) {
        let mut bytes = ib.to_vec();
        bytes.extend(icrc::compute(&self.flow, 0, ib).to_le_bytes());
        self.send_raw(&bytes);
    }

    fn send_raw(&self, bytes: &[u8]) {
        let to = SocketAddr::new(self.flow.destination, ROCE_PORT);
        self.socket.send_to(bytes, to).unwrap();
    }
}

fn bth(opcode: Opcode, dest_qpn: Qpn, psn: u32) -> Bth {
    Bth { opcode, dest_qpn, psn: Psn::new(psn), ack_req: true, pkey: PKey::DEFAULT, ..Bth::default() }
}

fn write_only(dest_qpn: Qpn, psn: u32, addr: u64, rkey: RKey, len_bytes: u32, data: &[u8]) -> Vec<u8> {
    let mut packet = bth(Opcode::RC_WRITE_ONLY, dest_qpn, psn).encode().to_vec();
    packet.extend(Reth { addr, rkey, len_bytes }.encode());
    packet.extend(data);
    packet
}

const FIRST_PSN: u32 = 0xff_fff0;

/// A pair of nodes, and an attacker that has taken the address of
/// the second one.
fn victim(group: &udp::PortGroup) -> (Node, Node, Attacker) {
    let (a, b) = pair(group, Setup::new(QpType::Rc));
    b.write(0, &pattern(1, 4096));
    let attacker = Attacker::new(a.gid.ip(), b.gid.ip());
    (a, b, attacker)
}

/// Checks that the victim still works and that its memory has not changed.
fn check_unharmed(a: &Node, b: &Node) {
    assert_eq!(b.read(0, 4096), pattern(1, 4096), "memory is untouched");
    assert_eq!(b.qp.state(), QpState::Rts);
    a.write(0, &pattern(2, 5000));
    a.send(9, SendOp::Write(b.remote(8192)), 0, 5000);
    assert_eq!(a.sent().wr_id, 9);
    assert_eq!(b.read(8192, 5000), pattern(2, 5000));
}

fn wait_for_drops(node: &Node, name: &str, count: u64) {
    wait_until(name, || node.device.counters().get(name) >= count);
}

#[test]
fn random_bytes_are_counted() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        let mut rng = Rng::for_index(1, 2);
        const COUNT: u64 = 2000;
        for _ in 0..COUNT {
            let len = 9 + rng.range(0..=1500) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let [_, x, y, z] = b.qp.qpn().get().to_be_bytes();
            bytes[5..8].copy_from_slice(&[x, y, z]);
            attacker.send_raw(&bytes);
        }
        wait_until("all to be counted", || b.device.counters().dropped() >= COUNT);
        let counters = b.device.counters();
        assert!(counters.get("drop_short") > 0 && counters.get("drop_bad_icrc") > COUNT / 2, "{counters:?}");
        check_unharmed(&a, &b);
    });
}

#[test]
fn random_packets_with_a_right_icrc_change_nothing() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        let mut rng = Rng::for_index(3, 4);
        for _ in 0..3000 {
            let len = 12 + 4 * rng.range(0..=300) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let far = rng.range(0x10_0000..=0x70_0000) as u32;
            let header = bth(Opcode(bytes[0]), b.qp.qpn(), FIRST_PSN.wrapping_add(far)).encode();
            bytes[..12].copy_from_slice(&header);
            attacker.send(&bytes);
        }
        wait_until("drops", || b.device.counters().dropped() > 1000);
        check_unharmed(&a, &b);
    });
}

#[test]
fn a_wrong_key_ends_the_queue_pair_and_touches_nothing() {
    on_loopback(|group| {
        let (_a, b, attacker) = victim(group);
        let wrong = RKey(b.mr.rkey().0.wrapping_add(0x1_0000));
        attacker.send(&write_only(b.qp.qpn(), FIRST_PSN, b.mr.addr(), wrong, 64, &[0xff; 64]));
        wait_for_drops(&b, "drop_refused", 1);
        assert_eq!(b.read(0, 4096), pattern(1, 4096));
    });
}

#[test]
fn out_of_bounds_is_refused_to_the_byte() {
    on_loopback(|group| {
        for (addr, len) in [(u64::MAX - 8, 64u32), (1 << 20, 4), ((1 << 20) - 32, 64), (0, u32::MAX), (0, 1 << 31)] {
            let (_a, b, attacker) = victim(group);
            let addr = b.mr.addr().wrapping_add(addr);
            let data = vec![0xff; len.min(64) as usize];
            attacker.send(&write_only(b.qp.qpn(), FIRST_PSN, addr, b.mr.rkey(), len, &data));
            wait_for_drops(&b, "drop_refused", 1);
            assert_eq!(b.read(0, 4096), pattern(1, 4096));
        }
    });
}

#[test]
fn a_forged_psn_is_only_counted() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        for ahead in [1, 2, 1000, 0x7f_ffff] {
            let psn = FIRST_PSN.wrapping_add(ahead) & 0xff_ffff;
            attacker.send(&write_only(b.qp.qpn(), psn, b.mr.addr(), b.mr.rkey(), 64, &[0xff; 64]));
        }
        wait_for_drops(&b, "drop_out_of_sequence", 4);
        check_unharmed(&a, &b);
    });
}

#[test]
fn packets_from_another_source_are_only_counted() {
    on_loopback(|group| {
        let (a, b, _) = victim(group);
        let attacker = Attacker::new([127, 0, 0, 9].into(), b.gid.ip());
        attacker.send(&write_only(b.qp.qpn(), FIRST_PSN, b.mr.addr(), b.mr.rkey(), 64, &[0xff; 64]));
        wait_for_drops(&b, "drop_wrong_source", 1);
        check_unharmed(&a, &b);
    });
}

#[test]
fn truncated_packets_are_counted_by_reason() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        let whole = write_only(b.qp.qpn(), FIRST_PSN, b.mr.addr(), b.mr.rkey(), 64, &[0xff; 64]);
        for len in 12..28 {
            attacker.send(&whole[..len]);
        }
        wait_for_drops(&b, "drop_truncated", 16);
        attacker.send(&whole[..29]);
        wait_for_drops(&b, "drop_malformed", 1);
        for len in [0, 1, 5, 15] {
            attacker.send_raw(&whole[..len]);
        }
        attacker.send(&bth(Opcode(0xff), b.qp.qpn(), FIRST_PSN).encode());
        wait_for_drops(&b, "drop_unknown_opcode", 1);
        check_unharmed(&a, &b);
    });
}

#[test]
fn packets_for_unknown_queue_pairs_and_other_slots_are_counted() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        let stranger = Qpn::from_parts(2, b.qp.qpn().index().wrapping_add(77));
        attacker.send(&write_only(stranger, FIRST_PSN, b.mr.addr(), b.mr.rkey(), 64, &[0xff; 64]));
        wait_for_drops(&b, "drop_unknown_qp", 1);
        let atomic = AtomicEth { addr: b.mr.addr(), rkey: b.mr.rkey(), swap_or_add: 1, compare: 0 };
        let mut packet = bth(Opcode::UC_SEND_ONLY, b.qp.qpn(), FIRST_PSN).encode().to_vec();
        packet.extend([0; 4]);
        attacker.send(&packet);
        wait_for_drops(&b, "drop_wrong_service", 1);
        let mut packet = bth(Opcode::RC_FETCH_ADD, b.qp.qpn(), FIRST_PSN + 5).encode().to_vec();
        packet.extend(atomic.encode());
        attacker.send(&packet);
        wait_for_drops(&b, "drop_out_of_sequence", 1);
        check_unharmed(&a, &b);
    });
}

#[test]
fn datagrams_without_the_queue_key_are_dropped() {
    on_loopback(|group| {
        let (_a, b) = pair(group, Setup::new(QpType::Ud));
        b.post_recv(1, 0, 4096);
        let attacker = Attacker::new(b.gid.ip(), b.gid.ip());
        for guess in 0..100u32 {
            let mut packet = bth(Opcode::UD_SEND_ONLY, b.qp.qpn(), guess).encode().to_vec();
            packet.extend(Deth { qkey: QKey(guess), src_qpn: Qpn::new(3) }.encode());
            packet.extend([0xff; 64]);
            attacker.send(&packet);
        }
        wait_for_drops(&b, "drop_qkey", 100);
        assert!(b.recv_cq.is_empty());
        assert_eq!(b.read(0, 200), [0; 200]);
    });
}

#[test]
fn a_flood_from_outside_does_not_stop_a_transfer() {
    on_loopback(|group| {
        let (a, b, attacker) = victim(group);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let packet = write_only(b.qp.qpn(), FIRST_PSN + 0x40_0000, 0, RKey(1), 1024, &[0xff; 1024]);
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    attacker.send(&packet);
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            });
            for message in 0..50 {
                a.write(0, &pattern(message, 50_000));
                a.send(1, SendOp::Write(b.remote(8192)), 0, 50_000);
                a.sent();
                assert_eq!(b.read(8192, 50_000), pattern(message, 50_000));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}
