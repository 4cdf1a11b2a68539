//! All checks of CI, in the order in which they fail fastest.

use crate::run::{run, run_with};
use crate::{build, examples, guard, interop, kv_wheel, layers, packages, prose};

/// Runs all checks.
pub(crate) fn all() -> Result<(), String> {
    before_tests()?;
    tests()?;
    kv_wheel::try_wheel(&[])?;
    documentation()?;
    interop::interop(&["--short"])?;
    println!("\nAll checks passed.");
    Ok(())
}

/// The documentation of all crates, and that of the Rust API as docs.rs builds it: with all features.
fn documentation() -> Result<(), String> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    run_with("cargo", &["doc", "--workspace", "--no-deps", "--quiet"], &strict)?;
    let as_there = [("DOCS_RS", "1"), strict[0]];
    run_with("cargo", &["doc", "--package", "longarm", "--all-features", "--no-deps", "--quiet"], &as_there)
}

/// Runs the quick checks for every commit.
pub(crate) fn quick() -> Result<(), String> {
    before_tests()?;
    let guarded = guard::cargo_config()?;
    let tests = ["--config", &guarded, "test", "--workspace", "--quiet"];
    run_with("cargo", &tests, &[("LONGARM_SIM_SEEDS", "30")])
}

/// Writes the tables in docs that tests fill.
pub(crate) fn tables() -> Result<(), String> {
    let demo = ["demo", "--verify-only", "--markdown", "docs/compatibility.md"];
    run("cargo", &[&["run", "--release", "--quiet", "--"], &demo[..]].concat())
}

fn before_tests() -> Result<(), String> {
    packages::install()?;
    run("cargo", &["fmt", "--all", "--check"])?;
    layers::check()?;
    prose::check()?;
    examples::check()?;
    let heavy = ["--features", "longarm-cli/heavy"];
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet"];
    run("cargo", &[&clippy[..], &heavy, &["--", "-D", "warnings"]].concat())
}

fn tests() -> Result<(), String> {
    build::workspace()?;
    run("cargo", &["--config", &guard::cargo_config()?, "test", "--workspace", "--no-fail-fast"])
}
