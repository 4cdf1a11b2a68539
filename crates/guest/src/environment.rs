//! Environment variables, which only the program's caller may set.
//!
//! A program with more rights than its caller (set-user-ID, set-group-ID, file capabilities) runs in an
//! environment that a less privileged user chose. The kernel marks such a process with `AT_SECURE`. In it
//! every variable appears unset here, as with `secure_getenv(3)`. A variable of this library could name a
//! file to overwrite, a directory to make or a program to execute.
//!
//! The other crates read the environment only through this module; clippy refuses `std::env::var` there.
#![allow(unsafe_code)]

use std::env;
use std::ffi::OsString;

/// True if the environment may be trusted: the program has no more rights than its caller.
#[must_use]
pub fn is_trusted() -> bool {
    // SAFETY: the call takes and returns integers.
    unsafe { libc::getauxval(libc::AT_SECURE) == 0 }
}

/// The value of a variable, if it is set and the environment is trusted.
// The only function that reads one variable.
#[allow(clippy::disallowed_methods)]
#[must_use]
pub fn var_os(name: &str) -> Option<OsString> {
    if is_trusted() { env::var_os(name) } else { None }
}

/// The value of a variable, if it is set, not empty, and the environment is trusted.
#[must_use]
pub fn value(name: &str) -> Option<OsString> {
    var_os(name).filter(|value| !value.is_empty())
}

/// Like [`var_os`], as text; `None` if the value is not UTF-8.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    var_os(name)?.into_string().ok()
}

/// All variables; none if the environment is not trusted.
#[allow(clippy::disallowed_methods)]
#[must_use]
pub fn all() -> Vec<(OsString, OsString)> {
    if is_trusted() { env::vars_os().collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_rights_of_its_caller() {
        assert!(is_trusted());
        let path = env::var_os("PATH");
        assert_eq!(var_os("PATH"), path);
        assert_eq!(all().into_iter().find(|(name, _)| name == "PATH").map(|(_, value)| value), path);
        assert_eq!(value("LONGARM_NO_SUCH_VARIABLE"), None);
    }
}
