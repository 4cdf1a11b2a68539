//! The function that the loader calls before `main`.
//!
//! `.init_array` is a table of functions in an executable or shared library, which the C library
//! calls in order when it is loaded. The number in the section's name puts ours before those
//! without one.
#![allow(unsafe_code)]

use std::fs;
use std::path::PathBuf;

/// The table's entry. `#[used]` keeps it, although no code refers to it.
#[used]
#[unsafe(link_section = ".init_array.00101")]
static ENTRY: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if guest::environment::var_os(super::BECOME_HUB_VARIABLE).is_none() {
        return;
    }
    // SAFETY: SIG_IGN is a valid disposition for SIGPIPE. Rust itself sets it only right before `main`.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let Some(code) = super::become_hub_if_asked() else { return };
    // SAFETY: it takes an integer and does not return. It runs no exit handlers; `main`, which would have
    // registered them, has not started.
    unsafe { libc::_exit(code) }
}

/// Whether this code is part of the executable, not of a shared library.
pub(super) fn is_in_executable() -> bool {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return false };
    // SAFETY: it takes and returns integers: the address of the executable's program headers, 0 if the kernel has
    // passed none.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    let code = before_main as *const () as u64;
    let file_of = |address| maps.lines().find_map(|line| file_at(line, address));
    file_of(code).is_some() && file_of(code) == file_of(headers)
}

/// The shared library with this code, if the file still exists. Its name must fit into `LD_PRELOAD`, a list separated
/// by colons and spaces.
pub(super) fn library() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let code = before_main as *const () as u64;
    let line = maps.lines().find(|line| file_at(line, code).is_some())?;
    path_of(line).filter(|path| path.is_file())
}

/// The path at the end of a line of `/proc/self/maps`.
fn path_of(line: &str) -> Option<PathBuf> {
    let path = &line[line.find('/')?..];
    let fits = !path.contains([' ', '\t', ':', '\\']);
    fits.then(|| PathBuf::from(path))
}

/// Whether the kernel started this program by a loader.
pub(super) fn has_loader() -> bool {
    // SAFETY: it takes and returns integers: the address of the loader, 0 if there is none.
    unsafe { libc::getauxval(libc::AT_BASE) != 0 }
}

/// Device and inode of the file that is mapped at an address, if this line of
/// `/proc/self/maps` has it: `from-to permissions offset device inode path`.
fn file_at(line: &str, address: u64) -> Option<(&str, &str)> {
    let mut columns = line.split_ascii_whitespace();
    let (from, to) = columns.next()?.split_once('-')?;
    let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).ok());
    let mapped = (from?..to?).contains(&address);
    let file = (columns.nth(2)?, columns.next()?);
    (mapped && file.1 != "0").then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_path() {
        let line = |path: &str| format!("55d0c0a00000-55d0c0a02000 r-xp 00001000 fd:00 1234      {path}");
        assert_eq!(path_of(&line("/usr/lib/x.so")), Some(PathBuf::from("/usr/lib/x.so")));
        for useless in ["/usr/lib/x.so (deleted)", "/a:b/x.so", "[vdso]", ""] {
            assert_eq!(path_of(&line(useless)), None, "{useless}");
        }
        assert_eq!(library(), std::env::current_exe().ok(), "a test is its own library");
        assert!(has_loader());
    }

    #[test]
    fn mappings_are_found_by_address() {
        let line = "55d0c0a00000-55d0c0a02000 r-xp 00001000 fd:00 1234      /usr/bin/true";
        assert_eq!(file_at(line, 0x55d0_c0a0_0000), Some(("fd:00", "1234")));
        assert_eq!(file_at(line, 0x55d0_c0a0_2000), None);
        let anonymous = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0";
        assert_eq!(file_at(anonymous, 0x7f00_0000_0000), None);
        for broken in ["", "1-2", "x-y r 0 0 1", "1 2 3 4 5"] {
            assert_eq!(file_at(broken, 1), None, "{broken:?}");
        }
    }
}
