//! The server's process: sessions, requests, connections for READs, housekeeping; and its deaths.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use longarm_rpc::{Executed, Method, Status};
use remote::sim::Unchecked;
use remote::{AllocatorOptions, Cluster, OwnerOptions, TableOwner};

use crate::server::{
    AdmittedWriter, DataEnd, Grants, KvLayout, KvService, OwnedTable, ServedTable, TableOptions, Uploads, create_owner,
    parse_private_data,
};
use crate::sim::actor::{self, Died};
use crate::sim::link::ServerLink;
use crate::sim::memory::SimMemory;
use crate::sim::plant::Plant;
use crate::sim::world::{Arrival, Letter, LetterBody, SessionId, SimWorld};

/// The table's name.
pub(crate) const TABLE: &str = "t";
/// Time between two looks at what has to be done from time to time.
const HOUSEKEEPING_NS: u64 = 1_000_000;

type CallReply = Result<Arc<[u8]>, Status>;

/// A life of the server.
struct SimServer {
    world: Arc<SimWorld>,
    service: KvService,
    table: Arc<ServedTable>,
    /// Answers by session and call.
    answers: BTreeMap<(SessionId, u32), CallReply>,
}

/// Runs the server until all clients have ended.
pub(crate) fn run(world: &Arc<SimWorld>) {
    let Some(me) = actor::current() else { return };
    for life in 0.. {
        let dies = life + 1 < world.plan.lives && world.plan.server_pauses > 0;
        me.live(None);
        let mut server = SimServer::start(world, life);
        me.live(dies.then(|| me.draw(|rng| rng.u32(..world.plan.server_pauses))));
        let ended = catch_unwind(AssertUnwindSafe(|| server.serve()));
        // The process is gone: nobody reads its memory any more, and its objects end without a word.
        me.bury();
        world.state.lock().life = None;
        drop(server);
        match ended {
            Ok(()) => return,
            Err(payload) if !payload.is::<Died>() => resume_unwind(payload),
            Err(_) if world.stage.stopped().is_some() => return,
            Err(_) => {}
        }
        me.live(None);
        world.trace(|| format!("the server of life {life} dies"));
        let died_ns = world.stage.now_ns();
        let away_ns = me.draw(|rng| rng.u64(..30_000_000));
        me.pause(away_ns);
        // Its memory was all that it had.
        world.ledger.lock().wipe(died_ns, world.stage.now_ns());
    }
}

impl SimServer {
    fn start(world: &Arc<SimWorld>, life: u32) -> SimServer {
        let (plan, memory) = (&world.plan, Arc::new(SimMemory::new(world.plan.memory_bytes)));
        let random = actor::current().map_or(0, |actor| actor.draw(|rng| rng.u64(..)));
        let options = OwnerOptions {
            keys: plan.index_keys,
            may_grow: true,
            in_place_bytes: plan.in_place_bytes,
            allocator: AllocatorOptions { slab_bytes: 4096, reuse_after_ns: plan.reuse_after_ns },
            salt: random,
        };
        let owner = match plan.layout {
            KvLayout::Cluster if world.has(Plant::UncheckedReads) => {
                TableOwner::<_, Cluster, Unchecked>::create(Arc::clone(&memory), options)
                    .map(|owner| Box::new(owner) as Box<dyn OwnedTable>)
            }
            layout => create_owner(layout, Arc::clone(&memory), options),
        };
        let owner = owner.unwrap_or_else(|error| panic!("the table cannot be made: {error}"));
        let options = TableOptions {
            layout: plan.layout,
            // The index of an empty table needs some, too.
            max_bytes: owner.used_bytes() + plan.max_bytes,
            when_full: plan.when_full,
            writable: plan.writable && !world.has(Plant::UncheckedReads),
            lease: Duration::from_nanos(plan.lease_ns),
            ..TableOptions::default()
        };
        let table = ServedTable::over(TABLE.into(), options, owner, None, random ^ 1);
        let table = Arc::new(table.unwrap_or_else(|error| panic!("{error}")));
        let service = KvService {
            tables: vec![Arc::clone(&table)],
            grants: Arc::new(Grants::new(None)),
            uploads: Uploads::new(1 << 20),
            data_port: 1,
            durable: None,
            placement: crate::server::Placement::Alone,
        };
        world.state.lock().life = Some((life, memory));
        SimServer { world: Arc::clone(world), service, table, answers: BTreeMap::new() }
    }

    fn serve(&mut self) {
        let Some(me) = actor::current() else { return };
        let mut tended_ns = self.world.stage.now_ns();
        loop {
            let (letter, arrival) = self.world.take_for_server();
            let is_idle = letter.is_none() && arrival.is_none();
            if let Some(letter) = letter {
                self.handle(&letter);
            }
            if let Some(arrival) = arrival {
                self.admit(arrival);
            }
            let now_ns = self.world.stage.now_ns();
            if now_ns >= tended_ns + HOUSEKEEPING_NS {
                tended_ns = now_ns;
                self.service.grants.keep_house();
                self.service.grants.tend(&self.table);
            }
            if self.world.state.lock().clients_left == 0 {
                self.table.counts.fill(&mut self.world.ledger.lock().figures);
                return;
            }
            if is_idle {
                me.wait(self.world.next_for_server_ns().min(tended_ns + HOUSEKEEPING_NS), true);
            }
        }
    }

    fn handle(&mut self, letter: &Letter) {
        let Letter { session, number, body: LetterBody::Request { method, body, deadline_ns } } = letter else {
            return;
        };
        let known = self.answers.get(&(*session, *number)).cloned().filter(|_| !self.world.has(Plant::RunTwice));
        let reply = known.unwrap_or_else(|| {
            let is_late = deadline_ns.is_some_and(|deadline_ns| self.world.stage.now_ns() > deadline_ns);
            let late = || Status::deadline_exceeded("the request is late").with_executed(Executed::No);
            let reply = if is_late { Err(late()) } else { self.execute(*method, body) };
            self.answers.insert((*session, *number), reply.clone());
            reply
        });
        let letter = Letter { session: *session, number: *number, body: LetterBody::Reply(reply) };
        self.world.send(session.client, &letter);
    }

    fn execute(&self, method: Method, request: &[u8]) -> CallReply {
        let mut reply = Vec::new();
        self.service.handle(method, request, &mut reply).map(|()| reply.into())
    }

    /// Takes a connection, as the server's thread for them does.
    fn admit(&self, Arrival { private_data, link }: Arrival) {
        let Some((key, attempt, writes)) = parse_private_data(&private_data) else { return };
        let Ok(grant) = self.service.grants.find(&key) else { return };
        // The connection before goes first, and with it the client's lock.
        grant.data.lock().take();
        let writes = writes && self.table.options.writable;
        let writer = if writes { AdmittedWriter::admit(&grant.table) } else { None };
        let link = Box::new(ServerLink { world: Arc::clone(&self.world), end: link });
        *grant.data.lock() = Some(DataEnd::new(link, writer, attempt));
    }
}
