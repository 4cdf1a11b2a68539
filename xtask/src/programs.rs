//! Third-party programs on the device: those of every run, and those that take long to install.

use crate::run::{root, run, run_with};
use crate::{packages, python};

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
    // Without their optional dependencies: PyTorch alone has gigabytes.
    let python = python::environment(&root().join(ENVIRONMENT), &PYTHON_PACKAGES, python::Dependencies::None)?;
    let python = python.to_str().ok_or("the path is not text")?;
    let test = ["test", "-p", "longarm-cli", "--features", "heavy", "--test", "heavy", "--"];
    run_with(
        "cargo",
        &[&test[..], &["--test-threads", "1", "--nocapture"]].concat(),
        &[("LONGARM_HEAVY_PYTHON", python)],
    )
}
