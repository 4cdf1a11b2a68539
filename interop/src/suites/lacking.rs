//! The abilities that the devices lack, test by test.

/// A device that the suites run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuiteDevice {
    /// Longarm's own, by its `libibverbs.so.1`. These runs are in `crates/cli/tests/provider.rs`.
    #[allow(dead_code, reason = "only the document names it")]
    Own,
    Rxe,
    Siw,
}

impl SuiteDevice {
    /// Its name in the guest.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SuiteDevice::Own => "la_lo",
            SuiteDevice::Rxe => "rxe0",
            SuiteDevice::Siw => "siw0",
        }
    }
}

/// A line that a test prints on some devices.
pub(crate) struct Lacking {
    pub(crate) suite: &'static str,
    pub(crate) test: &'static str,
    pub(crate) what: &'static str,
    pub(crate) on: &'static [SuiteDevice],
}

/// The commands of `longarm` that run.
pub(crate) const COMMANDS: [&str; 6] = [
    "perf send --size 64 --rounds 200",
    "perf write --size 65536 --seconds 0.5",
    "perf read --size 4096 --seconds 0.5 --qps 4",
    "perf fetch-add --rounds 200",
    "perf send --by-address --seconds 0.5 --mode stream",
    "demo --verify-only --dir /tmp/demo",
];

use SuiteDevice::{Own, Rxe, Siw};

const fn row(suite: &'static str, test: &'static str, what: &'static str, on: &'static [SuiteDevice]) -> Lacking {
    Lacking { suite, test, what, on }
}

/// In the order in which each test prints them.
#[rustfmt::skip]
pub(crate) const LACKING: &[Lacking] = &[
    row("operations", "atomic_writes_and_flushes", "ATOMIC WRITE and FLUSH", &[Rxe, Siw]),
    row("operations", "a_batch_goes_out_in_order", "atomic operations", &[Siw]),
    row("operations", "a_revoked_key_is_refused_and_the_reason_is_told", "the reason of a failure, in completions", &[Siw]),
    row("operations", "atomics_need_no_memory_of_the_caller_however_many", "atomic operations", &[Siw]),
    row("operations", "atomics_return_the_old_value", "atomic operations", &[Siw]),
    row("operations", "atomics_return_the_old_value", "atomics of the owner beside those of peers", &[Rxe]),
    row("operations", "send_variants", "immediate data", &[Siw]),
    row("operations", "unreliable_connections_send_and_write", "unreliable connections", &[Siw]),
    row("operations", "write_and_read_without_the_owner", "READ into several buffers", &[Siw]),
    row("operations", "write_with_imm_tells_the_owner", "immediate data", &[Siw]),
    row("promise", "a_peer_that_is_gone_is_reported_in_bounded_time_with_the_reason", "repetitions that the program limits", &[Siw]),
    row("connections", "ipv6_and_its_wildcard", "IPv4 at the wildcard address of IPv6", &[Siw]),
    row("connections", "the_addresses_decide_on_the_device", "a second interface, and a host there", &[Rxe, Siw]),
    row("connections", "two_hosts", "a second interface, and a host there", &[Rxe, Siw]),
    row("connections", "a_missing_listener_is_known_immediately", "unreliable connections", &[Siw]),
    row("connections", "a_port_is_in_use_until_its_listener_goes", "ports of other services", &[Siw]),
    row("connections", "an_unreliable_connection", "unreliable connections", &[Siw]),
    row("connections", "datagrams_find_their_way", "datagrams", &[Siw]),
    row("connections", "the_smaller_mtu_and_read_depth_are_agreed", "an MTU and a read depth that both ends agree on", &[Siw]),
    row("connections", "two_ends_hand_each_other_bytes_and_then_messages", "the number of the peer's queue pair", &[Siw]),
    row("connecting", "a_capture_is_written", "faults, captures and counters of packets", &[Own, Rxe, Siw]),
    row("connecting", "faults_are_survived_and_can_be_switched_off", "faults, captures and counters of packets", &[Own, Rxe, Siw]),
    row("connecting", "two_hosts_talk_over_the_addresses_that_were_chosen", "a second interface, and a host there", &[Rxe, Siw]),
    row("connecting", "ends_that_do_not_fit_are_told_apart", "unreliable connections", &[Siw]),
    row("connecting", "ends_that_do_not_fit_are_told_apart", "connecting by queue pair numbers", &[Siw]),
    row("connecting", "ipv6_is_used_when_asked_for", "connecting by queue pair numbers", &[Siw]),
    row("datagrams", "a_datagram_is_one_packet", "datagrams", &[Siw]),
    row("datagrams", "a_datagram_tells_who_sent_it_and_can_be_answered", "datagrams", &[Siw]),
    row("datagrams", "a_group_reaches_its_members_until_they_leave", "datagrams", &[Siw]),
    row("datagrams", "a_member_hears_itself", "datagrams", &[Siw]),
    row("datagrams", "a_wrong_key_is_not_let_in", "datagrams", &[Siw]),
    row("asynchronous", "a_refused_request_is_an_event_of_the_queue_pair_that_refused_it", "an event for a request that was refused", &[Rxe, Siw]),
    row("asynchronous", "many_tasks_share_one_connection", "atomic operations", &[Siw]),
    row("polling", "a_solicited_message_is_noticed_and_another_is_not", "events for solicited messages only", &[Siw]),
    row("polling", "unsignaled_requests_before_a_failure_succeeded_and_those_behind_are_flushed", "the reason of a failure, in completions", &[Siw]),
    row("sharing", "a_peer_can_give_a_window_back_with_its_answer", "memory windows", &[Siw]),
    row("sharing", "a_window_opens_part_of_a_region_until_it_is_unbound", "memory windows", &[Siw]),
    row("sharing", "dropping_a_window_revokes_its_key_at_once", "memory windows", &[Siw]),
    row("sharing", "windows_lie_within_their_region", "memory windows", &[Siw]),
    row("accepting", "connections_are_accepted_as_they_come", "messages that wait for a receive buffer", &[Siw]),
    row("accepting", "a_dropped_accept_loses_no_connection", "messages that wait for a receive buffer", &[Siw]),
    row("accepting", "two_tasks_share_a_listener_though_one_gives_up", "messages that wait for a receive buffer", &[Siw]),
    row("given_memory", "a_mapped_file_that_is_cut_reads_as_zeros_beyond_its_end", "cut files that read as zeros", &[Rxe, Siw]),
    row("given_memory", "peers_reach_given_memory_within_its_rights_and_bounds", "the reason of a failure, in completions", &[Siw]),
    row("given_memory", "borrowed_memory_is_the_callers_again_after_the_scope", "the reason of a failure, in completions", &[Siw]),
    row("given_memory", "a_panic_ends_the_scope_too", "the reason of a failure, in completions", &[Siw]),
    row("accepting", "unreliable_connections_are_accepted_too", "unreliable connections", &[Siw]),
    row("extensions", "an_object_is_whole_or_busy", "READ of an object", &[Own, Rxe, Siw]),
    row("extensions", "objects_in_poll_mode_and_batches", "READ of an object", &[Own, Rxe, Siw]),
    row("extensions", "wrong_objects_are_refused", "READ of an object", &[Own, Rxe, Siw]),
    row("extensions", "the_device_carries_out_calls_while_the_program_sleeps", "calls that the device carries out", &[Own, Rxe, Siw]),
    row("extensions", "calls_need_key_and_right_and_may_panic", "calls that the device carries out", &[Own, Rxe, Siw]),
    row("extensions", "a_window_leads_to_the_handler_of_its_region", "calls that the device carries out", &[Own, Rxe, Siw]),
    row("extensions", "calls_are_executed_once_whatever_happens_to_packets", "calls that the device carries out", &[Own, Rxe, Siw]),
    row("extensions", "reads_at_once_bring_bytes_and_objects", "READs without a request", &[Own, Rxe, Siw]),
    row("examples", "faults_do_not_change_what_an_example_says", "faults, captures and counters of packets", &[Rxe, Siw]),
    row("examples", "cas_lock", "atomic operations", &[Siw]),
    row("examples", "engine_calls", "calls that the device carries out", &[Own, Rxe, Siw]),
    row("examples", "remote_counter", "atomic operations", &[Siw]),
    row("examples", "ud_chat", "datagrams", &[Siw]),
    row("examples", "ud_chat_whispers_to_who_is_found", "datagrams", &[Siw]),
    row("longarm", "perf fetch-add --rounds 200", "atomic operations", &[Siw]),
    row("longarm", "demo --verify-only --dir /tmp/demo", "immediate data", &[Siw]),
    row("longarm", "demo --verify-only --dir /tmp/demo", "windows before the connection", &[Siw]),
    row("longarm", "demo --verify-only --dir /tmp/demo", "atomic operations", &[Siw]),
    row("longarm", "demo --verify-only --dir /tmp/demo", "unreliable connections", &[Siw]),
    row("longarm", "demo --verify-only --dir /tmp/demo", "datagrams", &[Siw]),
];
