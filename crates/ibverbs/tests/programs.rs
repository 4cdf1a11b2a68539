//! Programs in C run unchanged on our library: see `c/*.c` for what each of them does.

#[path = "support/mod.rs"]
mod support;

use support::{Place, must_succeed, run_program, static_library};

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
fn the_peer_of_a_killed_process_learns_of_it() {
    assert_eq!(run_program("killed"), "noticed\n");
}

#[test]
fn killed_processes_leave_nothing_behind() {
    assert_eq!(run_program("leaks"), "none leaked\n");
}

#[test]
fn neighbours_killed_at_any_moment_leave_nothing_and_stop_nobody() {
    assert_eq!(run_program("near_kill"), "none is missed\n");
}

#[test]
fn a_stopped_neighbour_s_memory_is_reached() {
    assert_eq!(run_program("near_stopped"), "done while it was stopped\n");
}

#[test]
fn neighbours_use_memory_of_every_kind() {
    assert_eq!(run_program("near_memory"), "as ever\n");
}

#[test]
fn memory_that_is_unmapped_while_it_is_registered_ends_nobody() {
    assert_eq!(run_program("unmapped"), "it goes on\n");
}

#[test]
fn verbs_refuse_what_the_man_pages_forbid() {
    for group in ["errors_objects", "errors_qp", "errors_post", "errors_memory"] {
        assert_eq!(run_program(group), "as documented\n", "{group}");
    }
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
fn who_gets_no_hub_is_told_why_and_once() {
    let place = Place::new("no_hub");
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
    let place = Place::new("static");
    let archive = static_library();
    let archive = archive.to_str().expect("a path in UTF-8");
    let program = place.compile_with("device_list", &[archive, "-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    std::fs::remove_dir_all(place.libraries()).expect("our own directory");
    let said = must_succeed(&mut place.command(&program));
    assert!(said.trim().starts_with("la_"), "the device that a program finds: {said}");
}
