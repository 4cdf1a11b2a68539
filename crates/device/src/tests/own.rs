//! The tests of the wire path with both ends in one process, and tests that need one process.

use transport::{AtomicOp, AttrMask, Mtu, QpAttr, QpState, QpType, RemoteAddr, SendOp, Status};

use super::rig::*;
use super::shm::tests_by;
use crate::testing;
use crate::testing::EnginePath;

tests_by! { OneProcess:
    operations:
        rc_send
        rc_send_over_ipv6
        rc_write
        rc_write_with_immediate
        uc_send
        uc_write
        uc_write_with_immediate
        rc_read
        an_immediate_arrives
        one_sided_requests_are_served_while_the_owner_is_away
        requests_complete_while_nobody_polls
        an_atomic_write_and_a_flush;
    completions:
        an_overrun_is_reported_and_ends_the_queue_pair
        an_overrun_spares_other_queue_pairs
        a_channel_is_readable_exactly_while_events_are_pending
        solicited_only_lets_others_pass
        a_failure_counts_as_solicited
        a_waker_is_called_once_for_each_arming
        a_waker_may_use_the_device
        unsignaled_requests_leave_no_completion;
    lifetimes:
        the_last_message_of_a_queue_pair_is_acknowledged
        children_keep_their_parents
        a_dead_region_is_dead_for_peers
        a_region_with_a_window_outlives_its_handle
        an_engine_ends_with_its_last_object;
    atomics:
        compare_and_swap_and_fetch_and_add
        the_completion_tells_which
        two_peers_lose_no_increment;
    events:
        queue_pairs_take_turns_at_a_shared_receive_queue
        the_limit_is_told_once_when_it_is_crossed
        a_failed_queue_pair_tells_that_it_takes_no_more
        a_refused_request_tells_both_sides;
    many:
        all_have_their_turn
        all_messages_have_their_turn;
    faults:
        every_captured_icrc_is_right;
    threads:
        threads_with_queue_pairs_of_their_own
        threads_that_share_a_completion_queue_lose_nothing
        one_queue_pair_used_by_many_threads_keeps_order;
    datagrams:
        datagrams_arrive_with_their_sender
        the_grh_tells_the_addresses
        a_wrong_queue_key_is_dropped_and_counted
        without_a_receive_a_datagram_is_lost_and_counted;
    on_demand:
        peers_reach_pages_that_came_after_the_registration;
}

/// Two nodes of one process.
fn both(setup: Setup, test: impl Fn(&Node, &Node) + Send + Sync) {
    by(EnginePath::OneProcess, || {
        on_loopback(|group| {
            let (a, b) = pair(group, setup);
            test(&a, &b);
            assert_eq!(a.device.counters().get("tx_packets"), 0, "{:?}", a.device.counters());
        });
    });
}

#[test]
fn no_packet_leaves() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        both(Setup::new(qp_type), |a, b| {
            a.write(0, &pattern(1, 4000));
            b.post_recv(7, 8192, GRH_BYTES + 4000);
            let mut wr = a.send_wr(6, SendOp::Send, 0, 4000);
            let mut skipped = 0;
            if qp_type == QpType::Ud {
                wr.datagram = Some(Box::new(a.datagram_to(b.gid, b.qp.qpn())));
                skipped = GRH_BYTES;
            }
            a.qp.post_send([wr]).unwrap();
            assert_eq!((b.received().wr_id, a.sent().wr_id), (7, 6));
            assert_eq!(b.read(8192 + skipped, 4000), pattern(1, 4000));
        });
    }
}

/// Its own requester and its own responder talk over one lane.
#[test]
fn a_queue_pair_talks_to_itself() {
    for len in [0, 8, 300, 5000, 100_000] {
        both(Setup::new(QpType::Rc), |a, _| {
            a.qp.modify(&QpAttr { state: QpState::Reset, ..QpAttr::default() }, AttrMask::STATE).unwrap();
            a.connect(a, Mtu::B1024);
            a.write(0, &pattern(3, len));
            a.post_recv(1, 200_000, len);
            a.send(2, SendOp::Send, 0, len);
            assert_eq!((a.received().byte_len, a.sent().wr_id), (len as u32, 2));
            a.send(3, SendOp::Write(a.remote(400_000)), 0, len);
            a.send(4, SendOp::Read(a.remote(400_000)), 600_000, len);
            a.post_recv(5, 0, 0);
            a.send(6, SendOp::WriteImm(a.remote(800_000), 9), 0, len);
            a.send(7, SendOp::Atomic(a.remote(1 << 19), AtomicOp::FetchAdd { add: 5 }), 0, 8);
            assert_eq!([a.sent().wr_id, a.sent().wr_id, a.sent().wr_id, a.sent().wr_id], [3, 4, 6, 7]);
            assert_eq!(a.received().imm, Some(9));
            for offset in [200_000, 600_000, 800_000] {
                assert_eq!(a.read(offset, len), pattern(3, len), "{offset}");
            }
        });
    }
}

/// An access without rights is refused as on the wire, and both queue pairs fail.
#[test]
fn a_refused_access_ends_both() {
    both(Setup::new(QpType::Rc), |a, b| {
        let beyond = RemoteAddr { addr: b.remote(0).addr + (1 << 20), ..b.remote(0) };
        a.send(1, SendOp::Write(beyond), 0, 8);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
        wait_for("the peer's error", || {
            b.device.progress();
            b.qp.state() == QpState::Error
        });
    });
}

/// Some threads use the two ends of connections, others destroy them at any moment.
#[test]
fn either_queue_pair_may_go_at_any_moment() {
    by(EnginePath::OneProcess, || {
        on_loopback(|group| {
            let device = testing::open(group, 1, "lo");
            let setup = Setup { memory_bytes: 1 << 14, ..Setup::new(QpType::Rc) };
            std::thread::scope(|scope| {
                for thread in 0..4usize {
                    let device = device.clone();
                    scope.spawn(move || {
                        for round in 0..40 {
                            let (a, b) = (Node::new(device.clone(), setup), Node::new(device.clone(), setup));
                            link(&a, &b);
                            for id in 0..8 {
                                b.post_recv(id, 0, 4000);
                                a.send(id, SendOp::Send, 4096, 3000);
                                a.send(id, SendOp::Write(b.remote(0)), 4096, 3000);
                                b.send(id, SendOp::Read(a.remote(0)), 4096, 3000);
                            }
                            let (first, second) = if (round + thread) % 2 == 0 { (a, b) } else { (b, a) };
                            std::thread::scope(|ends| {
                                ends.spawn(|| first.qp.destroy().unwrap());
                                drop(second.mr.deregister());
                                device.progress();
                            });
                            second.qp.destroy().unwrap();
                        }
                    });
                }
            });
        });
    });
}
