//! Longarm's `libibverbs.so`, and the directory with the names that programs load it by.
//!
//! Cargo builds the library with the command, as a separate file. It is `$LONGARM_LIB` (the file
//! or its directory), or it lies where cargo or an installation put it, see [`places`]. A command that
//! `cargo install` has installed alone contains it, see [`embedded`].

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::error::StartFailure;
use super::{elf, embedded};

/// The variable that names the library or its directory.
pub(super) const LIBRARY_VARIABLE: &str = "LONGARM_LIB";

const FILE: &str = "libibverbs.so";
const VERBS: [&str; 2] = ["libibverbs.so.1", "libibverbs.so"];
const CONNECTIONS: [&str; 2] = ["librdmacm.so.1", "librdmacm.so"];

/// A function whose presence shows that the file is librdmacm as well.
const CONNECTIONS_FUNCTION: &str = "rdma_create_event_channel";

/// Longarm's library file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    /// The file, without symbolic links.
    pub(super) file: PathBuf,
    /// The target machine, as an ELF machine number.
    pub(super) machine: u16,
    has_connections: bool,
}

impl Library {
    /// Finds the library, or writes the embedded one into `runtime_dir`, a directory that only this user can enter.
    ///
    /// # Errors
    /// [`StartFailure::NoLibrary`], [`StartFailure::Usage`] if the file is not a library or cannot be loaded from
    /// there, and [`StartFailure::System`].
    pub(super) fn find(runtime_dir: &Path) -> Result<Library, StartFailure> {
        let named = env::var_os(LIBRARY_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let executable =
            env::current_exe().and_then(fs::canonicalize).map_err(StartFailure::system("find this program"))?;
        let places = places(named.as_deref(), executable.parent().unwrap_or(Path::new("/")));
        match places.iter().find(|path| path.is_file()) {
            Some(file) => Library::open(file),
            None if named.is_none() && embedded::is_there() => Library::open(&embedded::unpack(runtime_dir)?),
            None => {
                Err(StartFailure::NoLibrary { tried: places.iter().map(|path| path.display().to_string()).collect() })
            }
        }
    }

    fn open(file: &Path) -> Result<Library, StartFailure> {
        let file = fs::canonicalize(file).map_err(StartFailure::system(format!("open {}", file.display())))?;
        let elf = elf::read(&file).map_err(StartFailure::system(format!("read {}", file.display())))?;
        let ours = elf.filter(|elf| elf.soname.as_deref() == Some(VERBS[0]));
        let Some(elf) = ours else {
            return Err(StartFailure::Usage(format!("{} is not a library named {}", file.display(), VERBS[0])));
        };
        let has_connections = elf::names_symbol(&file, CONNECTIONS_FUNCTION);
        Ok(Library { file, machine: elf.machine, has_connections })
    }

    /// The names by which programs load it.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let connections = if self.has_connections { &CONNECTIONS[..] } else { &[] };
        VERBS.iter().chain(connections).copied()
    }

    /// Makes a directory with these names as links, or corrects an existing one.
    /// `runtime_dir` is a directory that only this user can enter.
    ///
    /// # Errors
    /// [`StartFailure::System`].
    pub(super) fn link_directory(&self, runtime_dir: &Path) -> Result<PathBuf, StartFailure> {
        let dir = runtime_dir.join(format!("lib-{:016x}", super::stable_hash(&self.file)));
        let links = || {
            match fs::create_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            VERBS.iter().chain(&CONNECTIONS).try_for_each(|name| {
                let target = self.names().any(|own| own == *name).then_some(self.file.as_path());
                set_link(&dir.join(name), target)
            })
        };
        links().map_err(StartFailure::system(format!("make the library directory {}", dir.display())))?;
        Ok(dir)
    }
}

/// The possible files of the library; a build by cargo comes before an installation.
fn places(named: Option<&Path>, beside: &Path) -> Vec<PathBuf> {
    if let Some(named) = named {
        return if named.is_dir() { VERBS.map(|name| named.join(name)).to_vec() } else { vec![named.into()] };
    }
    // A test's executable is in `deps` itself; an installation's in `bin`.
    ["deps", ".", "../lib/longarm", "../lib"].iter().map(|dir| clean(beside, dir).join(FILE)).collect()
}

/// `beside/dir` without `.` and `..`.
fn clean(beside: &Path, dir: &str) -> PathBuf {
    match dir.strip_prefix("../") {
        Some(rest) => beside.parent().unwrap_or(beside).join(rest),
        None if dir == "." => beside.into(),
        None => beside.join(dir),
    }
}

/// Makes a link point to `target`, or removes it. Other processes may do the same concurrently.
pub(super) fn set_link(link: &Path, target: Option<&Path>) -> io::Result<()> {
    let Some(target) = target else {
        return match fs::remove_file(link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    if fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let dir = link.parent().unwrap_or(Path::new("."));
    let new = tempfile::Builder::new().prefix("new-").make_in(dir, |path| symlink(target, path))?;
    Ok(new.into_temp_path().persist(link)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_comes_before_an_installation() {
        let expected = ["/x/bin/deps", "/x/bin", "/x/lib/longarm", "/x/lib"].map(|dir| Path::new(dir).join(FILE));
        assert_eq!(places(None, Path::new("/x/bin")), expected);
        assert_eq!(places(Some(Path::new("/x/my.so")), Path::new("/y")), [Path::new("/x/my.so")]);
        let in_tmp = places(Some(Path::new("/tmp")), Path::new("/y"));
        assert_eq!(in_tmp, [Path::new("/tmp/libibverbs.so.1"), Path::new("/tmp/libibverbs.so")]);
    }

    #[test]
    fn links_follow_the_library() {
        let dir = env::temp_dir().join(format!("longarm-links-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut library = Library { file: "/x/libibverbs.so".into(), machine: 62, has_connections: true };
        let links = library.link_directory(&dir).unwrap();
        let target = |name: &str| fs::read_link(links.join(name)).ok();
        for name in VERBS.iter().chain(&CONNECTIONS) {
            assert_eq!(target(name), Some(library.file.clone()), "{name}");
        }
        fs::remove_file(links.join(VERBS[0])).unwrap();
        symlink("/elsewhere", links.join(VERBS[0])).unwrap();
        library.has_connections = false;
        assert_eq!(library.link_directory(&dir).unwrap(), links);
        assert_eq!(target(VERBS[0]), Some(library.file.clone()));
        assert_eq!(target(CONNECTIONS[0]), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The two hosts of `longarm pair` are threads of one process.
    #[test]
    fn threads_of_one_process_make_the_same_link() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        let replace = |target: &str| (0..2000).try_for_each(|_| set_link(&link, Some(Path::new(target))));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| replace("/a"));
            replace("/b").unwrap();
            other.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn files_that_are_not_libraries_are_refused() {
        let problem = Library::open(&env::current_exe().unwrap()).unwrap_err();
        assert!(problem.to_string().contains("libibverbs.so.1"), "{problem}");
    }
}
