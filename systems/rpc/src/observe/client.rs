//! Calls at the client.

use std::net::SocketAddr;

use crate::code::Code;
#[cfg(any(feature = "tracing", feature = "metrics"))]
use crate::observe::call::ObservedCall;
use crate::service::Method;
use crate::session::CallId;

/// Observes the calls of one session.
pub(crate) struct ClientObserver {
    #[cfg(feature = "metrics")]
    figures: crate::observe::figures::CallDurations,
    #[cfg(feature = "tracing")]
    server: SocketAddr,
    /// Calls that have not ended.
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    calls: Vec<(CallId, ObservedCall)>,
}

impl ClientObserver {
    /// For a session with the server at that address.
    pub(crate) fn new(server: SocketAddr) -> ClientObserver {
        let _ = server;
        ClientObserver {
            #[cfg(feature = "metrics")]
            figures: crate::observe::figures::CallDurations::new(crate::observe::figures::Side::Client),
            #[cfg(feature = "tracing")]
            server,
            #[cfg(any(feature = "tracing", feature = "metrics"))]
            calls: Vec::with_capacity(64),
        }
    }

    /// A call was sent.
    #[inline]
    pub(crate) fn begin(&mut self, id: CallId, method: Method) {
        let _ = (id, method);
        #[cfg(any(feature = "tracing", feature = "metrics"))]
        {
            let call = ObservedCall {
                #[cfg(feature = "metrics")]
                timing: self.figures.begin(method),
                #[cfg(feature = "tracing")]
                span: crate::observe::spans::CallSpan::client(method, self.server),
            };
            self.calls.push((id, call));
        }
    }

    /// A call has this outcome, or was withdrawn.
    #[inline]
    pub(crate) fn end(&mut self, id: CallId, code: Code) {
        let _ = (id, code);
        #[cfg(any(feature = "tracing", feature = "metrics"))]
        if let Some(at) = self.calls.iter().position(|(other, _)| *other == id) {
            self.calls.swap_remove(at).1.end(code);
        }
    }
}
