//! One call, observed.

use crate::code::Code;
#[cfg(feature = "metrics")]
use crate::observe::figures;
#[cfg(feature = "tracing")]
use crate::observe::spans;

/// A call that has begun at this end. Dropping it before its end is a cancellation.
pub(crate) struct ObservedCall {
    #[cfg(feature = "metrics")]
    pub(super) timing: figures::CallTiming,
    #[cfg(feature = "tracing")]
    pub(super) span: spans::CallSpan,
}

impl ObservedCall {
    /// The call has this outcome.
    #[inline]
    pub(crate) fn end(self, code: Code) {
        #[cfg(feature = "metrics")]
        self.timing.end(code);
        #[cfg(feature = "tracing")]
        self.span.end(code);
        let _ = code;
    }

    /// Runs a part of the call inside its span.
    #[inline]
    pub(crate) fn within<R>(&self, part: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _inside = self.span.enter();
        part()
    }
}
