//! The clocks of the simulated processes: no two show the same.

use std::time::{Duration, Instant};

use crate::sim::world::{SimTask, SimWorld};

impl SimWorld {
    /// The clock of a client, which is not that of any other process.
    pub(crate) fn client_clock(&self, client: usize) -> Instant {
        self.client_instant(client, self.now_ns())
    }

    pub(crate) fn client_instant(&self, client: usize, at_ns: u64) -> Instant {
        self.base + Duration::from_secs(1_000 * client as u64) + Duration::from_nanos(at_ns)
    }

    pub(crate) fn server_clock(&self, server: usize) -> Instant {
        self.server_instant(server, self.now_ns())
    }

    pub(crate) fn server_instant(&self, server: usize, at_ns: u64) -> Instant {
        self.base + Duration::from_secs(77 + 5_000 * server as u64) + Duration::from_nanos(at_ns)
    }

    /// Plans a look at the moment at which a clock, which shows `now`, will show `timer`. `planned` is the last such plan.
    pub(crate) fn plan_timer(&mut self, timer: Option<Instant>, now: Instant, planned: &mut u64, task: SimTask) {
        if let Some(timer) = timer {
            let now_ns = self.now_ns();
            let at_ns = now_ns + (timer.saturating_duration_since(now).as_nanos() as u64).max(1);
            if *planned <= now_ns || at_ns < *planned {
                *planned = at_ns;
                self.agenda.plan(at_ns, task);
            }
        }
    }
}
