//! Runs other programs and shows their output.

use std::path::PathBuf;
use std::process::Command;

/// The environment of all builds here. Nobody changes a file between them, so Cargo need not keep what would help it then:
/// 30 GB for the whole workspace.
pub(crate) const LEAN: (&str, &str) = ("CARGO_INCREMENTAL", "0");

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

/// Runs a program in the root of the repository; fails if the program fails.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<(), String> {
    run_with(program, args, &[])
}

/// The same with additions to the environment.
pub(crate) fn run_with(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    println!("\n== {program} {}", args.join(" "));
    let status = Command::new(program)
        .args(args)
        .envs([LEAN])
        .envs(env.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} {} failed: {status}", args.join(" "))) }
}

/// Whether a program is on the path.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|dir| dir.join(program).is_file())
}
