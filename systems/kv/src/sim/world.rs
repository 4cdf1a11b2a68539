//! The world of a run: messages on their way, connections for READs, and the server's lives.

use std::sync::Arc;

use fastrand::Rng;
use longarm_rpc::{Method, Status};
use parking_lot::Mutex;

use crate::sim::link::LinkEnd;
use crate::sim::memory::SimMemory;
use crate::sim::plan::SimPlan;
use crate::sim::plant::Plant;
use crate::sim::record::Ledger;
use crate::sim::stage::Stage;

/// The server's number among the actors. Clients come behind it.
pub(crate) const SERVER: usize = 0;

/// The session of a client with a life of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SessionId {
    pub(crate) life: u32,
    pub(crate) client: usize,
    pub(crate) number: u32,
}

#[derive(Clone)]
pub(crate) enum LetterBody {
    Request { method: Method, body: Arc<[u8]>, deadline_ns: Option<u64> },
    Reply(Result<Arc<[u8]>, Status>),
}

/// A message on its way.
#[derive(Clone)]
pub(crate) struct Letter {
    pub(crate) session: SessionId,
    /// The call.
    pub(crate) number: u32,
    pub(crate) body: LetterBody,
}

/// A client that connects for READs.
pub(crate) struct Arrival {
    pub(crate) private_data: Vec<u8>,
    pub(crate) link: Arc<LinkEnd>,
}

/// Things that come at a time.
pub(crate) struct Mailbox<T>(Vec<(u64, T)>);

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox(Vec::new())
    }
}

impl<T> Mailbox<T> {
    /// The earliest thing, if it has come.
    fn take(&mut self, now_ns: u64) -> Option<T> {
        let first = (0..self.0.len()).min_by_key(|at| (self.0[*at].0, *at))?;
        (self.0[first].0 <= now_ns).then(|| self.0.remove(first).1)
    }

    fn next_ns(&self) -> u64 {
        self.0.iter().map(|(at_ns, _)| *at_ns).min().unwrap_or(u64::MAX)
    }
}

pub(crate) struct WorldState {
    rng: Rng,
    /// The server's life, and its memory; `None` while there is no server.
    pub(crate) life: Option<(u32, Arc<SimMemory>)>,
    pub(crate) sessions: u32,
    to_server: Mailbox<Letter>,
    to_clients: Vec<Mailbox<Letter>>,
    arrivals: Mailbox<Arrival>,
    /// Connections of clients that live.
    pub(crate) links: Vec<Vec<Arc<LinkEnd>>>,
    /// Clients that have not ended.
    pub(crate) clients_left: usize,
    /// No more faults.
    pub(crate) is_calm: bool,
    lines: Vec<String>,
}

/// Everything of a run that its actors share.
pub(crate) struct SimWorld {
    pub(crate) stage: Stage,
    pub(crate) plan: SimPlan,
    pub(crate) plant: Option<Plant>,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) state: Mutex<WorldState>,
    is_traced: bool,
}

impl SimWorld {
    pub(crate) fn new(plan: SimPlan, plant: Option<Plant>, rng: Rng, is_traced: bool) -> SimWorld {
        let actors = plan.clients + 1;
        let state = WorldState {
            rng,
            life: None,
            sessions: 0,
            to_server: Mailbox::default(),
            to_clients: (0..actors).map(|_| Mailbox::default()).collect(),
            arrivals: Mailbox::default(),
            links: (0..actors).map(|_| Vec::new()).collect(),
            clients_left: plan.clients,
            is_calm: false,
            lines: Vec::new(),
        };
        let ledger = Mutex::new(Ledger::new(plan.keys));
        SimWorld { stage: Stage::new(actors), plan, plant, ledger, state: Mutex::new(state), is_traced }
    }

    pub(crate) fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if self.is_traced {
            let line = format!("{:>12} {}", self.stage.now_ns(), line());
            self.state.lock().lines.push(line);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().lines)
    }

    /// Sends a message: to the server, or to a client. It may be lost, come twice, or come late.
    pub(crate) fn send(&self, to: usize, letter: &Letter) {
        let (now_ns, mut state, plan) = (self.stage.now_ns(), self.state.lock(), &self.plan);
        let has_faults = !state.is_calm;
        let is_hit = |rng: &mut Rng, part: u32| has_faults && rng.u32(..1000) < part;
        let copies = 1 + u32::from(is_hit(&mut state.rng, plan.doubles));
        let mut earliest_ns = u64::MAX;
        for _ in 0..copies {
            if is_hit(&mut state.rng, plan.loss) {
                continue;
            }
            let is_late = is_hit(&mut state.rng, plan.late);
            let delay_ns = state.rng.u64(if is_late { 10_000..20_000_000 } else { 1_000..10_000 });
            earliest_ns = earliest_ns.min(now_ns + delay_ns);
            let mailbox = if to == SERVER { &mut state.to_server } else { &mut state.to_clients[to] };
            mailbox.0.push((now_ns + delay_ns, letter.clone()));
        }
        drop(state);
        if earliest_ns != u64::MAX {
            self.stage.wake(to, earliest_ns);
        }
    }

    /// A message that has come to a client.
    pub(crate) fn take_letter(&self, client: usize) -> Option<Letter> {
        let now_ns = self.stage.now_ns();
        self.state.lock().to_clients[client].take(now_ns)
    }

    pub(crate) fn next_letter_ns(&self, client: usize) -> u64 {
        self.state.lock().to_clients[client].next_ns()
    }

    /// A client begins to connect for READs.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        let at_ns = self.stage.now_ns() + 5_000;
        self.state.lock().arrivals.0.push((at_ns, arrival));
        self.stage.wake(SERVER, at_ns);
    }

    pub(crate) fn take_for_server(&self) -> (Option<Letter>, Option<Arrival>) {
        let (now_ns, mut state) = (self.stage.now_ns(), self.state.lock());
        (state.to_server.take(now_ns), state.arrivals.take(now_ns))
    }

    /// The time at which something comes to the server.
    pub(crate) fn next_for_server_ns(&self) -> u64 {
        let state = self.state.lock();
        state.to_server.next_ns().min(state.arrivals.next_ns())
    }

    /// The life of the server, if there is one.
    pub(crate) fn life(&self) -> Option<u32> {
        self.state.lock().life.as_ref().map(|(life, _)| *life)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.state.lock().is_calm
    }

    /// A client's process has died or ended: its connections end, whatever it was doing.
    pub(crate) fn client_gone(&self, client: usize) {
        let links = std::mem::take(&mut self.state.lock().links[client]);
        links.iter().for_each(|link| link.die(self.stage.now_ns()));
    }

    /// A client has done all its operations.
    pub(crate) fn client_done(&self) {
        let mut state = self.state.lock();
        state.clients_left -= 1;
        state.is_calm = state.is_calm || state.clients_left == 1;
        drop(state);
        self.stage.wake(SERVER, self.stage.now_ns());
    }
}
