//! `cargo xtask python`: the wheel of the key-value client, built and tried with a real server.

use std::path::{Path, PathBuf};

use crate::run::{root, run};
use crate::{build, packages, python};

/// The builder of the wheel, and the programs and packages of its tests.
const TOOLS: [&str; 4] = ["maturin==1.16.0", "pytest==9.2.0", "numpy", "redis==8.1.0"];
const PROJECT: &str = "python/longarm-kv";

/// A network namespace and a directory for the hub, of this command alone.
const ALONE: &str = "ip link set lo up && export LONGARM_RUNTIME_DIR=$(mktemp -d) && \"$@\"; \
                     status=$?; rm -rf \"$LONGARM_RUNTIME_DIR\"; exit $status";

/// Builds the wheel and runs pytest with these arguments; with `--time`, the benchmark beside Redis in place of it.
///
/// # Errors
/// If a tool is missing, or a test fails.
pub(crate) fn try_wheel(args: &[&str]) -> Result<(), String> {
    packages::install()?;
    packages::install_venv()?;
    let target = root().join("target/python");
    let python = python::environment(&target.join("environment"), &TOOLS, python::Dependencies::All)?;
    let is_timed = args.first() == Some(&"--time");
    let (profile, directory) = if is_timed { ("release", "release") } else { ("dev", "debug") };
    if is_timed {
        run("cargo", &["build", "--quiet", "--release", "--package", "longarm-cli"])?;
    } else {
        build::workspace()?;
    }
    let wheel = build_wheel(&python, profile, &target.join("wheels"))?;
    run(&text(&python)?, &["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", &text(&wheel)?])?;
    let program = format!("LONGARM={}", text(&root().join("target").join(directory).join("longarm"))?);
    let (python, project) = (text(&python)?, text(&root().join(PROJECT))?);
    let bench = format!("{project}/bench/beside_redis.py");
    let command = if is_timed {
        [&["env", &program, &python, &bench], &args[1..]].concat()
    } else {
        [&["env", &program, &python, "-m", "pytest", "--rootdir", &project, &project], args].concat()
    };
    run("unshare", &[&[user_flags(), "sh", "-c", ALONE, "sh"], &command[..]].concat())
}

/// Builds the wheel, and returns its file.
fn build_wheel(python: &Path, profile: &str, out: &Path) -> Result<PathBuf, String> {
    let _ = std::fs::remove_dir_all(out);
    let manifest = text(&root().join(PROJECT).join("Cargo.toml"))?;
    let (python, directory) = (text(python)?, text(out)?);
    run(
        &python,
        &["-m", "maturin", "build", "--quiet", "--profile", profile, "-m", &manifest, "-o", &directory, "-i", &python],
    )?;
    let entries = std::fs::read_dir(out).map_err(|error| format!("{directory}: {error}"))?;
    let wheel = entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    wheel.ok_or_else(|| format!("maturin wrote no wheel to {directory}"))
}

/// An ordinary user makes the namespace inside one of users.
fn user_flags() -> &'static str {
    if is_root() { "-n" } else { "-rn" }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0)
}

fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(String::from).ok_or_else(|| format!("{} is no text", path.display()))
}
