//! Figures of a server that are not of one call.

/// An event that a server counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerEvent {
    Accepted,
    Repeated,
    Malformed,
    Unauthenticated,
    Late,
    Cancelled,
    Dropped,
}

/// Adds to a counter of the server.
#[inline]
pub(crate) fn count(event: ServerEvent, by: u64) {
    #[cfg(feature = "metrics")]
    if by > 0 {
        metrics::counter!(event.name()).increment(by);
    }
    let _ = (event, by);
}

/// A session begins.
#[inline]
pub(crate) fn session_begins() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("longarm.rpc.server.sessions").increment(1.0);
}

/// A session ends.
#[inline]
pub(crate) fn session_ends() {
    #[cfg(feature = "metrics")]
    metrics::gauge!("longarm.rpc.server.sessions").decrement(1.0);
}

#[cfg(feature = "metrics")]
impl ServerEvent {
    fn name(self) -> &'static str {
        match self {
            ServerEvent::Accepted => "longarm.rpc.server.accepted",
            ServerEvent::Repeated => "longarm.rpc.server.repeated",
            ServerEvent::Malformed => "longarm.rpc.server.malformed",
            ServerEvent::Unauthenticated => "longarm.rpc.server.unauthenticated",
            ServerEvent::Late => "longarm.rpc.server.late",
            ServerEvent::Cancelled => "longarm.rpc.server.cancelled",
            ServerEvent::Dropped => "longarm.rpc.server.dropped",
        }
    }
}
