//! Decides how to run a program: with a library path only, or in a namespace with Longarm's tree in `/sys`
//! and Longarm's library in place of the system's.
//!
//! The decision follows the libraries that the loader would load. The library path suffices for a program
//! that links libibverbs or librdmacm, but not through its own run path. It must link none of the
//! libraries that are known to read `/sys/class/infiniband`. All others are unknown: scripts, shells and
//! launchers start other programs, and some programs open libibverbs late.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

use super::bundled;
use super::elf::{self, Elf};
use super::program;
use super::search::{self, FoundLibrary, Search};

/// Name prefixes of libraries that read `/sys/class/infiniband` by its path.
const SYSFS_READERS: [&str; 8] =
    ["libucs.", "libuct", "libucp.", "libnccl", "librccl", "libmpi", "libfabric.", "librte_"];

/// The library names that the library path resolves to Longarm's library.
const OURS: [&str; 4] = ["libibverbs.so.1", "librdmacm.so.1", "libibverbs.so", "librdmacm.so"];

/// The most libraries of a program that are examined.
const MAX_LIBRARIES: usize = 1000;

/// The needs of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) reach: Reach,
    /// Libraries that the program's run path finds instead of Longarm's, and copies in Python packages.
    pub(super) hidden: Vec<PathBuf>,
    /// The program is Python: it loads libraries by names that only it knows.
    pub(super) python: bool,
}

/// The means that give the program Longarm's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The library path suffices.
    LibraryPath,
    /// It needs a namespace, for this reason.
    Namespace(String),
    /// It may need a namespace; it is unknown for this reason.
    Unknown(String),
}

/// Finds the needs of a program.
pub(super) fn of(program: &Path, search: &Search) -> Needs {
    let unknown = |why: &str| Needs {
        reach: Reach::Unknown(format!("{} {why}", name(program))),
        hidden: bundled::copies(program),
        python: program::runs_python(program),
    };
    if program::interpreter(program).is_some() {
        return unknown("is a script");
    }
    let Ok(Some(elf)) = elf::read(program) else { return unknown("is not an executable that we can read") };
    if elf.interpreter.is_none() {
        return unknown("is statically linked: it may start programs that are not");
    }
    let loaded = LoadedLibraries::by(program, elf, search);
    let reason = match (&loaded.reader, loaded.hidden.first(), loaded.ours) {
        (_, Some(hidden), _) => format!("the run path finds {}", hidden.display()),
        (Some(reader), ..) => format!("{reader} reads /sys/class/infiniband"),
        (.., false) => return unknown("links neither libibverbs nor librdmacm itself"),
        (.., true) => return Needs { reach: Reach::LibraryPath, hidden: vec![], python: false },
    };
    let python = program::runs_python(program);
    let bundled = if python { bundled::copies(program) } else { vec![] };
    Needs { reach: Reach::Namespace(reason), hidden: [loaded.hidden, bundled].concat(), python }
}

fn name(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// The libraries that the loader loads with a program.
#[derive(Default)]
struct LoadedLibraries {
    reader: Option<String>,
    hidden: Vec<PathBuf>,
    /// One of them resolves to Longarm's library.
    ours: bool,
}

/// A file whose needed libraries are still to be examined.
struct PendingFile {
    path: PathBuf,
    elf: Elf,
    /// The run paths of the files that loaded it, which the loader searches before the environment's.
    inherited: Vec<PathBuf>,
}

impl LoadedLibraries {
    fn by(program: &Path, elf: Elf, search: &Search) -> LoadedLibraries {
        let mut loaded = LoadedLibraries::default();
        let mut seen: HashSet<String> = HashSet::new();
        let mut queue = VecDeque::from([PendingFile { path: program.into(), elf, inherited: vec![] }]);
        while let Some(mut user) = queue.pop_front() {
            let own = user.elf.rpath.as_deref().map(|text| search::directories(text, &user.path)).unwrap_or_default();
            user.inherited.splice(0..0, own);
            for name in &user.elf.needed {
                if seen.len() < MAX_LIBRARIES && seen.insert(name.clone()) {
                    queue.extend(loaded.look_at(name, &user, search));
                }
            }
        }
        loaded
    }

    /// Notes a needed library; returns it if its own needs must be examined.
    fn look_at(&mut self, name: &str, user: &PendingFile, search: &Search) -> Option<PendingFile> {
        if self.reader.is_none() && SYSFS_READERS.iter().any(|reader| name.starts_with(reader)) {
            self.reader = Some(name.to_owned());
        }
        let found = search.find(name, &user.path, &user.elf, &user.inherited);
        let file = name.rsplit('/').next().unwrap_or(name);
        if bundled::is_copy(file) {
            self.ours = true;
            // Longarm's directory has the plain names only.
            let ours_is_found = |found: &FoundLibrary| !found.before_environment && OURS.contains(&name);
            self.hidden.extend(found.filter(|found| !ours_is_found(found)).map(|found| found.path));
            return None;
        }
        let found = found?;
        let elf = elf::read(&found.path).ok()??;
        Some(PendingFile { path: found.path, elf, inherited: user.inherited.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_verbs_may_start_one_with_verbs() {
        let needs = of(Path::new("/bin/sh"), &Search::new());
        assert!(matches!(needs.reach, Reach::Unknown(why) if why.contains("links neither libibverbs")));
    }

    #[test]
    fn scripts_and_other_files_are_unknown() {
        let path = std::env::temp_dir().join(format!("longarm-needs-{}", std::process::id()));
        for (text, expected) in [("#!/bin/sh\n", "is a script"), ("\x7fELF", "we can read")] {
            std::fs::write(&path, text).unwrap();
            let needs = of(&path, &Search::new());
            assert!(matches!(&needs.reach, Reach::Unknown(why) if why.contains(expected)), "{needs:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
