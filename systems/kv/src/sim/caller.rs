//! A client's session and connections. The session sends requests again until they are answered, and the server carries each out
//! once: as those of `longarm-rpc` do, which have a simulator of their own.

use std::sync::Arc;
use std::time::Instant;

use longarm_rpc::{CallId, ClientOptions, Executed, Method, NotStarted, Status};

use crate::client::{DataLink, EachEnded, KvNetwork, Requester};
use crate::sim::actor;
use crate::sim::link::LinkEnd;
use crate::sim::plant::Plant;
use crate::sim::reader::SimDataLink;
use crate::sim::world::{Arrival, Letter, LetterBody, SessionId, SimWorld};

/// A request that is not answered is sent again after this time, and then after twice as long.
const AGAIN_NS: u64 = 100_000;
/// Calls of a session at a time.
const SLOTS: usize = 8;
/// The time that connecting takes.
const CONNECT_NS: u64 = 30_000;

/// The network, as a client sees it.
pub(crate) struct SimNetwork {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) client: usize,
}

struct SimCall {
    number: u32,
    letter: Letter,
    deadline_ns: u64,
    again_ns: u64,
    pause_ns: u64,
}

/// A session with one life of the server.
struct SimRequester {
    world: Arc<SimWorld>,
    client: usize,
    session: SessionId,
    calls: Vec<SimCall>,
    last: u32,
}

impl KvNetwork for SimNetwork {
    fn connect(&self, _: &str, _: &ClientOptions) -> Result<Box<dyn Requester>, Status> {
        let gone = || Status::unavailable("nobody answers").with_executed(Executed::No);
        let actor = actor::current().filter(|actor| !actor.is_dead()).ok_or_else(gone)?;
        actor.pause(CONNECT_NS);
        let life = self.world.life().ok_or_else(gone)?;
        let mut state = self.world.state.lock();
        state.sessions += 1;
        let session = SessionId { life, client: self.client, number: state.sessions };
        drop(state);
        let world = Arc::clone(&self.world);
        Ok(Box::new(SimRequester { world, client: self.client, session, calls: Vec::new(), last: 0 }))
    }

    fn attach(&self, _: &str, _: u16, private_data: &[u8], _: Instant) -> Result<Box<dyn DataLink>, String> {
        let world = &self.world;
        let (life, memory) = world.state.lock().life.clone().ok_or("nobody answers")?;
        let link = Arc::new(LinkEnd::new(life, memory));
        world.state.lock().links[self.client].push(Arc::clone(&link));
        world.arrive(Arrival { private_data: private_data.to_vec(), link: Arc::clone(&link) });
        actor::current().ok_or("no actor")?.pause(CONNECT_NS);
        Ok(Box::new(SimDataLink { world: Arc::clone(world), link }))
    }
}

impl SimRequester {
    fn is_lost(&self) -> bool {
        self.world.life() != Some(self.session.life)
    }

    /// Takes what has come, and ends what has taken too long. Returns the number of calls that have ended.
    fn look(&mut self, ended: EachEnded<'_>) -> usize {
        let before = self.calls.len();
        let mut done = |number: u32, result: Result<&[u8], Status>| ended(CallId::simulated(number), result);
        while let Some(Letter { session, number, body: LetterBody::Reply(reply) }) = self.world.take_letter(self.client)
        {
            let call = self.calls.iter().position(|call| call.number == number && session == self.session);
            if let Some(call) = call {
                self.calls.swap_remove(call);
                done(number, reply.as_ref().map(|bytes| &bytes[..]).map_err(Clone::clone));
            }
        }
        let (now_ns, is_lost) = (self.world.stage.now_ns(), self.is_lost());
        let unknown = if self.world.has(Plant::RepeatUnknown) { Executed::No } else { Executed::Unknown };
        self.calls.retain_mut(|call| {
            if is_lost {
                done(call.number, Err(Status::unavailable("the connection is lost").with_executed(unknown)));
                return false;
            }
            if now_ns >= call.deadline_ns {
                done(call.number, Err(Status::deadline_exceeded("no answer in time").with_executed(unknown)));
                return false;
            }
            if now_ns >= call.again_ns {
                call.pause_ns *= 2;
                call.again_ns = now_ns + call.pause_ns;
                self.world.send(crate::sim::world::SERVER, &call.letter);
            }
            true
        });
        before - self.calls.len()
    }
}

impl Requester for SimRequester {
    fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted> {
        let lost = Status::unavailable("the connection is lost").with_executed(Executed::No);
        if self.is_lost() || actor::current().is_none_or(|actor| actor.is_dead()) {
            return Err(NotStarted::Refused(lost));
        }
        if self.calls.len() == SLOTS {
            return Err(NotStarted::Full);
        }
        self.last += 1;
        let now_ns = self.world.stage.now_ns();
        let deadline_ns = deadline.map(|until| now_ns + actor::left_ns(until));
        let body = LetterBody::Request { method, body: body.into(), deadline_ns };
        let letter = Letter { session: self.session, number: self.last, body };
        self.world.send(crate::sim::world::SERVER, &letter);
        let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
        let again_ns = now_ns + AGAIN_NS;
        self.calls.push(SimCall { number: self.last, letter, deadline_ns, again_ns, pause_ns: AGAIN_NS });
        Ok(CallId::simulated(self.last))
    }

    /// Waits until something happens, if nothing has: a program would poll again at once.
    fn poll(&mut self, ended: EachEnded<'_>) {
        let Some(actor) = actor::current().filter(|actor| !actor.is_dead()) else { return };
        actor.step();
        if self.look(ended) > 0 || self.calls.is_empty() {
            return;
        }
        let due = self.calls.iter().map(|call| call.again_ns.min(call.deadline_ns)).min().unwrap_or(u64::MAX);
        // A server that dies tells nobody.
        let look_ns = self.world.stage.now_ns() + 1_000_000;
        actor.wait(due.min(self.world.next_letter_ns(self.client)).min(look_ns), true);
        self.look(ended);
    }
}
