//! Devices of ordinary processes, which attach to a hub that the first of them starts.
//!
//! Each test runs the test binary again, with a directory for the hub in its environment. That
//! process runs it once more for the process at the other end.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;

use longarm_device::{AsyncEvent, Device, OpenError, OpenOptions, Qp, QpCaps, QpSpec, QpType, RemoteAddr, SendOp};
use rustix::process::{Pid, Signal, kill_process};
use support::{End, Other, heard, meet, open, place};
use testkit::wait_until;

const LEN: usize = 50_000;

fn with_hub(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    place::with_hub(test, variables, body, be_peer);
}

/// Writes a pattern to the peer and reads it back.
fn round_trip(end: &End, remote: RemoteAddr, seed: u8) {
    let data: Vec<u8> = (0..LEN).map(|at| (at / 3) as u8 ^ seed).collect();
    end.fill(0, &data);
    for (op, offset) in [(SendOp::Write(remote), 0), (SendOp::Read(remote), LEN)] {
        end.post(op, offset, LEN).unwrap();
        end.wait(1);
    }
    assert!(end.bytes(LEN, LEN) == data, "what was written is read back");
}

/// The other process: connects as often as it is told to, and lives until the first process closes its input.
fn be_peer() {
    let device = open();
    let mut ends = Vec::new();
    while ends.is_empty() || !heard().is_empty() {
        let end = End::on(&device);
        meet(&end);
        ends.push(end);
    }
}

#[test]
fn two_processes_meet_at_a_hub() {
    const TEST: &str = "two_processes_meet_at_a_hub";
    with_hub(TEST, &[], || {
        let end = End::on(&open());
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        for seed in 0..5 {
            round_trip(&end, remote, seed);
        }
        let count = |name| end.device.counters().get(name);
        assert_eq!(["shm_writes", "shm_reads", "tx_packets"].map(count), [5, 5, 0]);
        // Counted after it is in use.
        wait_until("the link is counted", || count("shm_links") == 1);
        // A few are not published yet.
        assert!(counted("shm_reads").iter().sum::<u64>() >= 3);
    });
}

#[test]
fn two_processes_use_the_wire_if_they_want_to() {
    const TEST: &str = "two_processes_use_the_wire_if_they_want_to";
    with_hub(TEST, &[("LONGARM_LOCAL", "off")], || {
        let end = End::on(&open());
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        for seed in 0..5 {
            round_trip(&end, remote, seed);
        }
        assert!(counted("rx_packets").iter().all(|count| *count > 60));
        assert_eq!(counted("shm_links"), [0, 0]);
    });
}

/// A counter of both processes, as the hub sees it.
fn counted(name: &str) -> Vec<u64> {
    let status = hub::client::status(None).unwrap();
    assert_eq!(status.clients.len(), 2, "{status:?}");
    status.clients.iter().filter_map(|client| client.counters.as_ref()?.get(name)).collect()
}

#[test]
fn the_hub_may_die() {
    const TEST: &str = "the_hub_may_die";
    with_hub(TEST, &[], || {
        let end = End::on(&open());
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        round_trip(&end, remote, 1);
        let first = hub::client::status(None).unwrap().pid;
        kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
        round_trip(&end, remote, 2);
        wait_until("both are known to a new hub", || {
            hub::client::status(None).is_ok_and(|status| status.pid != first && status.clients.len() == 2)
        });
        round_trip(&end, remote, 3);
        let mut another = Other::start(TEST, "peer");
        let other_end = End::on(&open());
        let remote = another.connect(&other_end);
        round_trip(&other_end, remote, 4);
        assert!(std::iter::from_fn(|| end.device.next_event()).all(|event| event != AsyncEvent::DeviceFatal));
    });
}

/// Makes queue pairs without connections, until one has another slot than `slot`.
fn fill_slot(device: &Device, slot: u8) -> Vec<Qp> {
    let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(1, None, 0).unwrap());
    let caps = QpCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
    let (send_cq, recv_cq, qp_type) = (&cq, &cq, QpType::Rc);
    let spec = QpSpec { qp_type, pd: &pd, send_cq, recv_cq, srq: None, caps, signal_all: true };
    let mut qps = Vec::new();
    while qps.last().is_none_or(|qp: &Qp| qp.qpn().slot() == slot) {
        qps.push(device.create_qp(&spec).unwrap());
    }
    qps
}

/// With the first slot full, two queue pairs on the second slot connect: one to a process with a link to this
/// one, the other to a process without one.
fn on_two_slots(test: &str) {
    let device = open();
    let first = End::on(&device);
    let mut peer = Other::start(test, "peer");
    round_trip(&first, peer.connect(&first), 1);
    let slot = first.qp.qpn().slot();
    let others = fill_slot(&device, slot);
    assert_eq!(others.len(), 65_534, "numbers of a slot: all but 0, 1 and the first end's; one of the next");
    let second = End::on(&device);
    assert_ne!(second.qp.qpn().slot(), slot);
    peer.tell("another");
    let remote = peer.connect(&second);
    round_trip(&second, remote, 2);
    let third = End::on(&device);
    let mut stranger = Other::start(test, "peer");
    round_trip(&third, stranger.connect(&third), 3);
    let slots = || Some(hub::client::status(None).ok()?.clients.iter().map(|client| client.slots.len()).sum::<usize>());
    assert_eq!(slots(), Some(4));
    let hub = hub::client::status(None).unwrap().pid;
    kill_process(Pid::from_raw(hub as i32).unwrap(), Signal::KILL).unwrap();
    round_trip(&second, remote, 4);
    wait_until("all slots are known to a new hub", || {
        slots() == Some(4) && hub::client::status(None).is_ok_and(|status| status.pid != hub)
    });
    round_trip(&second, remote, 5);
    let count = |name| device.counters().get(name);
    if std::env::var_os("LONGARM_LOCAL").is_some() {
        assert!(count("rx_packets") > 60 && count("shm_writes") == 0);
    } else {
        wait_until("all are near", || [count("shm_links"), count("shm_writes"), count("tx_packets")] == [2, 5, 0]);
    }
}

#[test]
fn a_process_may_have_more_queue_pairs_than_a_slot_has() {
    const TEST: &str = "a_process_may_have_more_queue_pairs_than_a_slot_has";
    with_hub(TEST, &[], || on_two_slots(TEST));
}

#[test]
fn packets_find_the_second_slot() {
    const TEST: &str = "packets_find_the_second_slot";
    with_hub(TEST, &[("LONGARM_LOCAL", "off")], || on_two_slots(TEST));
}

#[test]
fn a_process_may_begin_with_several_slots() {
    const TEST: &str = "a_process_may_begin_with_several_slots";
    with_hub(TEST, &[("LONGARM_SLOTS", "3")], || {
        let device = open();
        let mut peer = Other::start(TEST, "peer");
        let mut slots = std::collections::BTreeSet::new();
        for seed in 0..6 {
            let end = End::on(&device);
            slots.insert(end.qp.qpn().slot());
            round_trip(&end, peer.connect(&end), seed);
            peer.tell("another");
        }
        assert_eq!(slots.len(), 3);
    });
}

#[test]
fn a_process_has_one_engine() {
    with_hub("a_process_has_one_engine", &[], || {
        let names: Vec<_> = Device::list().unwrap().into_iter().map(|info| info.name).collect();
        assert!(names.iter().any(|name| name == "la_lo"), "{names:?}");
        let devices = [(); 3].map(|()| Device::open(&OpenOptions { name: Some("la_lo".into()) }).unwrap());
        assert_eq!(hub::client::status(None).unwrap().clients.len(), 1);
        drop(devices);
        wait_until("the slot is given back", || hub::client::status(None).unwrap().clients.is_empty());
        let unknown = Device::open(&OpenOptions { name: Some("la_none".into()) }).unwrap_err();
        assert!(matches!(&unknown, OpenError::NoSuchDevice { known, .. } if known.contains("la_lo")), "{unknown}");
    });
}

#[test]
fn the_environment_injects_faults_and_captures() {
    const TEST: &str = "the_environment_injects_faults_and_captures";
    let file = std::env::temp_dir().join(format!("longarm-environment-{}.pcapng", std::process::id()));
    let path = std::env::var("LONGARM_CAPTURE").unwrap_or(file.display().to_string());
    let variables = [("LONGARM_FAULTS", "seed=3,loss=0.05,reorder=0.05"), ("LONGARM_CAPTURE", path.as_str())];
    with_hub(TEST, &variables, || {
        let end = End::on(&open());
        let mut peer = Other::start(TEST, "peer");
        let remote = peer.connect(&end);
        for seed in 0..10 {
            round_trip(&end, remote, seed);
        }
        let counters = end.device.counters();
        assert!(counters.get("fault_lost") > 0 && counters.get("captured_packets") > 100, "{counters:?}");
        let captured = std::fs::metadata(&path).unwrap().len();
        assert!(captured > 10 * LEN as u64, "two processes do not write to one file");
        let of_peer = PathBuf::from(format!("{path}.{}", peer.child.id()));
        assert!(of_peer.exists());
        std::fs::remove_file(of_peer).unwrap();
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn bad_environment_variables_are_reported() {
    const TEST: &str = "bad_environment_variables_are_reported";
    let told = |name: &str| {
        let error = Device::open(&OpenOptions::default()).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.errno(), libc::EINVAL);
    };
    let body = || told(&std::env::var("NONSENSE").unwrap());
    for (name, value) in [("LONGARM_FAULTS", "lots"), ("LONGARM_SLOTS", "0"), ("LONGARM_SLOTS", "17")] {
        with_hub(TEST, &[(name, value), ("NONSENSE", name)], body);
    }
}
