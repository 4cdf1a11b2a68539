//! Runs every example as a user would: real processes, a real hub, a network namespace of their
//! own.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use common::*;
use longarm::{Capabilities, Device, Provider};
use testkit::TestDir;

/// The directory of examples that are built already, where there is no Cargo.
const EXAMPLES: &str = "LONGARM_TEST_EXAMPLES";
const ALL: [&str; 6] = ["round_trips", "remote_counter", "engine_calls", "cas_lock", "ud_chat", "async_echo"];

/// Runs an example in this thread's network namespace, with a hub of its own, and returns what it
/// says.
fn run(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let place = TestDir::new(&format!("{name}{}", arguments.join("").replace('-', "")));
    let output = command(&place, name, arguments).envs(environment.iter().copied()).output().unwrap();
    checked(name, &output)
}

/// Whether the device has these abilities; see [`has`].
fn device_has(what: &str, ability: fn(Capabilities) -> bool) -> bool {
    !on_hardware() || has(ability(Device::open_by(Provider::Verbs).unwrap().capabilities()), what)
}

/// An example with a hub in this directory.
fn command(directory: &TestDir, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary(name));
    command.args(arguments).env("LONGARM_RUNTIME_DIR", directory.runtime_dir()).env_remove("LONGARM_DEVICE");
    command
}

fn checked(name: &str, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}\n{errors}", output.status);
    text
}

/// The path of an example. All examples are built first if they are not up to date.
fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || testkit::build_examples(&ALL, &[]);
    BUILT.get_or_init(|| std::env::var_os(EXAMPLES).map_or_else(build, PathBuf::from)).join(name)
}

#[test]
fn round_trips() {
    in_own_network(|| {
        let text = run("round_trips", &["--rounds", "300", "--bytes", "200"], &[]);
        assert!(text.starts_with("300 round trips of 200 bytes: 50 % within "), "{text}");
    })
}

#[test]
fn round_trips_with_long_messages() {
    in_own_network(|| {
        let text = run("round_trips", &["--rounds", "20", "--bytes", "1000000"], &[]);
        assert!(text.starts_with("20 round trips of 1000000 bytes"), "{text}");
    })
}

#[test]
fn remote_counter() {
    in_own_network(|| {
        if !device_has(ATOMICS, |abilities| abilities.atomics) {
            return;
        }
        let text = run("remote_counter", &["--others", "3", "--adds", "200"], &[]);
        assert_eq!(text.matches("says goodbye: 200").count(), 3, "{text}");
        assert_eq!(text.matches("added 200 times, and read ").count(), 3, "{text}");
        assert!(text.contains("the owner wakes up and finds 600\n"), "{text}");
    })
}

#[test]
fn engine_calls() {
    in_own_network(|| {
        if !has(!on_system(), CALLS) {
            return;
        }
        let text = run("engine_calls", &["--others", "3", "--calls", "200"], &[]);
        assert_eq!(text.matches("made 200 calls").count(), 3, "{text}");
        assert!(text.contains("the owner wakes up and finds 600 calls of 10 keys\n"), "{text}");
    })
}

#[test]
fn cas_lock() {
    in_own_network(|| {
        if !device_has(ATOMICS, |abilities| abilities.atomics) {
            return;
        }
        let text = run("cas_lock", &["--clients", "3", "--turns", "50"], &[]);
        assert!(text.contains("3 clients, 50 turns each: the value is 150\n"), "{text}");
        assert_eq!(text.matches(": 50 turns, ").count(), 3, "{text}");
    })
}

#[test]
fn ud_chat() {
    in_own_network(|| {
        if !device_has(DATAGRAMS, |abilities| abilities.ud) {
            return;
        }
        let text = run("ud_chat", &["--name", "alice", "--with", "bob"], &[]);
        assert!(text.contains("bob: hello   ["), "{text}");
        assert!(text.contains("alice: hello to you   ["), "{text}");
    })
}

#[test]
fn ud_chat_whispers_to_who_is_found() {
    in_own_network(|| {
        if !device_has(DATAGRAMS, |abilities| abilities.ud) {
            return;
        }
        let place = TestDir::new("whisper");
        let bobs = format!("{}:7471", here());
        let mut bob = command(&place, "ud_chat", &["--name", "bob", "--port", "7471", "--say", "hi", "--hear", "1"]);
        let bob = bob.stdout(Stdio::piped()).spawn().unwrap();
        let whisper = ["--name", "alice", "--whisper", &bobs, "--say", "a secret", "--hear", "0"];
        // The peer may not be there yet.
        let said = (0..100).find_map(|_| {
            let output = command(&place, "ud_chat", &whisper).output().unwrap();
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        let heard = checked("ud_chat", &bob.wait_with_output().unwrap());
        assert_eq!(said.as_deref(), Some("(whispering to bob)\n"));
        assert!(heard.contains("alice: a secret   ["), "{heard}");
    })
}

#[test]
fn async_echo() {
    in_own_network(|| {
        let text = run("async_echo", &["--calls", "200", "--ahead", "8"], &[]);
        assert!(text.contains("200 calls, 8 at a time, all answered\n"), "{text}");
        assert!(text.contains("answered 200 calls\n"), "{text}");
    })
}

#[test]
fn faults_do_not_change_what_an_example_says() {
    in_own_network(|| {
        if !device_has(INSTRUMENTS, |abilities| abilities.instruments) {
            return;
        }
        let faults = [("LONGARM_FAULTS", "seed=11,loss=0.05,dup=0.05,reorder=0.05")];
        let text = run("cas_lock", &["--clients", "2", "--turns", "40"], &faults);
        assert!(text.contains("2 clients, 40 turns each: the value is 80\n"), "{text}");
    })
}

#[test]
fn help_and_wrong_arguments() {
    for name in ALL {
        let output = Command::new(binary(name)).arg("--help").output().unwrap();
        assert!(checked(name, &output).contains(&format!("  {name}")), "{name}");
        let output = Command::new(binary(name)).args(["--nonsense", "1"]).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("no such argument: --nonsense"));
    }
}
