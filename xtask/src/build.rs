//! One build of the workspace for all checks.
//!
//! Cargo gives a crate the features that all selected packages want from it, and builds it again for each other
//! selection. `cargo test --workspace` has the widest. So the checks build nothing else.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::run::{command, root, run};

const ALL: [&str; 7] = ["build", "--quiet", "--workspace", "--lib", "--bins", "--tests", "--examples"];

/// A program that Cargo built.
pub(crate) struct Program {
    /// The directory of its package, below the root.
    pub(crate) package: String,
    /// `test`, `example` or `bin`.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

/// Builds all libraries, commands, tests and examples.
pub(crate) fn workspace() -> Result<(), String> {
    run("cargo", &ALL)
}

/// The same, and returns the programs.
pub(crate) fn programs() -> Result<Vec<Program>, String> {
    println!("\n== cargo {}", ALL.join(" "));
    let mut cargo = command("cargo");
    cargo.args(ALL).arg("--message-format=json").stderr(Stdio::inherit());
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {} failed: {}", ALL.join(" "), output.status));
    }
    let told = String::from_utf8_lossy(&output.stdout);
    Ok(told.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect())
}

fn program(artifact: &Value) -> Option<Program> {
    let target = &artifact["target"];
    let kind = target["kind"].as_array()?.first()?.as_str().filter(|kind| ["test", "example", "bin"].contains(kind))?;
    // The unit tests of a command have its name and kind.
    if artifact["profile"]["test"].as_bool()? != (kind == "test") {
        return None;
    }
    let manifest = PathBuf::from(artifact["manifest_path"].as_str()?);
    Some(Program {
        package: manifest.parent()?.strip_prefix(root()).ok()?.to_str()?.to_owned(),
        kind: kind.to_owned(),
        name: target["name"].as_str()?.to_owned(),
        file: artifact["executable"].as_str()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(kind: &str, is_test: bool) -> Option<Program> {
        let manifest = root().join("crates/longarm/Cargo.toml");
        let message = serde_json::json!({
            "manifest_path": manifest,
            "target": { "kind": [kind], "name": "ud_chat" },
            "profile": { "test": is_test },
            "executable": "/target/debug/ud_chat",
        });
        program(&message)
    }

    #[test]
    fn programs_are_told_from_libraries() {
        assert!(artifact("lib", false).is_none());
        assert!(artifact("bin", true).is_none(), "the unit tests of a command");
        assert!(artifact("test", true).is_some());
        let found = artifact("example", false).unwrap();
        assert_eq!((&*found.package, &*found.kind, &*found.name), ("crates/longarm", "example", "ud_chat"));
        assert_eq!(found.file, PathBuf::from("/target/debug/ud_chat"));
    }
}
