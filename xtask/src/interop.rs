//! Longarm against Linux Soft-RoCE in a virtual machine, and the crate `longarm` on the drivers there: builds the programs
//! and runs `longarm-interop`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{root, run};

/// The programs that the guest runs, below the repository's root.
const SUITES: &str = "target/interop-suites";

/// Runs the cases that the arguments select; see `cargo xtask interop --help`.
pub(crate) fn interop(args: &[&str]) -> Result<(), String> {
    run("cargo", &["build", "--quiet", "--package", "longarm-cli"])?;
    let suites = root().join(SUITES);
    collect(&suites)?;
    let suites = suites.to_str().ok_or("the path is not text")?;
    run("cargo", &[&["run", "--quiet", "--package", "longarm-interop", "--", "--suites", suites], args].concat())
}

/// Builds the tests and examples of the crate `longarm`, and links them into `directory` by their names.
fn collect(directory: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(directory);
    let problem = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory.join("programs")).map_err(problem)?;
    for (kind, name, file) in built()? {
        let to = if kind == "example" { directory.join("programs").join(name) } else { directory.join(name) };
        std::fs::hard_link(&file, &to).or_else(|_| std::fs::copy(&file, &to).map(drop)).map_err(problem)?;
    }
    Ok(())
}

/// The programs that Cargo builds: kind, name and file.
fn built() -> Result<Vec<(String, String, PathBuf)>, String> {
    let mut all = Vec::new();
    for what in [
        &["test", "--no-run", "--package", "longarm", "--tests"][..],
        &["build", "--package", "longarm", "--examples"],
        &["build", "--package", "longarm-cli", "--bin", "longarm"],
    ] {
        println!("\n== cargo {}", what.join(" "));
        let mut cargo = Command::new("cargo");
        cargo.args(what).args(["--quiet", "--message-format=json"]).current_dir(root());
        let output =
            cargo.stderr(std::process::Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo {} failed: {}", what.join(" "), output.status));
        }
        let told = String::from_utf8_lossy(&output.stdout);
        all.extend(told.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)));
    }
    Ok(all)
}

/// Kind, name and file of an artifact, if it is a test, an example or the command.
fn program(artifact: &Value) -> Option<(String, String, PathBuf)> {
    let target = &artifact["target"];
    let kind = target["kind"].as_array()?.first()?.as_str().filter(|kind| ["test", "example", "bin"].contains(kind))?;
    let file = artifact["executable"].as_str()?;
    Some((kind.to_owned(), target["name"].as_str()?.to_owned(), file.into()))
}
