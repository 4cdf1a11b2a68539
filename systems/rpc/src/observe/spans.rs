//! Spans of calls, by the facade `tracing`.

use std::net::SocketAddr;

use tracing::Span;
use tracing::field::Empty;
use tracing::span::Entered;

use crate::code::Code;
use crate::metadata::Metadata;
use crate::observe::names::names;
use crate::observe::trace_parent::TraceParent;
use crate::service::Method;

/// The span of one call.
pub(super) struct CallSpan(Span);

impl CallSpan {
    /// A call that starts here, inside the caller's span.
    pub(super) fn client(method: Method, server: SocketAddr) -> CallSpan {
        let (service, name) = names(method.path());
        CallSpan(tracing::info_span!(
            "rpc.client",
            otel.name = &method.path()[usize::from(method.path().starts_with('/'))..],
            otel.kind = "client",
            otel.status_code = Empty,
            rpc.system = "longarm",
            rpc.service = service,
            rpc.method = name,
            rpc.response.status_code = Empty,
            server.address = %server.ip(),
            server.port = server.port(),
        ))
    }

    /// A request that has arrived.
    pub(super) fn server(method: Method, server: SocketAddr, metadata: &Metadata) -> CallSpan {
        let (service, name) = names(method.path());
        let span = tracing::info_span!(
            parent: None,
            "rpc.server",
            otel.name = &method.path()[usize::from(method.path().starts_with('/'))..],
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system = "longarm",
            rpc.service = service,
            rpc.method = name,
            rpc.response.status_code = Empty,
            server.address = %server.ip(),
            server.port = server.port(),
            trace_id = Empty,
            parent_span_id = Empty,
        );
        if !span.is_disabled()
            && let Some(parent) = metadata.get("traceparent").and_then(TraceParent::parse)
        {
            span.record("trace_id", parent.trace_id);
            span.record("parent_span_id", parent.span_id);
        }
        CallSpan(span)
    }

    pub(super) fn span(&self) -> &Span {
        &self.0
    }

    pub(super) fn enter(&self) -> Entered<'_> {
        self.0.enter()
    }

    pub(super) fn end(self, code: Code) {
        self.0.record("rpc.response.status_code", code.name());
        if code != Code::Ok {
            self.0.record("otel.status_code", "ERROR");
        }
    }
}
