//! The tests of the wire path, with engines that use shared memory: as two processes on one
//! host do, and as one process does. A program must see the same.

use transport::{QpType, SendOp, SendWr};

use super::datagrams::send_datagram;
use super::rig::*;
use crate::testing::EnginePath;

/// The same tests on another path.
macro_rules! tests_by {
    ($path:ident: $($module:ident: $($test:ident)+;)+) => {$(
        mod $module {
            $(
                #[test]
                fn $test() {
                    crate::tests::rig::by(crate::testing::EnginePath::$path, crate::tests::$module::$test);
                }
            )+
        }
    )+};
}

/// The tests that every path through shared memory must pass.
macro_rules! common_tests {
    ($name:ident by $path:ident) => {
        mod $name {
            super::tests_by! { $path:
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
                calls:
                    calls_are_executed_while_the_owner_is_away
                    a_panic_ends_the_connection_and_nothing_else
                    without_a_handler_calls_are_refused;
                objects:
                    an_object_that_its_owner_changes_is_never_torn
                    a_locked_object_is_its_first_word;
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
        }
    };
}

use tests_by;

common_tests! { one_host by OneHost }
common_tests! { one_process by OneProcess }

mod two_processes {
    super::tests_by! { OneHost:
        completions:
            who_found_nothing_and_arms_is_told_of_what_came_between
            a_batch_ends_before_a_completion_whose_event_nobody_fetched;
        shared_receive:
            buffers_lie_in_the_domain_of_the_shared_queue;
        slots:
            each_slot_reaches_each_other
            threads_receive_from_slots_of_their_own
            timers_run_on_each_slot;
        datagrams:
            a_datagram_longer_than_the_path_mtu_of_the_port_fails;
    }
}

/// With more datagrams than a lane or a socket holds, the sender waits, none is lost, and no packet leaves.
#[test]
fn a_burst_of_datagrams_waits_for_room() {
    const COUNT: usize = 200;
    const LEN: usize = 4096;
    let burst = || {
        on_loopback(|group| {
            let setup = Setup { memory_bytes: COUNT * (GRH_BYTES + LEN), ..Setup::new(QpType::Ud) };
            let (a, b) = pair(group, setup);
            (0..COUNT).for_each(|at| b.post_recv(at as u64, at * (GRH_BYTES + LEN), GRH_BYTES + LEN));
            a.write(0, &pattern(COUNT, COUNT * LEN));
            let datagram = |at: usize| {
                let wr = a.send_wr(at as u64, SendOp::Send, at * LEN, LEN);
                SendWr { datagram: Some(Box::new(a.datagram_to(b.gid, b.qp.qpn()))), ..wr }
            };
            a.qp.post_send((0..COUNT).map(datagram)).unwrap();
            for at in 0..COUNT {
                assert_eq!((a.sent().wr_id, b.received().wr_id), (at as u64, at as u64));
                assert_eq!(b.read(at * (GRH_BYTES + LEN) + GRH_BYTES, LEN), a.read(at * LEN, LEN));
            }
            assert_eq!((a.device.counters().get("tx_packets"), b.device.counters().dropped()), (0, 0));
        });
    };
    for path in [EnginePath::OneHost, EnginePath::OneProcess] {
        by(path, burst);
    }
}

/// Programs send to QP0 to see their earlier datagrams leave. No process has it, so the hub must not be asked for it.
#[test]
fn a_datagram_to_the_hubs_numbers_waits_for_no_link() {
    for path in [EnginePath::OneHost, EnginePath::OneProcess] {
        by(path, || {
            on_loopback(|group| {
                let (a, b) = pair(group, Setup::new(QpType::Ud));
                b.post_recv(1, 0, 200);
                send_datagram(&a, a.datagram_to(a.gid, wire::Qpn::SMI), SendOp::Send, b"nobody reads this");
                send_datagram(&a, a.datagram_to(b.gid, b.qp.qpn()), SendOp::Send, b"but this");
                assert_eq!(b.received().wr_id, 1);
                let shm = a.device.engine().shm.as_ref().expect("peers on this host");
                assert!(!shm.links.was_asked(wire::Qpn::SMI.slot()));
            });
        });
    }
}

/// A datagram that must take the wire does not change the path of those behind it: each destination has one path.
#[test]
fn a_datagram_on_the_wire_does_not_change_the_path_of_the_next() {
    by(EnginePath::OneHost, || {
        on_loopback(|group| {
            let (a, b) = pair(group, Setup::new(QpType::Ud));
            (0..2).for_each(|at| b.post_recv(at, 0, GRH_BYTES + 4096));
            let elsewhere = a.datagram_to(super::datagrams::group_gid(), wire::Qpn::MULTICAST);
            let here = a.datagram_to(b.gid, b.qp.qpn());
            let datagrams = [here, elsewhere, here].into_iter().enumerate();
            let wrs = datagrams.map(|(at, to)| {
                let wr = a.send_wr(at as u64, SendOp::Send, 0, 64);
                SendWr { datagram: Some(Box::new(to)), ..wr }
            });
            a.qp.post_send(wrs).unwrap();
            (0..3).for_each(|at| assert_eq!(a.sent().wr_id, at));
            (0..2).for_each(|at| assert_eq!(b.received().wr_id, at));
            assert_eq!(b.device.counters().get("rx_packets"), 0);
        });
    });
}
