//! Spans and figures of calls, with OpenTelemetry's names. Without the features `tracing` and `metrics` all of this is
//! empty: values without size, functions without instructions.
//!
//! Source of the names: OpenTelemetry, "Semantic conventions for RPC".

mod client;
mod counts;
#[cfg(feature = "metrics")]
mod figures;
mod server;
#[cfg(feature = "tracing")]
mod spans;
#[cfg(all(test, feature = "metrics", feature = "tracing"))]
mod tests;
#[cfg(feature = "tracing")]
mod trace_parent;

pub(crate) use client::ClientObserver;
pub(crate) use counts::{ServerEvent, count, session_begins, session_ends};
#[cfg(feature = "tracing")]
pub(crate) use server::OnSpan;
pub(crate) use server::{ObservedAnswer, ServerObserver};

use crate::code::Code;

/// The end of a connection at which a call is observed.
#[cfg(feature = "metrics")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// A call that has begun at this end. Dropping it before its end is a cancellation.
pub(crate) struct ObservedCall {
    #[cfg(feature = "metrics")]
    timing: figures::CallTiming,
    #[cfg(feature = "tracing")]
    span: spans::CallSpan,
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

// Without the features a call costs nothing.
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
const _: () = assert!(size_of::<ObservedCall>() + size_of::<ServerObserver>() + size_of::<ClientObserver>() == 0);

/// The service and the method in a path `/package.Service/Method`.
#[cfg(any(feature = "tracing", feature = "metrics"))]
fn names(path: &'static str) -> (&'static str, &'static str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.rsplit_once('/').unwrap_or(("", path))
}
