//! The library that an optimised command contains, for a command without files beside it: `cargo install` installs
//! programs only.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use super::error::StartFailure;

/// Empty in a build that is not optimised: there the file is beside the command, and the copy would slow the build.
#[cfg(all(feature = "embedded-library", not(debug_assertions)))]
const LIBRARY: &[u8] = embed::shared_library!("ibverbs");
#[cfg(not(all(feature = "embedded-library", not(debug_assertions))))]
const LIBRARY: &[u8] = &[];

/// Whether this command contains the library.
pub(super) const fn is_there() -> bool {
    !LIBRARY.is_empty()
}

/// Writes the library into the runtime directory, unless it is there; returns its file.
///
/// # Errors
/// [`StartFailure::Usage`] if programs can load nothing from that directory, [`StartFailure::System`].
pub(super) fn unpack(runtime_dir: &Path) -> Result<PathBuf, StartFailure> {
    let flags = rustix::fs::statvfs(runtime_dir).map_or(StatVfsMountFlags::empty(), |system| system.f_flag);
    check(runtime_dir, flags)?;
    let file = runtime_dir.join(concat!("library-", env!("CARGO_PKG_VERSION"))).join("libibverbs.so");
    keep(&file, LIBRARY).map_err(StartFailure::system(format!("write the library {}", file.display())))?;
    Ok(file)
}

/// Refuses a directory whose file system is mounted with flags under which nothing can be loaded from it.
fn check(runtime_dir: &Path, flags: StatVfsMountFlags) -> Result<(), StartFailure> {
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        return Err(StartFailure::Usage(format!(
            "programs can load no library from {}: it is mounted with noexec. Set LONGARM_RUNTIME_DIR to a directory \
             of yours on another file system, or LONGARM_LIB to a file of the library",
            runtime_dir.display()
        )));
    }
    Ok(())
}

/// Makes sure that a file has this content. Programs that have loaded the former one keep it.
fn keep(file: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|now| now == content) {
        return Ok(());
    }
    let dir = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(content)?;
    new.persist(file).map(drop).map_err(|refused| refused.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_once_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/library");
        let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
        keep(&file, b"one").unwrap();
        let first = inode();
        keep(&file, b"one").unwrap();
        assert_eq!(inode(), first, "an equal file stays");
        let loaded = fs::File::open(&file).unwrap();
        keep(&file, b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(io::read_to_string(loaded).unwrap(), "one", "a program that has it open keeps it");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_system_without_programs_is_named() {
        let dir = Path::new("/run/x");
        check(dir, StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV).unwrap();
        let problem = check(dir, StatVfsMountFlags::NODEV | StatVfsMountFlags::NOEXEC).unwrap_err().to_string();
        assert!(problem.contains("/run/x") && problem.contains("LONGARM_RUNTIME_DIR"), "{problem}");
    }
}
