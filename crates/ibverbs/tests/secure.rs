//! Programs and other users: set-user-ID programs whose caller sets every variable that the library knows, and
//! directories that another user made first.

#[path = "support/mod.rs"]
mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{ProgramDir, must_succeed};

const NOBODY: &str = "65534";

/// Arrangements that only root can make.
fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("left out: only root can act as several users");
    }
    is_root
}

const UP: &str = "ip link set lo up && exec \"$@\"";

/// In a new network namespace, as a user without any rights.
fn command_of_nobody(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", UP, "sh"]);
    command.args(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--groups", "60001", "--"]).arg(program);
    command.env_clear().stdin(Stdio::null());
    command
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_set_user_id_program_obeys_no_variable() {
    if !is_root() {
        return;
    }
    let place = ProgramDir::new("secure");
    let library = format!("-Wl,-rpath,{}", place.libraries().display());
    let program = place.compile_with("secure", &[&library, "-libverbs"]);
    set_mode(place.path(), 0o755);
    set_mode(&program, 0o4755);
    let (secret, made, executed) =
        (place.path().join("secret"), place.path().join("made"), place.path().join("executed"));
    let hub = place.path().join("longarm");
    fs::write(&secret, "kept").expect("a file");
    set_mode(&secret, 0o600);
    fs::write(&hub, format!("#!/bin/sh\ntouch {}\n", executed.display())).expect("a script");
    set_mode(&hub, 0o755);

    let mut command = command_of_nobody(&program);
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", place.path().display()));
    command.env("LONGARM_CAPTURE", &secret).env("LONGARM_RUNTIME_DIR", &made).env("XDG_RUNTIME_DIR", place.path());
    command.env("LONGARM_HUB", &hub).env("LONGARM_BECOME_HUB", "nonsense").env("LONGARM_DEVICES", "none");
    for variable in ["LONGARM_FAULTS", "LONGARM_LOCAL", "LONGARM_ADOPT", "LONGARM_SLOTS"] {
        command.env(variable, "nonsense");
    }
    let said = must_succeed(&mut command);

    assert!(said.starts_with("secure 1 uid 65534 euid 0\n"), "is the file system mounted nosuid?\n{said}");
    assert_eq!(fs::read_to_string(&secret).expect("the file"), "kept", "the capture overwrote a file of root's");
    assert!(!made.exists(), "a directory was made as root");
    assert!(!executed.exists(), "a program of the caller's was executed as root");
    assert!(!place.path().join("longarm").is_dir());
    assert_eq!(said.matches("a hub\n").count(), 1, "{said}");
    assert!(said.contains("Uid:\t0\t0\t0\t0\n"), "real and effective user differ\n{said}");
    assert!(!said.contains("60001"), "it has a group of the caller's\n{said}");
    assert!(said.contains("Umask:\t0077\n"), "{said}");
    let mut variables: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("variable ")).collect();
    variables.sort_unstable();
    assert_eq!(variables, ["LD_PRELOAD", "LONGARM_BECOME_HUB", "LONGARM_RUNTIME_DIR"]);
}

/// A user that nobody else is, and the directories in `/tmp` that could be that user's. They go with this value.
struct Stranger(u32);

impl Stranger {
    fn new(number: u32) -> Stranger {
        let stranger = Stranger(1_000_000 + 100 * std::process::id() + number);
        stranger.remove();
        stranger
    }

    fn directory(&self, number: u32) -> PathBuf {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        PathBuf::from(format!("/tmp/longarm-{}{suffix}", self.0))
    }

    /// Another user makes the first of the directories.
    fn take_first(&self, count: u32) {
        for number in 0..count {
            let directory = self.directory(number);
            fs::create_dir(&directory).expect("a directory");
            set_mode(&directory, 0o700);
            std::os::unix::fs::chown(&directory, Some(self.0 + 1), None).expect("another owner");
        }
    }

    fn remove(&self) {
        for number in 0..20 {
            let _ = fs::remove_dir_all(self.directory(number));
        }
    }

    /// Runs the program as this user: `outer`, which root executes, executes `inner` as the user, and that the program.
    fn run(&self, outer: &[&str], inner: &[&str], program: &Path) -> Output {
        let uid = self.0.to_string();
        let setpriv = ["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"];
        let words = [outer, &setpriv, inner].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        command.output().expect("the program starts")
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A program with a copy of the library, for users who may not look into the test's own directories.
fn public_program(place: &ProgramDir) -> PathBuf {
    let library = place.path().join("libibverbs.so.1");
    fs::copy(support::library(), &library).expect("a copy");
    set_mode(place.path(), 0o755);
    set_mode(&library, 0o755);
    place.compile_with("secure", &[&format!("-Wl,-rpath,{}", place.path().display()), "-libverbs"])
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn another_user_s_directory_of_our_name_stops_nobody() {
    if !is_root() {
        return;
    }
    let place = ProgramDir::new("squatted");
    let program = public_program(&place);
    let user = Stranger::new(0);
    user.take_first(2);
    let output = user.run(&["unshare", "--net", "sh", "-c", UP, "sh"], &[], &program);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::metadata(user.directory(2)).expect("a directory").uid(), user.0);

    let unlucky = Stranger::new(50);
    unlucky.take_first(16);
    let output = unlucky.run(&[], &[], &program);
    assert!(!output.status.success());
    let text = said(&output);
    let first = unlucky.directory(0);
    for part in [first.to_str().expect("text"), &format!("user {}", unlucky.0 + 1), "LONGARM_RUNTIME_DIR"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_user_namespace_needs_nothing_of_root_s() {
    if !is_root() {
        return;
    }
    let place = ProgramDir::new("namespace");
    let program = public_program(&place);
    // Files that Longarm has made for root, which is every user's name in a user namespace.
    let made = fs::create_dir("/tmp/longarm-0").is_ok();
    let user = Stranger::new(25);
    let wrapper = ["unshare", "--user", "--map-root-user", "--net"];
    if !user.run(&[], &wrapper, Path::new("true")).status.success() {
        println!("left out: this system has no user namespaces for ordinary users");
        return;
    }
    let output = user.run(&[], &[&wrapper[..], &["sh", "-c", UP, "sh"]].concat(), &program);
    if made {
        let _ = fs::remove_dir("/tmp/longarm-0");
    }
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::metadata(user.directory(0)).expect("a directory").uid(), user.0);
}
