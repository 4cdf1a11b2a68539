//! Third-party programs on the device: those of every run, and those that take long to install.

use std::path::{Path, PathBuf};

use crate::packages;
use crate::run::{root, run, run_with};

/// The directory of Python packages for tests.
const ENVIRONMENT: &str = "target/heavy-python";
const PYTHON_PACKAGES: [&str; 4] =
    ["nixl==1.5.1", "nixl-cu12==1.5.1", "mooncake-transfer-engine-non-cuda==0.3.13.post1", "numpy"];

/// Runs the programs that are part of every test run.
pub(crate) fn light() -> Result<(), String> {
    packages::install()?;
    run("cargo", &["test", "-p", "longarm-cli", "--test", "programs"])
}

/// Runs the programs that take long to install. The first run loads some 100 MB of Debian packages and
/// 120 MB of Python packages.
pub(crate) fn heavy() -> Result<(), String> {
    packages::install_heavy()?;
    let python = python()?;
    let python = python.to_str().ok_or("the path is not text")?;
    let test = ["test", "-p", "longarm-cli", "--features", "heavy", "--test", "heavy", "--"];
    run_with(
        "cargo",
        &[&test[..], &["--test-threads", "1", "--nocapture"]].concat(),
        &[("LONGARM_HEAVY_PYTHON", python)],
    )
}

/// A Python with the packages; the first call loads them from PyPI.
fn python() -> Result<PathBuf, String> {
    let environment = root().join(ENVIRONMENT);
    let python = environment.join("bin/python");
    if !is_complete(&environment) {
        run("python3", &["-m", "venv", ENVIRONMENT])?;
        let pip = format!("{ENVIRONMENT}/bin/pip");
        // Without their optional dependencies: PyTorch alone has gigabytes.
        run(&pip, &[&["install", "--quiet", "--no-deps"][..], &PYTHON_PACKAGES].concat())?;
        std::fs::write(environment.join("complete"), PYTHON_PACKAGES.join("\n")).map_err(|error| error.to_string())?;
    }
    Ok(python)
}

fn is_complete(environment: &Path) -> bool {
    std::fs::read_to_string(environment.join("complete")).is_ok_and(|text| text == PYTHON_PACKAGES.join("\n"))
}
