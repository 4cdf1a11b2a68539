//! Finds libraries like the loader: run paths, `LD_LIBRARY_PATH`, the loader's cache, and
//! the default directories (ld.so(8)).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf};

/// The default path of the loader's cache.
const CACHE: &str = "/etc/ld.so.cache";

/// The loader's default directories on common systems.
const ALWAYS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// The search paths of the loader.
pub(super) struct Search {
    cache: Vec<PathBuf>,
    library_path: Vec<PathBuf>,
}

/// A library that the search found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundLibrary {
    pub(super) path: PathBuf,
    /// The loader found it before it searched the directories of the environment.
    pub(super) before_environment: bool,
}

impl Search {
    /// The search paths for a program that this process executes.
    pub(super) fn new() -> Search {
        let library_path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let library_path = env::split_paths(&library_path).filter(|dir| !dir.as_os_str().is_empty()).collect();
        Search { cache: cached(&fs::read(CACHE).unwrap_or_default()), library_path }
    }

    /// Finds a library that `user` needs. `inherited` are the directories that the loader searches
    /// before the environment's: the run paths of the files that loaded `user`.
    pub(super) fn find(&self, name: &str, user: &Path, elf: &Elf, inherited: &[PathBuf]) -> Option<FoundLibrary> {
        let found = |path: PathBuf, before_environment| FoundLibrary { path, before_environment };
        if name.contains('/') {
            return Some(found(name.into(), true)).filter(|found| found.path.is_file());
        }
        let fits = |path: &PathBuf| fits(path, elf.machine);
        let first = |dirs: &[PathBuf]| dirs.iter().map(|dir| dir.join(name)).find(fits);
        if elf.runpath.is_none()
            && let Some(path) = first(inherited)
        {
            return Some(found(path, true));
        }
        let own = elf.runpath.as_deref().map(|text| directories(text, user)).unwrap_or_default();
        let after =
            first(&self.library_path).or_else(|| first(&own)).or_else(|| self.system(name).into_iter().find(fits));
        after.map(|path| found(path, false))
    }

    /// Files of that name in the system's library directories.
    pub(super) fn system(&self, name: &str) -> Vec<PathBuf> {
        let cached = self.cache.iter().filter(|path| path.file_name().is_some_and(|file| file == name)).cloned();
        cached.chain(ALWAYS.iter().map(|dir| Path::new(dir).join(name))).filter(|path| path.is_file()).collect()
    }
}

/// The directories of a run path.
pub(super) fn directories(run_path: &str, user: &Path) -> Vec<PathBuf> {
    let origin = user.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let expand = |dir: &str| PathBuf::from(dir.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin));
    run_path.split(':').filter(|dir| !dir.is_empty()).map(expand).collect()
}

/// Whether a library can be loaded into a process of that machine.
pub(super) fn fits(path: &Path, machine: u16) -> bool {
    elf::read(path).ok().flatten().is_some_and(|elf| elf.machine == machine)
}

/// The paths in a loader's cache: all texts that begin with a slash, in the cache's order.
fn cached(cache: &[u8]) -> Vec<PathBuf> {
    let texts = cache.split(|byte| *byte == 0).filter(|text| text.first() == Some(&b'/'));
    texts.filter_map(|text| std::str::from_utf8(text).ok()).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_paths_name_the_place_of_their_file() {
        let expected = ["/opt/x/lib", "/opt/x/bin/../lib", "/lib"].map(PathBuf::from);
        assert_eq!(directories("/opt/x/lib:${ORIGIN}/../lib::/lib", Path::new("/opt/x/bin/tool")), expected);
    }

    #[test]
    fn the_cache_holds_paths() {
        assert_eq!(cached(b"glibc-ld.so.cache1.1\x01\0libc.so.6\0/lib/libc.so.6\0"), [PathBuf::from("/lib/libc.so.6")]);
        assert!(cached(b"").is_empty());
    }

    #[test]
    fn a_run_path_wins_over_the_environment_and_the_later_kind_does_not() {
        let system = Search::new().system("libc.so.6");
        let dir = system.first().expect("a C library").parent().unwrap().to_path_buf();
        let own = std::env::current_exe().unwrap();
        let elf = elf::read(&own).unwrap().unwrap();
        let search = Search { cache: vec![], library_path: vec![dir.clone()] };
        let found = search.find("libc.so.6", &own, &elf, std::slice::from_ref(&dir)).unwrap();
        assert!(found.before_environment, "{found:?}");
        let later = Elf { runpath: Some(dir.display().to_string()), ..elf.clone() };
        assert!(!search.find("libc.so.6", &own, &later, &[dir]).unwrap().before_environment);
        assert_eq!(search.find("libnosuch.so.1", &own, &elf, &[]), None);
    }
}
