//! The threads that drive the engine.

/// The caller of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepCaller {
    Application,
    /// The background thread, while the application is away.
    Background,
    /// The background thread for once, for an application that will be back. ACKs wait for the application, so that
    /// they leave with its response. The peer's program, which waits for both, then polls until both are there.
    StandIn,
}
