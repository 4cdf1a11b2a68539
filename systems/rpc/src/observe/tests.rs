//! Figures and spans of calls, as a recorder and a subscriber get them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use metrics_exporter_prometheus::PrometheusBuilder;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};

use crate::code::Code;
use crate::message::Response;
use crate::metadata::Metadata;
use crate::observe::names::names;
use crate::observe::{ClientObserver, ObservedAnswer, ServerObserver};
use crate::service::{Answer, BoxFuture, Method};
use crate::session::CallId;
use crate::status::Status;

const SAY: Method = Method::new("/echo.Echo/Say");

type Fields = BTreeMap<String, String>;

/// Keeps the fields of all spans.
#[derive(Clone, Default)]
struct SpanKeeper(Arc<Mutex<BTreeMap<u64, Fields>>>);

struct FieldReader<'a>(&'a mut Fields);

impl Visit for FieldReader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").trim_matches('"').into());
    }
}

impl<S: tracing::Subscriber> Layer<S> for SpanKeeper {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: LayerContext<'_, S>) {
        attributes.record(&mut FieldReader(self.0.lock().unwrap().entry(id.into_u64()).or_default()));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: LayerContext<'_, S>) {
        values.record(&mut FieldReader(self.0.lock().unwrap().entry(id.into_u64()).or_default()));
    }
}

fn address() -> SocketAddr {
    "192.0.2.1:7471".parse().unwrap()
}

/// Runs `calls` and returns the fields of the spans, and the figures in Prometheus's format.
fn observed(calls: impl FnOnce()) -> (Vec<Fields>, String) {
    let (recorder, keeper) = (PrometheusBuilder::new().build_recorder(), SpanKeeper::default());
    let subscriber = tracing_subscriber::registry().with(keeper.clone());
    metrics::with_local_recorder(&recorder, || tracing::subscriber::with_default(subscriber, calls));
    let spans = keeper.0.lock().unwrap().values().cloned().collect();
    (spans, recorder.handle().render())
}

#[test]
fn a_span_has_the_names_of_the_conventions_and_the_callers_trace() {
    let mut metadata = Metadata::default();
    metadata.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let (spans, figures) = observed(|| {
        let mut server = ServerObserver::new(address());
        server.begin(SAY, &metadata).end(Code::NotFound);
    });
    let [span] = &spans[..] else { panic!("{spans:?}") };
    for (name, value) in [
        ("otel.name", "echo.Echo/Say"),
        ("otel.kind", "server"),
        ("otel.status_code", "ERROR"),
        ("rpc.system", "longarm"),
        ("rpc.service", "echo.Echo"),
        ("rpc.method", "Say"),
        ("rpc.response.status_code", "NOT_FOUND"),
        ("server.address", "192.0.2.1"),
        ("server.port", "7471"),
        ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("parent_span_id", "00f067aa0ba902b7"),
    ] {
        assert_eq!(span.get(name).map(String::as_str), Some(value), "{name}");
    }
    let labels =
        r#"rpc_system="longarm",rpc_service="echo.Echo",rpc_method="Say",rpc_response_status_code="NOT_FOUND""#;
    assert!(figures.contains(&format!("rpc_server_duration_count{{{labels}}} 1")), "{figures}");
}

#[test]
fn calls_of_a_client_are_active_until_they_end() {
    let id = |slot| CallId { slot, number: 1 };
    let active = |count| {
        format!(
            r#"rpc_client_active_requests{{rpc_system="longarm",rpc_service="echo.Echo",rpc_method="Say"}} {count}"#
        )
    };
    let (spans, figures) = observed(|| {
        let mut client = ClientObserver::new(address());
        (0..3).for_each(|slot| client.begin(id(slot), SAY));
        client.end(id(1), Code::Ok);
        client.end(id(1), Code::Ok);
        client.end(id(7), Code::Ok);
        std::mem::forget(client);
    });
    assert!(figures.contains(&active(2)), "{figures}");
    assert!(figures.contains(r#"rpc_response_status_code="OK"} 1"#), "{figures}");
    assert_eq!(spans.len(), 3);
    assert!(spans.iter().all(|span| span["otel.kind"] == "client" && !span.contains_key("otel.status_code")));

    let (_, figures) = observed(|| {
        let mut client = ClientObserver::new(address());
        client.begin(id(0), SAY);
    });
    assert!(figures.contains(&active(0)), "a client that goes ends its calls: {figures}");
    assert!(figures.contains("CANCELLED"));
}

#[test]
fn a_future_ends_its_call_once_or_is_cancelled() {
    let poll = |future: &mut BoxFuture<Answer>| future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let (_, figures) = observed(|| {
        let mut server = ServerObserver::new(address());
        let mut begin = || server.begin(SAY, &Metadata::default());
        let mut good = ObservedAnswer::of(Box::pin(async { Ok(Response::new(Bytes::new())) }), begin());
        assert!(matches!(poll(&mut good), Poll::Ready(Ok(_))));
        let mut bad = ObservedAnswer::of(Box::pin(async { Err(Status::aborted("no")) }), begin());
        assert!(matches!(poll(&mut bad), Poll::Ready(Err(_))));
        let mut endless = ObservedAnswer::of(Box::pin(std::future::pending()), begin());
        assert!(poll(&mut endless).is_pending());
    });
    for code in ["OK", "ABORTED", "CANCELLED"] {
        assert!(figures.contains(&format!(r#"rpc_response_status_code="{code}"}} 1"#)), "{code}: {figures}");
    }
    assert!(figures.contains(r#"rpc_method="Say"} 0"#), "none is active: {figures}");
}

#[test]
fn a_path_has_a_service_and_a_method() {
    assert_eq!(names("/a.b.Service/Method"), ("a.b.Service", "Method"));
    assert_eq!(names("Method"), ("", "Method"));
}
