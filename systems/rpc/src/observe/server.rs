//! Calls at the server.

use std::net::SocketAddr;

use crate::metadata::Metadata;
use crate::observe::call::ObservedCall;
use crate::service::{Answer, BoxFuture, Method};

/// A function that gets the span of a call and the metadata of its request, before the handler runs.
#[cfg(feature = "tracing")]
pub(crate) type OnSpan = std::sync::Arc<dyn Fn(&tracing::Span, &Metadata) + Send + Sync>;

/// Observes the calls of one polling thread.
pub(crate) struct ServerObserver {
    #[cfg(feature = "metrics")]
    figures: crate::observe::figures::CallDurations,
    #[cfg(feature = "tracing")]
    local: SocketAddr,
    #[cfg(feature = "tracing")]
    on_span: Option<OnSpan>,
}

impl ServerObserver {
    /// For a server that listens at `local`.
    pub(crate) fn new(local: SocketAddr) -> ServerObserver {
        let _ = local;
        ServerObserver {
            #[cfg(feature = "metrics")]
            figures: crate::observe::figures::CallDurations::new(crate::observe::figures::Side::Server),
            #[cfg(feature = "tracing")]
            local,
            #[cfg(feature = "tracing")]
            on_span: None,
        }
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn on_span(mut self, on_span: Option<OnSpan>) -> ServerObserver {
        self.on_span = on_span;
        self
    }

    /// A handler is about to run.
    #[inline]
    pub(crate) fn begin(&mut self, method: Method, metadata: &Metadata) -> ObservedCall {
        let _ = (method, metadata);
        let call = ObservedCall {
            #[cfg(feature = "metrics")]
            timing: self.figures.begin(method),
            #[cfg(feature = "tracing")]
            span: crate::observe::spans::CallSpan::server(method, self.local, metadata),
        };
        #[cfg(feature = "tracing")]
        if let Some(on_span) = &self.on_span {
            on_span(call.span.span(), metadata);
        }
        call
    }
}

/// A handler's future that ends its call.
pub(crate) struct ObservedAnswer;

impl ObservedAnswer {
    /// The same future, observed: each poll is inside the span. Dropping it is a cancellation.
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    pub(crate) fn of(mut future: BoxFuture<Answer>, call: ObservedCall) -> BoxFuture<Answer> {
        use crate::code::Code;
        let mut call = Some(call);
        Box::pin(std::future::poll_fn(move |task| {
            let polled = match &call {
                Some(call) => call.within(|| future.as_mut().poll(task)),
                None => future.as_mut().poll(task),
            };
            if let (std::task::Poll::Ready(answer), Some(call)) = (&polled, call.take_if(|_| polled.is_ready())) {
                call.end(answer.as_ref().map_or_else(|status| status.code(), |_| Code::Ok));
            }
            polled
        }))
    }

    /// The same future: nobody observes.
    #[cfg(not(any(feature = "tracing", feature = "metrics")))]
    #[inline]
    pub(crate) fn of(future: BoxFuture<Answer>, call: ObservedCall) -> BoxFuture<Answer> {
        let _ = call;
        future
    }
}
