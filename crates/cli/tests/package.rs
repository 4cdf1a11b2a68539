//! The tarball of `cargo xtask package`, made of the command under test, unpacked and used in another folder.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Host, Hosts, LONGARM};
use testkit::{must_succeed, said, workspace_build};

/// Makes the tarball and unpacks it in the test's directory; returns the folder.
fn unpacked(hosts: &Hosts) -> PathBuf {
    let build = Path::new(LONGARM).parent().expect("cargo's directory");
    let out = hosts.dir().join("packages");
    let mut package = xtask(&["package", "tarball", "--out"]);
    must_succeed(package.arg(&out).arg("--from").arg(build));
    let name = format!("longarm-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let elsewhere = hosts.dir().join("some where");
    std::fs::create_dir(&elsewhere).unwrap();
    must_succeed(Command::new("tar").arg("-xzf").arg(out.join(format!("{name}.tar.gz"))).arg("-C").arg(&elsewhere));
    elsewhere.join(name)
}

fn xtask(arguments: &[&str]) -> Command {
    must_succeed(workspace_build().args(["--bin", "xtask"]));
    let mut command = Command::new(testkit::profile().join("xtask"));
    command.args(arguments);
    command
}

#[test]
fn an_unpacked_tarball_runs_programs_and_describes_itself() {
    let hosts = Hosts::one("package");
    let folder = unpacked(&hosts);
    runs_programs(&hosts, &folder);
    describes_itself(&folder);
}

fn runs_programs(hosts: &Hosts, folder: &Path) {
    let longarm = |arguments: &[&str]| {
        let mut command = hosts.command(Host::First, folder.join("bin/longarm").to_str().expect("a path as text"));
        must_succeed(command.args(arguments).env_remove("LONGARM_LIB"))
    };
    let output = longarm(&["run", "-v", "--", "ibv_devinfo"]);
    let library = format!("the library is {},", folder.join("lib/longarm/libibverbs.so").display());
    assert!(said(&output).contains(&library), "its own library: {}", said(&output));
    assert!(said(&output).contains("la_lo"), "{}", said(&output));
    longarm(&["pair", "--", "ibv_rc_pingpong", "-g", "0"]);
}

fn describes_itself(folder: &Path) {
    let text = |file: &str| {
        std::fs::read_to_string(folder.join("share").join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    assert!(text("man/man1/longarm-run.1").contains("\\-\\-faults"), "a page has the options");
    assert!(text("man/man1/longarm.1").contains("LONGARM_CAPTURE"), "the environment");
    let completions = [
        "bash-completion/completions/longarm",
        "zsh/site-functions/_longarm",
        "fish/vendor_completions.d/longarm.fish",
    ];
    for file in completions {
        let script = text(file);
        assert!(script.contains("namespaces"), "{file}: no options");
        assert!(!script.contains("mesh-member"), "{file}: hidden commands");
    }
    for (file, says) in [
        ("LICENSE-MIT", "MIT"),
        ("LICENSE-APACHE", "Apache"),
        ("LICENSES-OF-OTHERS", "clap"),
        ("docs/install.md", "wheel"),
    ] {
        assert!(text(&format!("doc/longarm/{file}")).contains(says), "{file}");
    }
    let library = std::fs::read_link(folder.join("lib/longarm/librdmacm.so.1")).unwrap();
    assert_eq!(library, Path::new("libibverbs.so"));
}

#[test]
fn wrong_arguments_are_refused() {
    for (arguments, expected) in [
        (&["package", "rpm"][..], "there is no package or option \"rpm\""),
        (&["package", "--out"], "--out needs a directory"),
        (&["package", "--from", "/nowhere", "tarball"], "there is no /nowhere/longarm"),
    ] {
        let output = xtask(arguments).output().expect("cargo starts");
        assert!(!output.status.success() && said(&output).contains(expected), "{}", said(&output));
    }
}
