//! Programs of others on the device: those of every run, and those that take long to install.

use std::path::{Path, PathBuf};

use crate::packages;
use crate::run::{root, run, run_with};

/// Where Python packages for tests are.
const ENVIRONMENT: &str = "target/heavy-python";
const PYTHON_PACKAGES: [&str; 4] =
    ["nixl==1.5.1", "nixl-cu12==1.5.1", "mooncake-transfer-engine-non-cuda==0.3.13.post1", "numpy"];

/// Runs those that are part of every run of the tests.
pub(crate) fn light() -> Result<(), String> {
    packages::install()?;
    run("cargo", &["test", "-p", "longarm-cli", "--test", "programs"])
}

/// Some 100 MB of Debian's packages and 120 MB of Python's are loaded, once.
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

/// A Python with the packages, which are loaded from PyPI once.
fn python() -> Result<PathBuf, String> {
    let environment = root().join(ENVIRONMENT);
    let python = environment.join("bin/python");
    if !is_complete(&environment) {
        run("python3", &["-m", "venv", ENVIRONMENT])?;
        let pip = format!("{ENVIRONMENT}/bin/pip");
        // Without what they can use beside: PyTorch alone has gigabytes.
        run(&pip, &[&["install", "--quiet", "--no-deps"][..], &PYTHON_PACKAGES].concat())?;
        std::fs::write(environment.join("complete"), PYTHON_PACKAGES.join("\n")).map_err(|error| error.to_string())?;
    }
    Ok(python)
}

fn is_complete(environment: &Path) -> bool {
    std::fs::read_to_string(environment.join("complete")).is_ok_and(|text| text == PYTHON_PACKAGES.join("\n"))
}
