//! The clients of one thread: one, a group that is polled together, or one that other threads have, too.

use std::time::{Duration, Instant};

use longarm_rpc::{CallId, Client, ClientGroup, NotStarted, SessionId, SharedClient, Status};

use super::calls::BenchCall;
use super::case::BenchCase;
use super::local::BenchServer;
use crate::error::Error;
use crate::perf::WaitLimit;

/// The time in which one of the calls that are outstanding at the end must end.
const DRAIN: Duration = Duration::from_secs(10);
/// The longest time for which a thread gives its processor away.
const IDLE: Duration = Duration::from_millis(1);

/// See the module.
pub(super) enum BenchClients {
    One(Box<Client>),
    Group(Box<ClientGroup>, Vec<SessionId>),
    Shared(Box<SharedClient>),
}

impl BenchClients {
    /// Connects all clients of a case, those of each thread together.
    pub(super) fn connect_threads(case: &BenchCase, server: &BenchServer) -> Result<Vec<BenchClients>, Status> {
        if case.share > 1 {
            return BenchClients::connect_shared(case, server);
        }
        let (mut left, threads) = (case.clients as usize, case.threads.max(1) as usize);
        let each = left.div_ceil(threads);
        let mut all = Vec::new();
        while left > 0 {
            let count = each.min(left);
            all.push(BenchClients::connect(case, server, count)?);
            left -= count;
        }
        Ok(all)
    }

    /// Connects all clients of a case; several threads have each of them.
    fn connect_shared(case: &BenchCase, server: &BenchServer) -> Result<Vec<BenchClients>, Status> {
        let mut all = Vec::new();
        for _ in 0..case.clients {
            let client = SharedClient::from(case.connect(server)?);
            all.extend((1..case.share).map(|_| BenchClients::Shared(Box::new(client.clone()))));
            all.push(BenchClients::Shared(Box::new(client)));
        }
        Ok(all)
    }

    /// Connects as many clients as a thread has.
    fn connect(case: &BenchCase, server: &BenchServer, count: usize) -> Result<BenchClients, Status> {
        if count == 1 {
            return Ok(BenchClients::One(Box::new(case.connect(server)?)));
        }
        let mut group = ClientGroup::new(&case.options(server));
        let sessions = (0..count).map(|_| group.connect(server.address())).collect::<Result<_, _>>()?;
        Ok(BenchClients::Group(Box::new(group), sessions))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            BenchClients::One(_) | BenchClients::Shared(_) => 1,
            BenchClients::Group(_, sessions) => sessions.len(),
        }
    }

    /// Calls of a client that have not ended.
    pub(super) fn outstanding(&self, index: usize) -> usize {
        match self {
            BenchClients::One(client) => client.outstanding(),
            BenchClients::Shared(client) => client.outstanding(),
            BenchClients::Group(group, sessions) => group.outstanding(sessions[index]),
        }
    }

    /// Starts a call of a client; `None` if it has no room.
    pub(super) fn start(&mut self, index: usize, call: &BenchCall) -> Result<Option<CallId>, Error> {
        let started = match (self, &call.published) {
            (BenchClients::One(client), Some(body)) => client.start_published(call.method, body, None),
            (BenchClients::One(client), None) => client.start(call.method, &call.body, None),
            (BenchClients::Shared(client), _) => client.start(call.method, &call.body, None),
            (BenchClients::Group(group, sessions), Some(body)) => {
                group.start_published(sessions[index], call.method, body, None)
            }
            (BenchClients::Group(group, sessions), None) => group.start(sessions[index], call.method, &call.body, None),
        };
        match started {
            Ok(id) => Ok(Some(id)),
            Err(NotStarted::Full) => Ok(None),
            Err(NotStarted::Refused(status)) => Err(status.into()),
        }
    }

    /// Takes the calls that have ended, each with its client.
    pub(super) fn poll_for(
        &mut self,
        longest: Duration,
        mut ended: impl FnMut(usize, CallId, Result<&[u8], Status>),
    ) -> usize {
        match self {
            BenchClients::One(client) => client.poll_for(longest, |id, reply| ended(0, id, reply)),
            BenchClients::Shared(client) => client.poll(|id, reply| ended(0, id, reply)),
            // Its sessions are never removed, so their places are their numbers.
            BenchClients::Group(group, _) => {
                group.poll_for(longest, |session, id, reply| ended(session.index(), id, reply))
            }
        }
    }

    /// Makes one call of a client and waits for its end. No other call may be outstanding.
    pub(super) fn finish_one(&mut self, index: usize, call: &BenchCall) -> Result<(), Error> {
        let mut limit = WaitLimit::default();
        while self.start(index, call)?.is_none() {
            self.poll_for(IDLE, |_, _, _| ());
            limit.check()?;
        }
        let mut outcome = None;
        loop {
            self.poll_for(IDLE, |_, _, reply| outcome = Some(call.check(reply)));
            match outcome.take() {
                Some(outcome) => return outcome,
                None => limit.check()?,
            }
        }
    }

    /// Waits until no call is outstanding. Returns the number of calls that do not end.
    pub(super) fn drain(&mut self) -> u64 {
        let mut until = Instant::now() + DRAIN;
        loop {
            let ended = self.poll_for(Duration::ZERO, |_, _, _| ());
            let left: usize = (0..self.len()).map(|index| self.outstanding(index)).sum();
            let now = Instant::now();
            if ended > 0 {
                until = now + DRAIN;
            }
            if left == 0 || now > until {
                return left as u64;
            }
        }
    }
}
