//! Spans and figures of calls, with OpenTelemetry's names. Without the features `tracing` and `metrics` all of this is
//! empty: values without size, functions without instructions.
//!
//! Source of the names: OpenTelemetry, "Semantic conventions for RPC".

mod call;
mod client;
mod counts;
#[cfg(feature = "metrics")]
mod figures;
#[cfg(any(feature = "tracing", feature = "metrics"))]
mod names;
mod server;
#[cfg(feature = "tracing")]
mod spans;
#[cfg(all(test, feature = "metrics", feature = "tracing"))]
mod tests;
#[cfg(feature = "tracing")]
mod trace_parent;

pub(crate) use call::ObservedCall;
pub(crate) use client::ClientObserver;
pub(crate) use counts::{ServerEvent, count, session_begins, session_ends};
#[cfg(feature = "tracing")]
pub(crate) use server::OnSpan;
pub(crate) use server::{ObservedAnswer, ServerObserver};

// Without the features a call costs nothing.
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
const _: () = assert!(size_of::<call::ObservedCall>() + size_of::<ServerObserver>() + size_of::<ClientObserver>() == 0);
