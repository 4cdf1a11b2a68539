//! Runs other programs and shows their output.

use std::path::PathBuf;
use std::process::Command;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

/// A command in the root of the repository, which is Cargo or may call it.
///
/// - Nobody changes a file between the builds, so Cargo need not keep what would help it then: 30 GB for the whole workspace.
/// - The variables of this program's own package are not passed on. The build script of `ring` runs again when they change, and all
///   crates above it are built anew: here, and in the next build by hand.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let of_package = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"].iter().any(|set| name.starts_with(set));
    for (name, _) in std::env::vars().filter(|(name, _)| of_package(name)) {
        command.env_remove(name);
    }
    command.env("CARGO_INCREMENTAL", "0").current_dir(root());
    command
}

/// Runs a program in the root of the repository; fails if the program fails.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<(), String> {
    run_with(program, args, &[])
}

/// The same with additions to the environment.
pub(crate) fn run_with(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    println!("\n== {program} {}", args.join(" "));
    let status = command(program)
        .args(args)
        .envs(env.iter().copied())
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
