//! The macro that all handles are made with.

/// Calls the same method on the handle of either provider.
macro_rules! either {
    ($this:expr, $handle:ident => $call:expr) => {
        match $this {
            Self::Longarm($handle) => $call,
            Self::Verbs($handle) => $call,
        }
    };
}
