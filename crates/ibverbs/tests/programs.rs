//! Programs in C run unchanged on our library: each file `c/*.c` says what it tests.

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use support::{ProgramDir, must_succeed, run_program, static_library};

#[test]
fn a_dlopened_library_plays_ping() {
    assert_eq!(run_program("dlopened"), "pinged\n");
}

#[test]
fn threads_share_a_context_and_a_completion_queue() {
    assert_eq!(run_program("threads"), "all sent\n");
}

#[test]
fn children_execute_or_open_the_device_anew_while_the_parent_sends() {
    assert_eq!(run_program("forks"), "forked\n");
}

#[test]
fn a_child_that_outlives_its_parent_keeps_no_port() {
    assert_eq!(run_program("fork_port"), "the port is free\n");
}

#[test]
fn limits_on_files_and_descriptors_are_told_as_such() {
    let place = ProgramDir::new("limits");
    let program = place.compile("threads");
    let limited = |limit: &str| {
        let mut command = place.command(Path::new("sh"));
        command.args(["-c", &format!("{limit}; exec \"$0\""), program.to_str().expect("text")]);
        command
    };
    assert_eq!(must_succeed(&mut limited("ulimit -f 0")), "all sent\n");
    // The hub raises its own limit. Each limit makes another call of the program fail.
    let mut least = 0;
    for most in 4..80 {
        let output = limited(&format!("ulimit -S -n {most}")).output().expect("the program starts");
        if output.status.success() {
            break;
        }
        least = most;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = ["Too many open files", "ulimit -n", "[errno 24]", "error while loading shared libraries"];
        assert!(told.iter().any(|words| text.contains(words)), "with {most} descriptors: {text}");
    }
    assert!((6..79).contains(&least), "{least}");
}

#[test]
fn a_daemon_goes_on_with_the_listener_that_its_parent_made() {
    assert_eq!(run_program("daemon"), "served\n");
}

#[test]
fn requests_by_datagrams_wait_neither_for_a_link_nor_for_the_hub() {
    assert_eq!(run_program("rpc"), "all answered\n");
}

#[test]
fn a_context_remembered_from_an_id_can_be_used() {
    assert_eq!(run_program("remembered"), "still there\n");
}

#[test]
fn signals_reach_the_program_and_no_thread_of_ours() {
    assert_eq!(run_program("signals"), "ours alone\n");
}

/// Descriptors of the library have numbers beyond the rounds of the test program's loop, with this limit of descriptors.
fn descriptors_end(rounds: &str, lowest: &str, limit: &str, local: &str) {
    let place = ProgramDir::new(&format!("descriptors-{limit}-{local}"));
    let program = place.compile("descriptors");
    let mut command = place.command(Path::new("prlimit"));
    command.arg(format!("--nofile={limit}:{limit}")).arg(program).args([rounds, lowest]);
    assert_eq!(must_succeed(command.env("LONGARM_LOCAL", local)), "all closed\n");
}

#[test]
fn descriptors_are_high_and_end_with_the_last_object() {
    descriptors_end("1000", "1024", "4096", "on");
}

#[test]
fn descriptors_leave_the_lower_half_of_few_to_the_program() {
    descriptors_end("50", "512", "1024", "on");
}

#[test]
fn descriptors_for_packets_end_as_well() {
    descriptors_end("50", "1024", "4096", "off");
}

#[test]
fn the_peer_of_a_killed_process_learns_of_it() {
    assert_eq!(run_program("killed"), "noticed\n");
}

#[test]
fn killed_processes_leave_nothing_behind() {
    assert_eq!(run_program("leaks"), "none leaked\n");
}

#[test]
fn peers_on_this_host_killed_at_any_moment_leave_nothing_and_stop_nobody() {
    assert_eq!(run_program("shm_kill"), "none is missed\n");
}

#[test]
fn memory_of_a_stopped_peer_is_reached() {
    assert_eq!(run_program("shm_stopped"), "done while it was stopped\n");
}

#[test]
fn a_blind_attacker_on_this_host_harms_no_connection() {
    assert_eq!(run_program("blind"), "unharmed\n");
}

#[test]
fn peers_on_this_host_use_memory_of_every_kind() {
    assert_eq!(run_program("shm_memory"), "as ever\n");
}

#[test]
fn both_ends_of_a_thousand_connections_in_one_process_send_no_packets() {
    assert_eq!(run_program("one_process"), "without packets\n");
}

#[test]
fn peers_on_this_host_use_memory_of_every_kind_adopted_or_not() {
    let place = ProgramDir::new("shm_memory_modes");
    let program = place.compile("shm_memory");
    for mode in ["always", "never"] {
        let said = must_succeed(place.command(&program).env("LONGARM_ADOPT", mode));
        assert_eq!(said, "as ever\n", "{mode}");
    }
}

#[test]
fn registered_memory_is_seen_by_all_as_on_a_network_card() {
    let place = ProgramDir::new("hazards");
    let program = place.compile("hazards");
    let cases =
        ["alone", "threads", "uring", "direct", "children", "snapshots", "limited", "semaphores", "advice", "reopened"];
    for case in cases {
        let said = must_succeed(place.command(&program).arg(case).current_dir(place.path()));
        assert_eq!(said, "as on a card\n", "{case}");
    }
}

#[test]
fn a_clock_of_the_day_that_jumps_shortens_and_lengthens_no_timeout() {
    let place = ProgramDir::new("clocks");
    let program = place.compile("clocks");
    for local in ["on", "off"] {
        let mut command = place.command(&program);
        command.env("LONGARM_LOCAL", local).env("LONGARM_FAULTS", "seed=7,loss=0.2");
        assert_eq!(must_succeed(&mut command), "in time\n", "{local}");
    }
    assert_eq!(must_succeed(&mut place.command(&program)), "in time\n");
}

/// A control group with a limit, if root may make one here. It goes with this value.
struct Group(PathBuf);

impl Group {
    fn new(name: &str, limit_mib: u32) -> Option<Group> {
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        places.into_iter().find_map(|(parent, limit)| {
            let group = Group(Path::new(parent).join(format!("longarm-{name}-{}", std::process::id())));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(limit), (u64::from(limit_mib) << 20).to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_program_that_fits_into_its_control_group_is_not_ended_for_our_copies() {
    let Some(group) = Group::new("fits", 96) else {
        println!("left out: nobody but root, with a memory controller, can limit memory");
        return;
    };
    let place = ProgramDir::new("group");
    let program = place.compile("group");
    for mode in ["safe", "always", "never"] {
        let mut command = place.command(Path::new("sh"));
        command.args(["-c", "echo $$ > \"$0\" && exec \"$1\" 60"]).arg(group.0.join("cgroup.procs")).arg(&program);
        assert_eq!(must_succeed(command.env("LONGARM_ADOPT", mode)), "it fits\n", "{mode}");
    }
}

#[test]
fn memory_that_is_unmapped_while_it_is_registered_ends_nobody() {
    assert_eq!(run_program("unmapped"), "it goes on\n");
}

#[test]
fn verbs_refuse_what_the_man_pages_forbid() {
    for group in ["errors_objects", "errors_handles", "errors_qp", "errors_post", "errors_memory"] {
        assert_eq!(run_program(group), "as documented\n", "{group}");
    }
}

#[test]
fn verbs_return_what_the_tables_say() {
    for table in ["table_modify", "table_objects", "table_connections"] {
        assert_eq!(run_program(table), "as documented\n", "{table}");
    }
}

#[test]
fn a_queue_that_is_armed_tells_of_completions_that_are_added() {
    assert_eq!(run_program("arming"), "as documented\n");
}

#[test]
fn newer_verbs_are_there() {
    assert_eq!(run_program("newer"), "as documented\n");
}

#[test]
fn as_many_objects_can_be_made_as_the_device_says() {
    assert_eq!(run_program("limits"), "as documented\n");
}

#[test]
fn windows_have_their_keys_and_invalidates_their_statuses() {
    assert_eq!(run_program("windows"), "as documented\n");
}

#[test]
fn the_connection_manager_refuses_what_the_man_pages_forbid() {
    assert_eq!(run_program("cm_errors"), "as documented\n");
}

#[test]
fn events_arrive_and_connections_come_and_go() {
    assert_eq!(run_program("cm_events"), "as documented\n");
}

#[test]
fn threads_that_wait_for_events_can_be_cancelled_and_left_behind() {
    assert_eq!(run_program("waiters"), "left behind\n");
}

#[test]
fn synchronous_ids_wait_for_their_events() {
    assert_eq!(run_program("cm_sync"), "as documented\n");
}

#[test]
fn ten_thousand_connections_leave_nothing() {
    assert_eq!(run_program("cm_many"), "nothing left\n");
}

#[test]
fn newer_calls_of_the_connection_manager_are_there() {
    assert_eq!(run_program("cm_newer"), "as documented\n");
}

#[test]
fn ids_keep_the_promises_of_the_man_pages() {
    assert_eq!(run_program("cm_conform_ids"), "as documented\n");
}

#[test]
fn connections_keep_the_promises_of_the_man_pages() {
    assert_eq!(run_program("cm_conform_connections"), "as documented\n");
}

#[test]
fn services_keep_the_promises_of_the_man_pages() {
    assert_eq!(run_program("cm_conform_services"), "as documented\n");
}

#[test]
fn sets_of_rsockets_wait_as_epoll_does() {
    assert_eq!(run_program("repoll"), "as documented\n");
}

#[test]
fn a_program_without_hub_is_told_the_reason_once() {
    let place = ProgramDir::new("no_hub");
    let program = place.compile("cm_no_hub");
    // A place for the hub that is a file.
    std::fs::write(place.path().join("run"), "").expect("a file");
    let output = place.command(&program).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("longarm: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_program_linked_with_the_static_library_needs_no_shared_one() {
    let place = ProgramDir::new("static");
    let archive = static_library();
    let archive = archive.to_str().expect("a path in UTF-8");
    let program = place.compile_with("device_list", &[archive, "-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    std::fs::remove_dir_all(place.libraries()).expect("our own directory");
    let said = must_succeed(&mut place.command(&program));
    assert!(said.trim().starts_with("la_"), "the device that a program finds: {said}");
}
