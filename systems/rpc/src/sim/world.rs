//! The world of a run: processes, the network between them, and the clock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;

use crate::session::{ClientSession, ServerSession};
use crate::sim::account::{Account, Broken};
use crate::sim::client::{LiveClient, SimClient};
use crate::sim::link::SimLink;
use crate::sim::network::{EndId, LinkFaults, SimNetwork};
use crate::sim::scenario::{HostileEnd, RpcScenario};
use crate::sim::server::{LiveServer, Running, SimServer};

/// Something must happen to a call within this time, until everything is at rest. Ways that lose messages repeat them with
/// growing pauses, of a second at most.
const REST_NS: u64 = 50_000_000;
const LOSSY_REST_NS: u64 = 120_000_000_000;
/// Ends that poll look so often at least, and less often while nothing happens.
const POLL_NS: u64 = 400_000;
const IDLE_POLL_NS: u64 = 10_000_000;
const IDLE_AFTER_NS: u64 = 5_000_000;
/// Looks of a polling server each time: some ways look at one slot of all.
const LOOKS: u32 = 66;

/// A thing that a process does, or that happens to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimTask {
    Connect(usize),
    Call(usize),
    Cancel(usize),
    StepClient(usize),
    StepServer(usize, usize),
    PollClient(usize, usize),
    PollServer(usize, usize),
    Start(Running),
    Answer(Running),
    Drain(usize),
    Undrain(usize),
    Cut,
    CrashClient(usize),
    CrashServer(usize),
    Hostile(usize, u32),
}

/// Everything of a run.
pub(crate) struct SimWorld {
    pub(crate) scenario: RpcScenario,
    pub(crate) rng: Rng,
    pub(crate) network: Rc<RefCell<SimNetwork>>,
    pub(crate) agenda: crate::sim::agenda::Agenda<SimTask>,
    pub(crate) account: Account,
    pub(crate) clients: Vec<SimClient>,
    pub(crate) servers: Vec<SimServer>,
    /// Connections whose server has drained.
    pub(crate) drained: BTreeSet<usize>,
    hostile: BTreeMap<usize, HostileEnd>,
    /// The client and the server of each connection.
    owners: Vec<(usize, usize)>,
    pub(super) base: Instant,
    /// The time of the last event but looks and packets: calls begin and end, handlers run, connections are lost.
    pub(crate) active_ns: u64,
    /// The time of the last event of the network.
    busy_ns: u64,
}

impl SimWorld {
    pub(crate) fn new(scenario: RpcScenario, is_verbose: bool) -> SimWorld {
        let mut rng = Rng::with_seed(scenario.seed);
        let network = SimNetwork::new(rng.u64(..), is_verbose);
        let mut world = SimWorld {
            rng,
            network: Rc::new(RefCell::new(network)),
            agenda: crate::sim::agenda::Agenda::new(),
            account: Account::default(),
            clients: (0..scenario.clients).map(|_| SimClient::default()).collect(),
            servers: (0..scenario.servers).map(|_| SimServer::default()).collect(),
            drained: BTreeSet::new(),
            hostile: BTreeMap::new(),
            owners: Vec::new(),
            base: Instant::now(),
            active_ns: 0,
            busy_ns: 0,
            scenario,
        };
        world.plan_run();
        world
    }

    fn plan_run(&mut self) {
        for client in 0..self.scenario.clients {
            self.clients[client].to_come = self.scenario.calls;
            self.plan_in(10_000, SimTask::Connect(client));
            self.plan_in(20_000, SimTask::Call(client));
        }
        let span = self.scenario.gap_ns * self.scenario.calls as u64 + 100_000;
        for _ in 0..self.scenario.drains {
            let server = self.rng.usize(..self.scenario.servers);
            self.plan_in(span, SimTask::Drain(server));
        }
        for _ in 0..self.scenario.cuts {
            self.plan_in(span, SimTask::Cut);
        }
        for _ in 0..self.scenario.crashes {
            let task = if self.rng.bool() {
                SimTask::CrashClient(self.rng.usize(..self.scenario.clients))
            } else {
                SimTask::CrashServer(self.rng.usize(..self.scenario.servers))
            };
            self.plan_in(span, task);
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), Broken> {
        let rest_ns = if self.scenario.way.way.is_lossy() { LOSSY_REST_NS } else { REST_NS };
        loop {
            self.step()?;
            let is_over = self.is_all_over();
            if is_over && self.check_rest().is_ok() {
                return Ok(());
            }
            if self.now_ns() > self.active_ns + rest_ns {
                return if is_over { self.check_rest() } else { Err(self.unfinished()) };
            }
        }
    }

    /// The next thing happens.
    fn step(&mut self) -> Result<(), Broken> {
        let (net_ns, task_ns) = (self.network.borrow().next_ns(), self.agenda.next_ns());
        if net_ns.is_some_and(|net| task_ns.is_none_or(|task| net <= task)) {
            self.network.borrow_mut().advance(net_ns.unwrap_or_default());
            self.wake();
        } else if let Some((at_ns, task)) = self.agenda.pop() {
            self.network.borrow_mut().advance(at_ns);
            self.perform(task)?;
        } else {
            let until = self.now_ns() + REST_NS;
            self.network.borrow_mut().advance(until);
        }
        let broken = self.network.borrow_mut().violation.take();
        broken.map_or(Ok(()), Err)
    }

    fn wake(&mut self) {
        let wakes = self.network.borrow_mut().take_wakes();
        self.busy_ns = self.now_ns();
        for EndId { connection, is_server } in wakes {
            let (client, server) = self.owners[connection];
            if is_server {
                self.plan_in(3_000, SimTask::StepServer(server, connection));
            } else if self.clients[client].live.as_ref().is_some_and(|live| live.connection == connection) {
                self.plan_in(3_000, SimTask::StepClient(client));
            }
        }
    }

    /// The pause until the next look of an end that polls.
    fn poll_pause(&self) -> u64 {
        if self.now_ns() < self.busy_ns + IDLE_AFTER_NS { POLL_NS } else { IDLE_POLL_NS }
    }

    fn perform(&mut self, task: SimTask) -> Result<(), Broken> {
        if !matches!(
            task,
            SimTask::StepClient(_) | SimTask::StepServer(..) | SimTask::PollClient(..) | SimTask::PollServer(..)
        ) {
            self.active_ns = self.now_ns();
        }
        match task {
            SimTask::Connect(client) => self.connect(client),
            SimTask::Call(client) => self.make_call(client),
            SimTask::Cancel(uid) => self.cancel(uid),
            SimTask::StepClient(client) => self.step_client(client),
            SimTask::StepServer(server, connection) => self.step_server(server, connection),
            SimTask::PollClient(client, connection) => {
                if self.clients[client].live.as_ref().is_some_and(|live| live.connection == connection) {
                    self.plan_in(self.poll_pause(), task);
                    return self.step_client(client);
                }
                Ok(())
            }
            SimTask::PollServer(server, connection) => {
                if self.servers[server].sessions.contains_key(&connection) {
                    self.plan_in(self.poll_pause(), task);
                }
                for _ in 1..LOOKS {
                    self.look_server(server, connection)?;
                }
                self.step_server(server, connection)
            }
            SimTask::Start(running) => self.start(running),
            SimTask::Answer(running) => self.answer(running),
            SimTask::Drain(server) => {
                self.drain(server);
                Ok(())
            }
            SimTask::Undrain(server) => {
                self.servers[server].is_draining = false;
                Ok(())
            }
            SimTask::Cut => {
                self.cut();
                Ok(())
            }
            SimTask::CrashClient(client) => self.crash_client(client),
            SimTask::CrashServer(server) => {
                self.crash_server(server);
                Ok(())
            }
            SimTask::Hostile(connection, left) => {
                self.be_hostile(connection, left);
                Ok(())
            }
        }
    }

    /// A client makes a session with some server that takes it.
    fn connect(&mut self, client: usize) -> Result<(), Broken> {
        if self.clients[client].live.is_some() || self.is_client_done(client) {
            return Ok(());
        }
        let server = self.rng.usize(..self.scenario.servers);
        if self.servers[server].is_draining {
            self.plan_in(200_000, SimTask::Connect(client));
            return Ok(());
        }
        let connection = self.owners.len();
        let pairing = self.scenario.way.pair(connection as u16);
        let hostile = self.scenario.hostile.filter(|_| client == 0);
        let faults = LinkFaults { unreliable_writes: pairing.unreliable_writes, ..self.scenario.faults };
        self.network.borrow_mut().connect(pairing.sizes, faults, hostile.is_some());
        if let Some(old) = self.owners.iter().rposition(|owners| *owners == (client, server)) {
            self.network.borrow_mut().inherit(old, connection);
        }
        self.owners.push((client, server));
        if let Some(end) = hostile {
            self.hostile.insert(connection, end);
            self.plan_in(10_000, SimTask::Hostile(connection, 100));
        }
        self.note(&[30, connection as u64], || format!("client {client} connects to server {server}: {connection}"));
        let link = |is_server| SimLink::new(&self.network, EndId { connection, is_server });
        let [at_client, at_server] = pairing.carriers;
        let limits = self.scenario.limits;
        let session = ServerSession::new(link(true), at_server, limits);
        let live = LiveServer { session, held: 0, drained: None, timer_ns: 0 };
        let session = ClientSession::new(link(false), at_client, limits);
        self.servers[server].sessions.insert(connection, live);
        self.clients[client].live =
            Some(LiveClient { session, connection, server, calls: BTreeMap::new(), timer_ns: 0 });
        if !self.scenario.way.is_sleepy {
            self.plan_in(POLL_NS, SimTask::PollClient(client, connection));
            self.plan_in(POLL_NS, SimTask::PollServer(server, connection));
        }
        self.plan_in(3_000, SimTask::StepClient(client));
        Ok(())
    }

    /// The application of a client makes its next call.
    fn make_call(&mut self, client: usize) -> Result<(), Broken> {
        if self.clients[client].to_come == 0 {
            return Ok(());
        }
        self.clients[client].to_come -= 1;
        let inline =
            self.clients[client].live.as_ref().map_or(64, |live| live.session.carrier().request_inline_bytes());
        let plan = self.scenario.draw_call(&mut self.rng, inline);
        let uid = self.account.new_call(client, plan, self.now_ns());
        self.clients[client].backlog.push_back(uid);
        if let Some(after) = plan.cancel_after_ns {
            self.plan_after(after, SimTask::Cancel(uid));
        }
        let gap = self.rng.u64(..self.scenario.gap_ns);
        self.plan_after(gap, SimTask::Call(client));
        self.step_client(client)
    }

    fn cut(&mut self) {
        let live: Vec<usize> =
            self.clients.iter().filter_map(|client| Some(client.live.as_ref()?.connection)).collect();
        if !live.is_empty() {
            let connection = live[self.rng.usize(..live.len())];
            let within = [(); 2].map(|()| self.crash_is_heard_within());
            self.account.see("connection cut");
            self.network.borrow_mut().kill(connection, within);
        }
    }

    /// A peer's end is heard of soon, or when something has waited for too long.
    pub(crate) fn crash_is_heard_within(&mut self) -> u64 {
        if self.rng.bool() { 20_000 } else { 5_000_000 }
    }

    /// A session may end: the connection is lost, or a peer is hostile.
    pub(crate) fn may_end(&self, connection: usize) -> bool {
        !self.network.borrow().is_up(connection) || self.is_hostile(connection)
    }

    pub(crate) fn is_hostile(&self, connection: usize) -> bool {
        self.hostile.contains_key(&connection)
    }

    pub(crate) fn hostile_end(&self, connection: usize) -> Option<EndId> {
        self.hostile.get(&connection).map(|end| EndId { connection, is_server: *end == HostileEnd::Server })
    }

    pub(crate) fn has_drained(&self, connection: usize) -> bool {
        self.drained.contains(&connection)
    }

    pub(crate) fn client_of(&self, live: &LiveClient) -> usize {
        self.owners[live.connection].0
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.network.borrow().now_ns()
    }

    /// Plans something within a time.
    pub(crate) fn plan_in(&mut self, within_ns: u64, task: SimTask) {
        let after = self.rng.u64(..=within_ns);
        self.plan_after(after, task);
    }

    pub(crate) fn plan_after(&mut self, after_ns: u64, task: SimTask) {
        self.agenda.plan(self.now_ns() + after_ns, task);
    }

    pub(crate) fn note(&self, facts: &[u64], text: impl FnOnce() -> String) {
        let mut network = self.network.borrow_mut();
        let now = network.now_ns();
        network.trace.note(now, facts, text);
    }
}
