//! The checkers: properties that hold in every run.
//!
//! Each keeps its own account of what the applications asked for, apart from the code
//! under test, and compares it with what came out.

pub(crate) mod apart;
pub(crate) mod recvs;
pub(crate) mod remote;
pub(crate) mod sends;
pub(crate) mod wire;
pub(crate) mod words;
pub(crate) mod writes;

use std::fmt;

/// A rule that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    rule: &'static str,
    what: String,
}

/// The result of a check.
pub(crate) type Outcome<T = ()> = Result<T, Violation>;

impl Violation {
    pub(crate) fn new(rule: &'static str, what: impl Into<String>) -> Violation {
        Violation { rule, what: what.into() }
    }

    /// The rule.
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// Adds where it happened.
    pub(crate) fn at(self, place: impl fmt::Display) -> Violation {
        Violation { what: format!("{place}: {}", self.what), ..self }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken rule: {}\n  {}", self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

/// Fails with `rule` and the formatted text unless the condition holds.
macro_rules! ensure {
    ($rule:expr, $condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::check::Violation::new($rule, format!($($what)+)));
        }
    };
}
pub(crate) use ensure;
