//! The Python wheel: the command goes to the environment's `bin`, the rest to its `lib` and `share`. PyPA's own tool
//! `wheel` writes the archive and its list of checksums.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{Build, target_directory};
use super::files::{self, cannot, version};
use super::stage;
use crate::python;
use crate::run::root;

/// The tool, and one that the trials check the platform with.
const TOOLS: [&str; 2] = ["wheel==0.46.3", "auditwheel==6.8.2"];

/// The Python with these tools.
///
/// # Errors
/// If they cannot be installed.
pub(super) fn tools() -> Result<PathBuf, String> {
    python::environment(&target_directory().join("package-python"), &TOOLS, python::Dependencies::All)
}

/// Writes the wheel; returns its file.
///
/// # Errors
/// If staging or the tool fails.
pub(super) fn write(build: &Build, out: &Path) -> Result<PathBuf, String> {
    let (dir, name) = (out.join("stage-wheel"), format!("longarm-{}", version()?));
    files::empty(&dir)?;
    let data = dir.join(format!("{name}.data"));
    let (installed, scripts) = (data.join("data"), data.join("scripts"));
    stage::fill(build, &installed)?;
    let bin = installed.join("bin");
    fs::rename(&bin, &scripts).map_err(cannot("move", &bin))?;
    remove_links(&installed.join("lib/longarm"))?;
    let tag = format!("py3-none-{}", build.glibc()?.wheel_platform(std::env::consts::ARCH));
    describe(&dir.join(format!("{name}.dist-info")), &tag)?;
    let mut pack = Command::new(tools()?);
    pack.env("SOURCE_DATE_EPOCH", files::time()?).args(["-m", "wheel", "pack", "--dest-dir"]).arg(out).arg(&dir);
    files::said(&mut pack)?;
    fs::remove_dir_all(&dir).map_err(cannot("remove", &dir))?;
    Ok(out.join(format!("{name}-{tag}.whl")))
}

/// A wheel cannot have symbolic links; the command makes its own.
fn remove_links(dir: &Path) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(cannot("read", dir))?.flatten();
    let mut links = entries.map(|entry| entry.path()).filter(|path| path.is_symlink());
    links.try_for_each(|link| fs::remove_file(&link).map_err(cannot("remove", &link)))
}

/// Writes the files that describe the wheel.
fn describe(info: &Path, tag: &str) -> Result<(), String> {
    let page = root().join("docs/install.md");
    let page = fs::read_to_string(&page).map_err(cannot("read", &page))?;
    let licences: String = stage::LICENCES.iter().map(|file| format!("License-File: {file}\n")).collect();
    let metadata = format!(
        "Metadata-Version: 2.4\nName: longarm\nVersion: {}\nSummary: RDMA on any machine, in user space: the command \
         longarm and its libibverbs\nLicense-Expression: {}\n{licences}Requires-Python: >=3.7\nClassifier: Operating \
         System :: POSIX :: Linux\nDescription-Content-Type: text/markdown\n\n{page}",
        version()?,
        env!("CARGO_PKG_LICENSE"),
    );
    files::write(&info.join("METADATA"), metadata.as_bytes())?;
    let wheel = format!("Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\nTag: {tag}\n");
    files::write(&info.join("WHEEL"), wheel.as_bytes())?;
    stage::LICENCES.iter().try_for_each(|file| {
        let from = root().join(file);
        files::write(&info.join("licenses").join(file), &fs::read(&from).map_err(cannot("read", &from))?)
    })
}
