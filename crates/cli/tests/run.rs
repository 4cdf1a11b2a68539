//! Tests of `longarm run`: a program's exit status, and the devices and files that it sees.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{Host, Hosts};
use testkit::{is_root, must_succeed, said};

/// User and group "nobody": root runs programs as this ordinary user.
const NOBODY: &str = "65534";

fn run(hosts: &Hosts, arguments: &[&str]) -> Output {
    hosts.longarm().arg("run").args(arguments).output().expect("the command starts")
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, said(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_status_is_the_programs() {
    let hosts = Hosts::one("run-status");
    for mode in ["plain", "auto"] {
        let shell = |script: &str| run(&hosts, &["--mode", mode, "--", "sh", "-c", script]).status;
        assert_eq!(shell("exit 0").code(), Some(0));
        assert_eq!(shell("exit 7").code(), Some(7));
        assert_eq!(shell("kill -TERM $$").signal(), Some(15));
    }
}

#[test]
fn failures_to_start_are_explained() {
    let hosts = Hosts::one("run-why");
    let script = hosts.dir().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let table: [(&[&str], i32, &str); 6] = [
        (&["--", "no-such-program"], 127, "no-such-program: there is no such program"),
        (&["--", "/etc"], 126, "it is a directory"),
        (&["--", "/etc/passwd"], 126, "not marked as executable"),
        (&["--", script.to_str().unwrap()], 126, "/no/such/interpreter"),
        (&["--faults", "loss=often", "--", "true"], 125, "loss"),
        (&["--device", "la_none", "--", "true"], 125, "there are: la_lo"),
    ];
    for (arguments, code, words) in table {
        let output = run(&hosts, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{arguments:?}: {}", said(&output));
    }
    let lost = hosts.longarm().args(["run", "true"]).env("LONGARM_LIB", "/no/such.so").output().unwrap();
    assert_eq!(lost.status.code(), Some(125));
    assert!(said(&lost).contains("/no/such.so") && said(&lost).contains("LONGARM_LIB"), "{}", said(&lost));
}

/// The output has iproute2's format; iproute2's own program asks the kernel, which does not know these devices.
#[test]
fn rdma_shows_the_devices_that_programs_see() {
    let hosts = Hosts::one("run-rdma");
    for mode in ["plain", "auto"] {
        let show = |words: &str| {
            let script = format!("rdma {words}");
            text(run(&hosts, &["--mode", mode, "--device", "la_lo", "--", "sh", "-c", &script]))
        };
        let links: serde_json::Value = serde_json::from_str(&show("link show -j")).expect("JSON");
        let [link] = links.as_array().expect("an array").as_slice() else { panic!("{links}") };
        assert_eq!((&link["ifname"], &link["port"]), (&"la_lo".into(), &1.into()));
        assert_eq!((&link["state"], &link["physical_state"]), (&"ACTIVE".into(), &"LINK_UP".into()));
        assert_eq!((&link["netdev"], &link["netdev_index"]), (&"lo".into(), &1.into()));
        assert_eq!(show("link"), "link la_lo/1 state ACTIVE physical_state LINK_UP netdev lo \n");
        assert_eq!(show("link show la_lo/1"), show("link"));
        let devices: serde_json::Value = serde_json::from_str(&show("-j -p dev show la_lo")).expect("JSON");
        assert_eq!((&devices[0]["ifname"], &devices[0]["node_type"]), (&"la_lo".into(), &"ca".into()));
        assert!(show("dev").starts_with("0: la_lo: node_type ca fw "));
        assert!(show("system show").contains("netns"));
    }
    let directly = run(&hosts, &["--device", "la_lo", "--", "rdma", "link", "show"]);
    assert!(text(directly).starts_with("link la_lo/1 "));
    let none = run(&hosts, &["--", "rdma", "dev", "show", "la_none"]);
    assert!(!none.status.success() && said(&none).contains("Wrong device name"), "{}", said(&none));
}

#[test]
fn other_queries_go_to_the_system_rdma() {
    let hosts = Hosts::one("run-rdma-other");
    let other = hosts.dir().join("rdma");
    std::fs::write(&other, "#!/bin/sh\necho other \"$@\"\n").unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", hosts.dir().display());
    let with = |path: &str| {
        let mut command = hosts.longarm();
        command.args(["run", "--", "sh", "-c", "rdma resource show qp; rdma link show la_lo"]).env("PATH", path);
        text(command.output().expect("the command starts"))
    };
    let said = with(&path);
    assert!(said.starts_with("other resource show qp\nlink la_lo/1 "), "{said}");
}

/// The loader ignores the environment of such a program, so it would run without Longarm.
#[test]
fn a_program_with_rights_of_its_own_is_refused() {
    let hosts = Hosts::one("run-setuid");
    let program = match is_root() {
        true => {
            let program = hosts.dir().join("privileged");
            testkit::copy_program("/bin/true", &program);
            must_succeed(Command::new("chown").arg(NOBODY).arg(&program));
            must_succeed(Command::new("chmod").arg("4755").arg(&program));
            program
        }
        false => PathBuf::from("/bin/su"),
    };
    let output = run(&hosts, &["--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(126), "{}", said(&output));
    assert!(said(&output).contains("set-user-ID") && said(&output).contains("sudo longarm run"), "{}", said(&output));
}

/// A shell script that prints what a program in a namespace sees.
const SHOW_VIEW: &str = "\
    cat /sys/class/infiniband/la_lo/ports/1/state /sys/class/infiniband/la_lo/ports/1/gid_attrs/types/0
    cat /sys/class/infiniband_verbs/uverbs0/ibdev
    test -c /dev/infiniband/uverbs0 && test -w /dev/null && test -d /sys/class/net/lo/statistics && echo nodes
    id -u; env -i LONGARM_RUNTIME_DIR=$LONGARM_RUNTIME_DIR ibv_devices | tail -n +3";

fn assert_sees_everything(seen: &str, user: &str) {
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..5], ["4: ACTIVE", "RoCE v2", "la_lo", "nodes", user], "{seen}");
    assert!(lines[5..].concat().contains("la_lo"), "the library is found without the environment: {seen}");
}

#[test]
fn a_namespace_shows_the_tree_and_the_library() {
    let hosts = Hosts::one("run-namespace");
    let seen = text(run(&hosts, &["--mode", "namespace", "--", "sh", "-c", SHOW_VIEW]));
    assert_sees_everything(&seen, &own_uid(&hosts));
    let outside = text(hosts.command(Host::First, "sh").args(["-c", "ls /sys/class"]).output().unwrap());
    assert!(!outside.contains("infiniband") || Path::new("/sys/class/infiniband").exists());
}

/// Only root can act as another user; the other tests cover ordinary users.
#[test]
fn an_ordinary_user_gets_a_namespace_and_keeps_the_user_id() {
    let hosts = Hosts::one("run-user");
    if !is_root() {
        return assert_sees_everything(&text(run(&hosts, &["--", "sh", "-c", SHOW_VIEW])), &own_uid(&hosts));
    }
    let longarm = public_copy(hosts.dir());
    let mut command = hosts.command(Host::First, "setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(longarm);
    command.args(["run", "--", "sh", "-c", SHOW_VIEW]).env("LONGARM_RUNTIME_DIR", hosts.dir().join("public/run"));
    assert_sees_everything(&text(command.output().unwrap()), NOBODY);
}

fn own_uid(hosts: &Hosts) -> String {
    text(hosts.command(Host::First, "id").arg("-u").output().unwrap()).trim().to_owned()
}

/// Copies the command and its library to a directory that all users can read and write.
fn public_copy(dir: &Path) -> PathBuf {
    let public = dir.join("public");
    std::fs::create_dir_all(public.join("deps")).unwrap();
    std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let library = Path::new(support::LONGARM).with_file_name("deps/libibverbs.so");
    std::fs::copy(library, public.join("deps/libibverbs.so")).expect("the library is built with the command");
    testkit::copy_program(support::LONGARM, public.join("longarm"));
    public.join("longarm")
}

#[test]
fn without_a_namespace_the_tree_is_where_the_variable_says() {
    let hosts = Hosts::one("run-plain");
    let script = "cat $LONGARM_SYSFS/class/infiniband/la_lo/node_type; echo $LONGARM_FAULTS $LONGARM_CAPTURE";
    let arguments = ["--mode", "plain", "--faults", "loss=0.1", "--capture", "/x.pcapng", "--", "sh", "-c", script];
    assert_eq!(text(run(&hosts, &arguments)), "1: CA\nloss=0.1 /x.pcapng\n");
}

#[test]
fn a_run_in_a_run_stays_where_it_is() {
    let hosts = Hosts::one("run-nested");
    let inner = "readlink /proc/self/ns/mnt; \"$0\" run -- readlink /proc/self/ns/mnt";
    let namespaces = text(run(&hosts, &["--mode", "namespace", "--", "sh", "-c", inner, support::LONGARM]));
    let namespaces: Vec<&str> = namespaces.lines().collect();
    assert_eq!(namespaces.len(), 2);
    assert_eq!(namespaces[0], namespaces[1]);
}

#[test]
fn a_verbs_program_needs_the_library_path_only() {
    let hosts = Hosts::one("run-devices");
    let output = run(&hosts, &["-v", "--", "ibv_devices"]);
    assert!(said(&output).contains("the library path suffices"), "{}", said(&output));
    assert!(text(output).contains("la_lo"));
    let details = text(run(&hosts, &["--", "ibv_devinfo", "-v"]));
    for words in ["hca_id:\tla_lo", "PORT_ACTIVE", "RoCE v2", "Ethernet"] {
        assert!(details.contains(words), "{words}: {details}");
    }
}

/// A program whose run path precedes the environment and leads to the system's library.
const RUN_PATH_PROGRAM: &str = r#"
#include <stdio.h>
struct ibv_device;
struct ibv_device **ibv_get_device_list(int *count);
const char *ibv_get_device_name(struct ibv_device *device);
int main(void) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    printf("%s\n", list && count > 0 ? ibv_get_device_name(list[0]) : "none");
    return 0;
}
"#;

#[test]
fn a_run_path_does_not_hide_the_library() {
    let hosts = Hosts::one("run-path");
    let (source, program) = (hosts.dir().join("program.c"), hosts.dir().join("program"));
    let own = hosts.dir().join("lib");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(&source, RUN_PATH_PROGRAM).unwrap();
    let find = "ldconfig -p 2>/dev/null || /sbin/ldconfig -p";
    let libraries = text(Command::new("sh").args(["-c", find]).output().unwrap());
    let system =
        libraries.lines().find(|line| line.contains("libibverbs.so.1 ")).and_then(|line| line.split("=> ").nth(1));
    let system = system.expect("libibverbs1, which ibverbs-utils needs");
    std::fs::copy(system, own.join("libibverbs.so.1")).unwrap();
    let run_path = format!("-Wl,--disable-new-dtags,-rpath,{}", own.display());
    must_succeed(
        Command::new("cc").arg(&source).arg("-o").arg(&program).arg(run_path).arg(own.join("libibverbs.so.1")),
    );
    let program = program.to_str().unwrap();

    let alone = text(hosts.command(Host::First, program).output().unwrap());
    assert!(!alone.contains("la_lo"), "{alone}");
    let output = run(&hosts, &["-v", "--", program]);
    assert!(said(&output).contains("the run path finds"), "{}", said(&output));
    assert_eq!(text(output), "la_lo\n");
    assert_eq!(text(run(&hosts, &["--mode", "plain", "--", program])), "la_lo\n", "preloaded");
}
