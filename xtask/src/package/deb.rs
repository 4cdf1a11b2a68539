//! The Debian package, by dpkg-deb.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Build;
use super::files::{self, cannot, version};
use super::stage;
use crate::run::root;

const MAINTAINER: &str = "Longarm <longarm@localhost>";
const DESCRIPTION: &str = "\
RDMA on any machine, in user space
 Longarm runs unmodified programs that use libibverbs or librdmacm on a
 machine without RDMA hardware, kernel module or root: `longarm run -- PROGRAM`.
 Processes of one host share memory; on the wire it speaks RoCEv2.
 .
 The package does not replace the system's libibverbs1 and librdmacm1: its
 library is in /usr/lib/longarm, and only `longarm run` uses it.";

/// Writes the package; returns its file.
///
/// # Errors
/// If staging fails, or dpkg-deb, which every Debian has.
pub(super) fn write(build: &Build, out: &Path) -> Result<PathBuf, String> {
    let dir = out.join("stage-deb");
    files::empty(&dir)?;
    let usr = dir.join("usr");
    stage::fill(build, &usr)?;
    adapt(&usr)?;
    let kilobytes = files::said(Command::new("du").args(["-sk", "--apparent-size"]).arg(&dir))?;
    let kilobytes = String::from_utf8_lossy(&kilobytes).split_whitespace().next().unwrap_or("0").to_owned();
    files::write(&dir.join("DEBIAN/md5sums"), &checksums(&dir)?)?;
    files::write(&dir.join("DEBIAN/control"), control(build, &kilobytes)?.as_bytes())?;
    // The umask of the packager must not close the folders.
    files::said(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&dir))?;
    let file = out.join(file_name()?);
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", files::time()?).args(["--root-owner-group", "-Zxz", "--build"]);
    files::said(dpkg.arg(&dir).arg(&file))?;
    fs::remove_dir_all(&dir).map_err(cannot("remove", &dir))?;
    Ok(file)
}

/// The name of the package's file.
pub(super) fn file_name() -> Result<String, String> {
    Ok(format!("longarm_{}_{}.deb", version()?, architecture()?))
}

/// Moves files to where Debian's policy wants them.
fn adapt(usr: &Path) -> Result<(), String> {
    let (from, to) = (usr.join("share/zsh/site-functions"), usr.join("share/zsh/vendor-completions"));
    fs::rename(&from, &to).map_err(cannot("move", &from))?;
    let documents = usr.join(stage::DOCUMENTS);
    let mut gzip = Command::new("gzip");
    let (pages, change_log) = (usr.join("share/man/man1"), documents.join("changelog"));
    files::write(&change_log, debian_change_log()?.as_bytes())?;
    let pages = fs::read_dir(&pages).map_err(cannot("read", &pages))?.flatten().map(|entry| entry.path());
    files::said(gzip.arg("-9n").args(pages).arg(&change_log))?;
    copyright(&documents)
}

/// A list of changes in Debian's format, which refers to ours.
fn debian_change_log() -> Result<String, String> {
    let time = format!("@{}", files::time()?);
    let date = files::said(Command::new("date").args(["--utc", "--rfc-email", "--date", &time]))?;
    let date = String::from_utf8_lossy(&date);
    let version = version()?;
    Ok(format!(
        "longarm ({version}) unstable; urgency=medium\n\n  * CHANGELOG.md in this folder has the changes.\n\n -- \
         {MAINTAINER}  {date}"
    ))
}

/// The file that Debian's policy demands. Apache's text is part of every Debian, but not of other systems' images.
fn copyright(documents: &Path) -> Result<(), String> {
    let mit = root().join(stage::LICENCES[0]);
    let mit = fs::read_to_string(&mit).map_err(cannot("read", &mit))?;
    let text = format!(
        "Longarm is licensed under MIT or Apache-2.0, at your choice.\n\nThe texts are in LICENSE-MIT and \
         LICENSE-APACHE in this folder; Apache-2.0 is also\n/usr/share/common-licenses/Apache-2.0. The crates of \
         others that it contains, and their licences,\nare in LICENSES-OF-OTHERS.\n\n{mit}"
    );
    files::write(&documents.join("copyright"), text.as_bytes())
}

/// The checksums by which `dpkg --verify` finds changed files.
fn checksums(dir: &Path) -> Result<Vec<u8>, String> {
    files::said(Command::new("sh").args(["-c", "find usr -type f | LC_ALL=C sort | xargs md5sum"]).current_dir(dir))
}

fn control(build: &Build, kilobytes: &str) -> Result<String, String> {
    Ok(format!(
        "Package: longarm\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: \
         {kilobytes}\nDepends: libc6 (>= {}), libgcc-s1\nSuggests: ibverbs-utils, rdmacm-utils, perftest, iproute2\n\
         Section: net\nPriority: optional\nDescription: {DESCRIPTION}\n",
        version()?,
        architecture()?,
        build.glibc()?
    ))
}

/// Debian's name of this processor.
fn architecture() -> Result<&'static str, String> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        other => Err(format!("there is no Debian package for {other}")),
    }
}
