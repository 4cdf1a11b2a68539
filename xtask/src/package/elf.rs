//! The release of glibc that programs and libraries need, by the versions of the symbols that they import.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// A release of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc {
    major: u32,
    minor: u32,
}

impl Glibc {
    /// The platform of a Python wheel that needs this release (PEP 600).
    pub(super) fn wheel_platform(self, machine: &str) -> String {
        format!("manylinux_{}_{}_{machine}", self.major, self.minor)
    }

    fn parse(version: &str) -> Option<Glibc> {
        let (major, minor) = version.split_once('.')?;
        // `2.2.5`: the third number changes no interface that a later release lacks.
        let minor = minor.split('.').next()?;
        Some(Glibc { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The earliest release that has all symbols that these files import.
///
/// # Errors
/// If objdump, of Debian's package binutils, fails, or if a file imports nothing from glibc.
pub(super) fn needed(files: &[&Path]) -> Result<Glibc, String> {
    let mut latest: Option<Glibc> = None;
    for file in files {
        let output = Command::new("objdump").arg("-T").arg(file).output();
        let output = output.map_err(|error| format!("cannot run objdump: {error}"))?;
        let symbols = String::from_utf8_lossy(&output.stdout);
        let needed = latest_of(&symbols).ok_or_else(|| format!("{} imports nothing from glibc", file.display()))?;
        latest = latest.max(Some(needed));
    }
    latest.ok_or_else(|| "there are no files".into())
}

/// The latest release in the output of `objdump -T`.
fn latest_of(symbols: &str) -> Option<Glibc> {
    let imported = symbols.lines().filter(|line| line.contains("*UND*"));
    imported.filter_map(|line| Glibc::parse(line.split("GLIBC_").nth(1)?.split([')', ' ']).next()?)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0)     _Unwind_Resume
0000000000000000  w   DF *UND*\t0000000000000000 (GLIBC_2.28)  statx
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.9)   epoll_create1
0000000000001000 g    DF .text\t0000000000000010  GLIBC_2.99   exported";

    #[test]
    fn the_latest_imported_version_counts() {
        let latest = latest_of(SYMBOLS).unwrap();
        assert_eq!(latest.to_string(), "2.28");
        assert_eq!(latest.wheel_platform("x86_64"), "manylinux_2_28_x86_64");
        assert_eq!(latest_of("no symbols"), None);
    }
}
