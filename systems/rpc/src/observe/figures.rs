//! Durations of calls, and how many are under way, by the facade `metrics`.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use metrics::{Gauge, Histogram};
use rustc_hash::FxHashMap;

use crate::code::Code;
use crate::observe::names::names;
use crate::service::Method;

/// The end of a connection at which a call is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// The figures of all methods that one thread has seen. The first call of a method asks the recorder for them; later
/// calls allocate nothing.
pub(super) struct CallDurations {
    side: Side,
    by_method: FxHashMap<u64, Arc<MethodFigures>>,
}

struct MethodFigures {
    side: Side,
    service: &'static str,
    method: &'static str,
    active: Gauge,
    durations: [OnceLock<Histogram>; Code::ALL.len()],
}

/// The time of one call.
pub(super) struct CallTiming {
    figures: Arc<MethodFigures>,
    begun: Instant,
    outcome: Code,
}

impl CallDurations {
    pub(super) fn new(side: Side) -> CallDurations {
        CallDurations { side, by_method: FxHashMap::default() }
    }

    pub(super) fn begin(&mut self, method: Method) -> CallTiming {
        let figures = self.by_method.entry(method.number()).or_insert_with(|| MethodFigures::new(self.side, method));
        figures.active.increment(1.0);
        CallTiming { figures: Arc::clone(figures), begun: Instant::now(), outcome: Code::Cancelled }
    }
}

impl MethodFigures {
    fn new(side: Side, method: Method) -> Arc<MethodFigures> {
        let name = match side {
            Side::Client => "rpc.client.active_requests",
            Side::Server => "rpc.server.active_requests",
        };
        let (service, method) = names(method.path());
        let active = metrics::gauge!(name, "rpc.system" => "longarm", "rpc.service" => service, "rpc.method" => method);
        Arc::new(MethodFigures { side, service, method, active, durations: Default::default() })
    }

    fn duration(&self, code: Code) -> &Histogram {
        self.durations[usize::from(code.number())].get_or_init(|| {
            let name = match self.side {
                Side::Client => "rpc.client.duration",
                Side::Server => "rpc.server.duration",
            };
            metrics::histogram!(
                name,
                "rpc.system" => "longarm",
                "rpc.service" => self.service,
                "rpc.method" => self.method,
                "rpc.response.status_code" => code.name(),
            )
        })
    }
}

impl CallTiming {
    pub(super) fn end(mut self, code: Code) {
        self.outcome = code;
    }
}

impl Drop for CallTiming {
    fn drop(&mut self) {
        self.figures.duration(self.outcome).record(self.begun.elapsed().as_secs_f64() * 1e3);
        self.figures.active.decrement(1.0);
    }
}
