//! Tests of `longarm run` with Python packages that contain their own, renamed libibverbs, as auditwheel makes
//! them.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{Host, Hosts};
use testkit::{must_succeed, said};

/// The package's library: a libibverbs without devices.
const RENAMED: &str = "libibverbs-1de1263b.so.1.14.48.0";
const OTHERS_LIBRARY: &str = r#"
#include <stddef.h>
void **ibv_get_device_list(int *count) { *count = 0; return NULL; }
const char *ibv_get_device_name(void *device) { (void)device; return "another"; }
"#;

/// The source of its extension, with a main function so that it also builds as a program.
const EXTENSION: &str = r#"
#include <stdio.h>
struct ibv_device;
struct ibv_device **ibv_get_device_list(int *count);
const char *ibv_get_device_name(struct ibv_device *device);
int show(void) {
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    printf("%s\n", list && count > 0 ? ibv_get_device_name(list[0]) : "none");
    return fflush(stdout);
}
int main(void) { return show(); }
"#;

/// A Python package.
struct Package {
    extension: PathBuf,
    program: PathBuf,
}

impl Package {
    /// Makes the package: `thing/extension.so`, which finds `thing.libs` by its run path.
    fn new(packages: &Path) -> Package {
        let (own, libs) = (packages.join("thing"), packages.join("thing.libs"));
        std::fs::create_dir_all(&own).expect("a directory");
        std::fs::create_dir_all(&libs).expect("a directory");
        let write = |name: &str, text: &str| {
            let path = own.join(name);
            std::fs::write(&path, text).expect("a source");
            path
        };
        let versions = write("versions", "IBVERBS_1.1 { global: ibv_*; local: *; };");
        let library = libs.join(RENAMED);
        let soname = format!("-Wl,-soname,{RENAMED},--version-script={}", versions.display());
        let source = write("library.c", OTHERS_LIBRARY);
        must_succeed(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg(soname));
        let source = write("extension.c", EXTENSION);
        let build = |kind: &[&str], path: PathBuf| {
            let run_path = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../thing.libs";
            must_succeed(Command::new("cc").args(kind).arg("-o").arg(&path).arg(&source).arg(run_path).arg(&library));
            path
        };
        Package {
            extension: build(&["-shared", "-fPIC"], own.join("extension.so")),
            program: build(&[], own.join("program")),
        }
    }

    /// A Python program that loads the extension.
    fn script(&self) -> String {
        format!("import ctypes; ctypes.CDLL({:?}).show()", self.extension)
    }
}

fn run(hosts: &Hosts, arguments: &[&str]) -> Output {
    let mut command = hosts.longarm();
    command.arg("run").args(arguments).env_remove("VIRTUAL_ENV").env("HOME", hosts.dir()).current_dir("/");
    command.output().expect("the command starts")
}

fn first_line(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, said(output));
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn python_finds_the_device_wherever_the_package_lies() {
    let hosts = Hosts::one("wheels-anywhere");
    let package = Package::new(&hosts.dir().join("some/where"));
    let alone = hosts.command(Host::First, "python3").args(["-c", &package.script()]).output().expect("python3");
    assert_eq!(first_line(&alone), "none", "its own library knows no device");
    for mode in ["auto", "plain", "namespace"] {
        let output = run(&hosts, &["--mode", mode, "--", "python3", "-c", &package.script()]);
        assert_eq!(first_line(&output), "la_lo", "in mode {mode}");
    }
    let tool = hosts.dir().join("tool");
    std::fs::write(&tool, format!("#!/usr/bin/env python3\n{}\n", package.script())).expect("a script");
    must_succeed(Command::new("chmod").arg("755").arg(&tool));
    assert_eq!(first_line(&run(&hosts, &["--", tool.to_str().unwrap()])), "la_lo", "a script");
}

#[test]
fn a_shell_that_starts_python_needs_no_preload() {
    let hosts = Hosts::one("wheels-shell");
    let environment = hosts.dir().join("environment");
    let package = Package::new(&environment.join("lib/python3.11/site-packages"));
    std::fs::write(environment.join("pyvenv.cfg"), "").expect("a mark");
    let script = format!("echo \"${{LD_PRELOAD-nothing preloaded}}\"; python3 -c '{}'", package.script());
    let output = run(&hosts, &["--mode", "namespace", "--", "sh", "-c", &script]);
    let expected = "nothing preloaded\nla_lo\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", said(&output));
}

#[test]
fn a_program_linked_with_a_renamed_copy_finds_the_device() {
    let hosts = Hosts::one("wheels-program");
    let package = Package::new(&hosts.dir().join("some/where"));
    let program = package.program.to_str().unwrap();
    for mode in ["auto", "plain"] {
        assert_eq!(first_line(&run(&hosts, &["--mode", mode, "--", program])), "la_lo", "in mode {mode}");
    }
    // `longarm run` cannot know what a shell starts; `--preload` covers it.
    let shell = ["--preload", "--", "sh", "-c", program];
    assert_eq!(first_line(&run(&hosts, &shell)), "la_lo", "preloaded");
}
