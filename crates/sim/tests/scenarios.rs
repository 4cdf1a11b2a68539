//! Scenarios made by hand, each for one thing that is known to be hard.

use core::time::Duration;

use longarm_sim::{
    Blow, Crash, EndSpec, Ending, Kind, Mix, Partition, Profile, QpType, RecvPolicy, Report, Scenario, Sizes, Strike,
    World, run,
};
use transport::{Mtu, Time};
use wire::{Opcode, Psn};

/// Runs a scenario under several seeds; all its rules must hold each time.
fn passes(scenario: &Scenario) -> Report {
    let reports: Vec<Report> = (0..4)
        .map(|seed| {
            let scenario = Scenario { seed, ..scenario.clone() };
            run(&mut World::new(scenario.clone(), false)).unwrap_or_else(|reason| panic!("{scenario}{reason}"))
        })
        .collect();
    reports.into_iter().next_back().expect("at least one run")
}

fn lose(opcode: Opcode, which: core::ops::Range<u64>) -> Strike {
    Strike { opcode, which, blow: Blow::Lose }
}

/// All messages have this length.
fn exactly(len_bytes: u32) -> Sizes {
    Sizes { profile: Profile::Fixed, max_send_bytes: len_bytes, max_rdma_bytes: len_bytes }
}

const ATOMICS: [Kind; 4] = [Kind::PrivateAdd, Kind::PrivateSwap, Kind::SharedAdd, Kind::SharedSwap];

#[test]
fn lost_answers_of_atomics() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    scenario.ends[0].mix = Mix::only(&ATOMICS);
    scenario.ends[1].mix = Mix::only(&ATOMICS);
    scenario.ends[1].messages = 100;
    for first in [0, 7, 20, 90] {
        scenario.faults.strikes.push(lose(Opcode::RC_ATOMIC_ACKNOWLEDGE, first..first + 3));
    }
    assert!(passes(&scenario).retransmitted >= 4);
    // More are lost than arrive.
    scenario.faults.strikes.clear();
    scenario.faults.plan.loss = 0.3;
    scenario.faults.plan.dup = 0.3;
    assert_eq!(passes(&scenario).sends, 200);
}

#[test]
fn lost_middle_of_reads() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    scenario.ends[0].mix = Mix::only(&[Kind::Read]);
    scenario.ends[0].sizes = exactly(64 << 10);
    scenario.faults.strikes = vec![
        lose(Opcode::RC_READ_RESPONSE_FIRST, 2..3),
        lose(Opcode::RC_READ_RESPONSE_MIDDLE, 5..6),
        lose(Opcode::RC_READ_RESPONSE_MIDDLE, 40..50),
        lose(Opcode::RC_READ_RESPONSE_LAST, 7..9),
        lose(Opcode::RC_READ_REQUEST, 20..22),
    ];
    let report = passes(&scenario);
    assert_eq!(report.sends, 100);
    assert!(report.retransmitted > 0);
}

#[test]
fn a_receiver_that_is_never_ready() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    scenario.ends[0].mix = Mix::only(&[Kind::Send, Kind::SendImm, Kind::WriteImm, Kind::Read, Kind::SharedAdd]);
    scenario.ends[1].caps.max_recv_wr = 2;
    scenario.ends[1].recv = RecvPolicy::Late(Duration::from_millis(1));
    scenario.faults.plan.rnr = 0.5;
    scenario.faults.plan.loss = 0.01;
    let report = passes(&scenario);
    assert_eq!(report.sends, 100);
    assert!(report.nodes[1].dropped["receiver_not_ready"] > 50);
}

#[test]
fn everything_twice() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut scenario = Scenario::plain(service, 1);
        scenario.ends[1].messages = 100;
        scenario.faults.plan.dup = 1.0;
        scenario.faults.plan.reorder = 0.1;
        let report = passes(&scenario);
        assert_eq!(report.sends, 200);
        assert_eq!(report.fabric.duplicated, report.fabric.sent);
    }
}

#[test]
fn sequence_numbers_wrap_within_messages() {
    for service in [QpType::Rc, QpType::Uc] {
        for distance in [1, 2, 50, 700, 1023, 1024, 1025] {
            let mut scenario = Scenario::plain(service, 1);
            scenario.mtu = Mtu::B256;
            scenario.ends[0].first_psn = Psn::new(0).sub(distance);
            scenario.ends[0].messages = 3;
            scenario.ends[0].sizes = exactly(256 << 10);
            scenario.faults.plan.loss = if service == QpType::Rc { 0.01 } else { 0.0001 };
            assert_eq!(passes(&scenario).sends, 3);
        }
    }
}

#[test]
fn one_packet_in_twenty_is_lost() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    for end in &mut scenario.ends {
        end.messages = 150;
        end.drains = true;
        end.signal = longarm_sim::Signal::Some(0.1);
    }
    scenario.faults.plan.loss = 0.05;
    scenario.faults.plan.reorder = 0.02;
    scenario.faults.plan.dup = 0.01;
    let report = passes(&scenario);
    assert_eq!(report.sends, 300);
    assert!(report.ended < Time(0) + Duration::from_secs(5), "{:?}", report.ended);
}

/// Sixteen nodes send to one whose receive buffer holds a fraction of their windows.
#[test]
fn incast_into_a_small_receive_buffer() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    scenario.nodes = 17;
    scenario.fabric.rx_buffer_bytes = 64 << 10;
    scenario.ends = (0..16)
        .flat_map(|i| {
            let mut sender = EndSpec::plain(QpType::Rc, i + 1, Some(2 * i + 1));
            sender.mix = Mix::only(&[Kind::Write, Kind::Send]);
            sender.messages = 4;
            sender.sizes = exactly(256 << 10);
            let receiver = EndSpec { messages: 0, ..EndSpec::plain(QpType::Rc, 0, Some(2 * i)) };
            [sender, EndSpec { sizes: exactly(256 << 10), ..receiver }]
        })
        .collect();
    let report = passes(&scenario);
    assert_eq!(report.sends, 16 * 4);
    assert!(report.nodes[0].overflowed > 0, "the buffer was never full");
    // 16 MiB at 8 GB/s would take 2 ms.
    assert!(report.ended < Time(0) + Duration::from_secs(2), "{:?}", report.ended);
}

/// The survivor's requests all fail, within retries times timeout.
#[test]
fn a_crash_is_noticed_in_bounded_time() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    scenario.temper = longarm_sim::Temper::Fatal;
    scenario.ends[0].retry_count = 3;
    scenario.ends[0].sizes = exactly(64 << 10);
    scenario.faults.crash = Some(Crash { node: 1, at: Time(300_000) });
    let report = passes(&scenario);
    assert_eq!(report.failures, 1);
    let timeout = wire::ack_timeout(14).expect("a timeout");
    assert!(report.ended < Time(300_000) + timeout * 5, "{:?}", report.ended);
}

/// A break shorter than the retries of both: neither end notices. Longer: both ends fail, and flush.
#[test]
fn partitions_short_and_long() {
    let timeout = wire::ack_timeout(14).expect("a timeout");
    for (times, deaths) in [(5, 0), (20, 2)] {
        let mut scenario = Scenario::plain(QpType::Rc, 1);
        scenario.temper = if deaths == 0 { longarm_sim::Temper::Stormy } else { longarm_sim::Temper::Fatal };
        for end in &mut scenario.ends {
            (end.messages, end.sizes) = (100, exactly(64 << 10));
        }
        let from = Time(200_000);
        scenario.faults.partitions.push(Partition { a: 0, b: 1, from, until: from + timeout * times });
        assert_eq!(passes(&scenario).failures, deaths);
    }
}

/// Every request without a right kills its connection, and changes nothing.
#[test]
fn no_right_no_effect() {
    for ending in Ending::REFUSED_BY_PEER.into_iter().chain(Ending::REFUSED_HERE) {
        let mut scenario = Scenario::plain(QpType::Rc, 1);
        scenario.temper = longarm_sim::Temper::Fatal;
        scenario.ends[0].messages = 20;
        scenario.ends[0].ending = ending;
        let report = passes(&scenario);
        let by_peer = Ending::REFUSED_BY_PEER.contains(&ending);
        assert_eq!(report.failures, if by_peer { 2 } else { 1 }, "{ending:?}");
        assert_eq!(report.sends, 20, "{ending:?}: what came before was done");
    }
}

/// Half of all UC messages and datagrams ask for what they may not; the other half arrives.
#[test]
fn rogues_are_dropped_and_others_are_not() {
    for service in [QpType::Uc, QpType::Ud] {
        let mut scenario = Scenario::plain(service, 1);
        scenario.ends[0].rogue = 0.5;
        scenario.ends[0].messages = 200;
        scenario.ends[0].sizes.max_send_bytes = 2000;
        scenario.ends[0].sizes.max_rdma_bytes = 2000;
        scenario.ends[0].mix = Mix::only(&[Kind::Send]);
        for end in &mut scenario.ends {
            end.caps.max_recv_wr = 400;
        }
        let report = passes(&scenario);
        assert!((50..150).contains(&report.receives), "{service:?}: {} received", report.receives);
    }
}

#[test]
fn tiny_windows_and_queues_still_finish() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    for end in &mut scenario.ends {
        (end.tuning.window_initial_bytes, end.tuning.window_max_bytes) = (1, 1);
        (end.caps.max_send_wr, end.caps.max_recv_wr, end.rd_atomic) = (1, 1, 1);
        end.messages = 30;
    }
    scenario.faults.plan.loss = 0.02;
    assert_eq!(passes(&scenario).sends, 60);
}

#[test]
fn extended_connections_share_a_receive_queue() {
    let mut scenario = Scenario::plain(QpType::Rc, 1);
    for pair in 1..4 {
        scenario.ends.push(EndSpec::plain(QpType::Rc, 0, Some(2 * pair + 1)));
        scenario.ends.push(EndSpec::plain(QpType::Rc, 1, Some(2 * pair)));
    }
    for end in &mut scenario.ends {
        end.drains = true;
    }
    let mut scenario = scenario.extended();
    assert_eq!(passes(&scenario).sends, 400);
    scenario.faults.plan.loss = 0.03;
    scenario.faults.plan.dup = 0.03;
    scenario.faults.plan.reorder = 0.05;
    scenario.faults.plan.rnr = 0.05;
    let report = passes(&scenario);
    assert_eq!(report.sends, 400);
    assert!(report.retransmitted > 0 && report.receives > 0);
    assert!(report.seen.contains_key("XRC_SEND_FIRST") && report.seen.contains_key("XRC_READ_RESPONSE_MIDDLE"));
}

#[test]
fn seeds_with_extended_connections() {
    for seed in longarm_sim::seeds(QpType::Rc).take(30) {
        let scenario = Scenario::generate(seed).extended();
        run(&mut World::new(scenario.clone(), false)).unwrap_or_else(|reason| panic!("{scenario}{reason}"));
    }
}
