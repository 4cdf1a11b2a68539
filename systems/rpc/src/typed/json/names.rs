//! Names that a user gives.

use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The name of a symbol: `package.Service`, `package.Service/Method`, `package.Service.Method`, with or without a slash in
/// front.
pub(super) struct SymbolName {
    dotted: String,
}

impl SymbolName {
    pub(super) fn new(given: &str) -> SymbolName {
        SymbolName { dotted: given.strip_prefix('/').unwrap_or(given).replace('/', ".") }
    }

    /// As descriptors have it: with dots only.
    pub(super) fn dotted(&self) -> &str {
        &self.dotted
    }
}

impl fmt::Display for SymbolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dotted)
    }
}

/// The same path for as long as the program runs, since a method's path is static. Each path is kept once.
pub(super) fn kept(path: &str) -> &'static str {
    static PATHS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = paths.get(path) {
        return kept;
    }
    let kept: &'static str = String::from(path).leak();
    paths.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_name_one_method() {
        for given in ["a.b.Service/Call", "/a.b.Service/Call", "a.b.Service.Call"] {
            assert_eq!(SymbolName::new(given).dotted(), "a.b.Service.Call");
        }
    }

    #[test]
    fn a_path_is_kept_once() {
        assert!(std::ptr::eq(kept("/a.B/C"), kept(&String::from("/a.B/C"))));
    }
}
