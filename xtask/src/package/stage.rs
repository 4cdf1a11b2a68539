//! The files of an installation below one folder, as the tarball has them. The other packages move some of them.
//!
//! The library is in a folder of its own, where no loader looks: only `longarm run` gives it to programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Build;
use super::files::{cannot, said, write};
use super::licences;
use crate::run::root;

/// Our licence files.
pub(super) const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// The folder of documents below the installation.
pub(super) const DOCUMENTS: &str = "share/doc/longarm";

/// The names by which programs load the library, for those that set `LD_LIBRARY_PATH` themselves.
const LINKS: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

/// A shell, and the file in which it looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/longarm"),
    ("zsh", "share/zsh/site-functions/_longarm"),
    ("fish", "share/fish/vendor_completions.d/longarm.fish"),
];

/// Fills an empty folder.
///
/// # Errors
/// If a file cannot be written, or the command does not describe itself.
pub(super) fn fill(build: &Build, dir: &Path) -> Result<(), String> {
    let command = dir.join("bin/longarm");
    build.copy(&command, &dir.join("lib/longarm/libibverbs.so"))?;
    for name in LINKS {
        let link = dir.join("lib/longarm").join(name);
        symlink("libibverbs.so", &link).map_err(cannot("make", &link))?;
    }
    let pages = dir.join("share/man/man1");
    said(Command::new(&command).arg("man-pages").arg(&pages))?;
    for (shell, file) in COMPLETIONS {
        write(&dir.join(file), &said(Command::new(&command).args(["completions", shell]))?)?;
    }
    let documents = dir.join(DOCUMENTS);
    for file in LICENCES.iter().chain(&["README.md", "CHANGELOG.md"]) {
        copy(&root().join(file), &documents)?;
    }
    for page in pages_of(&root().join("docs"))? {
        copy(&page, &documents.join("docs"))?;
    }
    write(&documents.join("LICENSES-OF-OTHERS"), licences::of_others()?.as_bytes())
}

fn copy(file: &Path, dir: &Path) -> Result<(), String> {
    let text = fs::read(file).map_err(cannot("read", file))?;
    write(&dir.join(file.file_name().unwrap_or_default()), &text)
}

/// The pages of documents in a folder, without drawings and records.
fn pages_of(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(cannot("read", dir))?.flatten().map(|entry| entry.path());
    Ok(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect())
}
