//! Starting a hub on demand: the choice of the program, its errors, and the isolation from the
//! application.

mod common;

use common::{Client, TestHub, play_role_if_asked};
use longarm_hub::embedded::BECOME_HUB_VARIABLE;
use longarm_hub::{HUB_VARIABLE, RUNTIME_DIR_VARIABLE};
use std::env;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use udp::testing::in_new_netns;

#[test]
fn role() {
    play_role_if_asked();
}

#[test]
fn the_application_has_no_child() {
    in_new_netns(|| {
        let place = TestHub::new("childless");
        let client = Client::start(&place, "childless");
        assert_eq!(
            client.expect("signals "),
            "0 wait Os { code: 10, kind: Uncategorized, message: \"No child processes\" }"
        );
    });
}

#[test]
fn an_application_without_standard_descriptors_starts_one_too() {
    in_new_netns(|| {
        let place = TestHub::new("stdio");
        Client::start(&place, "without stdio").expect("attached ");
    });
}

/// A second hub would take the sockets of all programs of the first one.
#[test]
fn a_living_hub_of_another_directory_keeps_its_port() {
    in_new_netns(|| {
        let (first, second) = (TestHub::new("first"), TestHub::new("second"));
        let (_client, slot) = Client::attached(&first);
        let error = Client::start(&second, "outcome").expect("error ");
        let directory = first.dir().display().to_string();
        assert!(error.contains("another Longarm hub") && error.contains(&directory), "{error}");
        let (_another, next) = Client::attached(&first);
        assert_ne!(slot, next);
    });
}

#[test]
fn many_hubs_of_one_user_do_not_disturb_each_other() {
    use std::os::unix::fs::PermissionsExt;
    in_new_netns(|| {
        let place = TestHub::new("crowded");
        // For the process that becomes another user.
        std::fs::set_permissions(place.dir().parent().unwrap(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut client = Client::start(&place, "crowded");
        client.expect("attached ");
        let files = std::fs::read_dir(place.dir()).unwrap();
        assert!(files.count() >= 3, "socket, lock and log");
        client.tell("kill hub");
        client.expect("hub lost");
        client.expect("reattached ");
        client.tell("quit");
        client.expect("done");
    });
}

#[test]
fn the_user_may_choose_the_hub() {
    in_new_netns(|| {
        let place = TestHub::new("choice");
        let own = env::current_exe().unwrap();
        let client = Client::start_with(&place, "outcome", &[(HUB_VARIABLE, own.to_str().unwrap())]);
        client.expect("attached ");
        let hub = place.status().pid;
        assert_eq!(std::fs::read_link(format!("/proc/{hub}/exe")).unwrap(), own);
    });
}

#[test]
fn a_hub_that_cannot_be_started_is_explained() {
    in_new_netns(|| {
        let place = TestHub::new("failing");
        let error = |program: &str| Client::start_with(&place, "outcome", &[(HUB_VARIABLE, program)]).expect("error ");
        let text = error("/no/such/program");
        assert!(text.contains("could not be started: /no/such/program: No such file"), "{text}");
        let text = error("/bin/false");
        assert!(text.contains("it ended without a message"), "{text}");
        // A program that does not support it, and reports that.
        let text = error("/bin/ls");
        assert!(text.contains("cannot access 'hub'"), "{text}");
    });
}

#[test]
fn the_hub_s_error_reaches_the_program() {
    in_new_netns(|| {
        let place = TestHub::new("words");
        let _taken = UdpSocket::bind("127.0.0.1:4791").unwrap();
        let text = Client::start(&place, "outcome").expect("error ");
        let expected = "the Longarm hub could not be started: UDP port 4791, which RoCEv2 needs, is taken by process";
        assert!(text.starts_with(expected), "{text}");
    });
}

#[test]
fn the_directory_s_problem_reaches_the_program() {
    use std::os::unix::fs::PermissionsExt;
    let place = TestHub::new("mode");
    std::fs::create_dir(place.dir()).unwrap();
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = Client::start(&place, "outcome").expect("error ");
    assert!(text.contains("its mode is 755, it must be 700"), "{text}");
}

#[test]
fn a_malformed_value_starts_no_hub() {
    let place = TestHub::new("value");
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(BECOME_HUB_VARIABLE, "please").env(RUNTIME_DIR_VARIABLE, place.dir());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text, "LONGARM_BECOME_HUB=please is not understood\n");
}
