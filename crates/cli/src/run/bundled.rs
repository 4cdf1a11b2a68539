//! Copies of libibverbs and librdmacm inside Python packages.
//!
//! `auditwheel` puts the libraries that an extension needs into its wheel and renames them, as in
//! `nixl_cu12.libs/libibverbs-1de1263b.so.1.14.48.0`. The extension loads that name through a run path, so neither
//! the library path nor the system's `libibverbs.so.1` affects it. Conda keeps the plain name in its own
//! directory. `longarm run` replaces such copies in place; this module finds them.
//!
//! It searches the same places as Python: the environments of the interpreters on the path and around the program,
//! those that variables name, and those in the working or home directory.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::program;

/// Prefixes of the file names of libraries that Longarm replaces.
const STEMS: [&str; 2] = ["libibverbs", "librdmacm"];
/// Variables that name the root of an environment.
const ROOTS: [&str; 3] = ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE"];
/// Variables that name a directory that contains environments.
const SHELVES: [&str; 3] = ["WORKON_HOME", "HOME", "PWD"];
/// Files that only the root of an environment has.
const MARKS: [&str; 2] = ["pyvenv.cfg", "conda-meta"];
/// The most directories that the search visits.
const MAX_DIRECTORIES: usize = 50_000;
/// The largest depth of libraries below `site-packages`: `nvidia/nccl/lib`.
const DEPTH: usize = 3;

/// Whether a file name is that of a copy, perhaps renamed: `libibverbs-1de1263b.so.1.14`.
pub(super) fn is_copy(name: &str) -> bool {
    STEMS.iter().filter_map(|stem| name.strip_prefix(stem)).any(|rest| {
        let (tag, after) = rest.split_once(".so").unwrap_or(("?", ""));
        let tagged = tag.strip_prefix('-').is_some_and(|tag| tag.bytes().all(|byte| byte.is_ascii_hexdigit()));
        (tag.is_empty() || tagged) && (after.is_empty() || after.starts_with('.'))
    })
}

/// All copies that a Python program, or a program that starts Python programs, may load.
pub(super) fn copies(program: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = MAX_DIRECTORIES;
    for directory in package_directories(&prefixes(program)) {
        look(&directory, DEPTH, &mut left, &mut found);
    }
    found
}

/// The roots of Python environments.
fn prefixes(program: &Path) -> BTreeSet<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let interpreter = program::interpreter(program);
    let around = [Some(program), interpreter.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let mut binaries: Vec<PathBuf> = around.map(Path::to_path_buf).chain(env::split_paths(&path)).collect();
    // An environment's interpreter is a link into the environment that it was made from.
    let real = |dir: &PathBuf| fs::canonicalize(dir.join("python3")).ok()?.parent().map(Path::to_path_buf);
    let shelved = SHELVES.iter().filter_map(env::var_os).flat_map(|shelf| environments_in(Path::new(&shelf)));
    let named = ROOTS.iter().filter_map(env::var_os).map(PathBuf::from).chain(shelved);
    let named: Vec<PathBuf> = named.collect();
    binaries.extend(named.iter().map(|root| root.join("bin")));
    let made_from: Vec<PathBuf> = binaries.iter().filter_map(real).collect();
    binaries.extend(made_from);
    let roots = binaries.iter().filter(|dir| dir.file_name().is_some_and(|name| name == "bin"));
    let user = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    roots.filter_map(|dir| dir.parent()).map(Path::to_path_buf).chain(named).chain(user).collect()
}

/// The environments directly in a directory.
fn environments_in(shelf: &Path) -> Vec<PathBuf> {
    let roots = fs::read_dir(shelf).into_iter().flatten().flatten().map(|entry| entry.path());
    roots.filter(|root| MARKS.iter().any(|mark| root.join(mark).exists())).collect()
}

/// The package directories of environments, and those in `PYTHONPATH`.
fn package_directories(prefixes: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut directories: BTreeSet<PathBuf> = env::var_os("PYTHONPATH")
        .map(|path| env::split_paths(&path).filter(|dir| !dir.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    for prefix in prefixes {
        for lib in ["lib", "lib64"].map(|name| prefix.join(name)) {
            let versions = fs::read_dir(&lib).into_iter().flatten().flatten().map(|entry| entry.path());
            let versions = versions.filter(|dir| program::is_python(dir));
            directories.extend(versions.flat_map(|dir| ["site-packages", "dist-packages"].map(|name| dir.join(name))));
            if prefix.join("conda-meta").exists() {
                directories.insert(lib);
            }
        }
    }
    directories.into_iter().filter_map(|dir| fs::canonicalize(dir).ok()).collect()
}

/// Collects the copies in a directory and below it.
fn look(directory: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Some(rest) = left.checked_sub(1) else { return };
    *left = rest;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            look(&entry.path(), depth - 1, left, found);
        } else if !kind.is_dir() && entry.file_name().to_str().is_some_and(is_copy) {
            found.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_known_by_their_names() {
        for name in [
            "libibverbs-1de1263b.so.1.14.48.0",
            "libibverbs-d5a0ab6e.so",
            "librdmacm-8d7ee93f.so.1.3.44.0",
            "libibverbs.so.1",
            "librdmacm.so",
        ] {
            assert!(is_copy(name), "{name}");
        }
        for name in
            ["libibverbs", "libibverbs-utils.so.1", "libibverbs-1de.solid", "libmlx5-79ef1d27.so.1", "ibverbs.so"]
        {
            assert!(!is_copy(name), "{name}");
        }
    }

    #[test]
    fn copies_are_found_in_an_environment_and_not_below_all_packages() {
        let root = env::temp_dir().join(format!("longarm-bundled-{}", std::process::id()));
        let packages = root.join("lib/python3.11/site-packages");
        let here = ["x.libs/libibverbs-1de1263b.so.1", "nvidia/nccl/lib/librdmacm-0a.so.1", "y/libibverbs.so.1"];
        let elsewhere = ["x.libs/libmlx5-79ef1d27.so.1", "a/b/c/d/libibverbs-1de1263b.so.1"];
        for file in here.iter().chain(&elsewhere) {
            fs::create_dir_all(packages.join(file).parent().unwrap()).unwrap();
            fs::write(packages.join(file), "").unwrap();
        }
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/python3"), "").unwrap();
        let found = copies(&root.join("bin/python3"));
        for file in here {
            assert!(found.contains(&fs::canonicalize(packages.join(file)).unwrap()), "{file}: {found:?}");
        }
        for file in elsewhere {
            assert!(!found.contains(&fs::canonicalize(packages.join(file)).unwrap()), "{file}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
