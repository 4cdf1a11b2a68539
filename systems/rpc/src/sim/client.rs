//! A client's process: its session, its calls, and the moments at which it looks.

use std::collections::{BTreeMap, VecDeque};

use crate::code::Code;
use crate::session::{Body, CallId, ClientSession, Finished, NewCall, NotStarted};
use crate::sim::account::{Broken, Circumstances, Told, ensure};
use crate::sim::bytes::body_of;
use crate::sim::link::SimLink;
use crate::sim::network::{EndId, SimNotice};
use crate::sim::world::{SimTask, SimWorld};

/// A client.
#[derive(Default)]
pub(crate) struct SimClient {
    pub(crate) live: Option<LiveClient>,
    /// Calls that have not been sent.
    pub(crate) backlog: VecDeque<usize>,
    /// Calls that the application will still make.
    pub(crate) to_come: usize,
}

/// A client's session.
pub(crate) struct LiveClient {
    pub(crate) session: ClientSession<SimLink>,
    pub(crate) connection: usize,
    pub(crate) server: usize,
    pub(crate) calls: BTreeMap<(u16, u32), usize>,
    /// The next look because of the session's timer.
    pub(crate) timer_ns: u64,
}

impl SimWorld {
    /// A client looks at what has happened, and sends what it can.
    pub(crate) fn step_client(&mut self, at: usize) -> Result<(), Broken> {
        let Some(mut live) = self.clients[at].live.take() else {
            return Ok(());
        };
        let outcome = self.step_live_client(at, &mut live);
        let is_honest = !live.session.is_down() || self.may_end(live.connection);
        let is_over = live.session.closed().is_some() && self.is_client_over(&live);
        if is_over && outcome.is_ok() {
            self.leave(at, live);
        } else {
            self.clients[at].live = Some(live);
        }
        ensure!(is_honest, "a client's session ended by itself");
        outcome
    }

    /// Nothing more comes of a session.
    fn is_client_over(&self, live: &LiveClient) -> bool {
        live.calls.is_empty() && (live.session.is_down() || live.session.outstanding() == 0)
    }

    /// A client's session is over: its process closes the connection and makes another.
    fn leave(&mut self, at: usize, live: LiveClient) {
        let connection = live.connection;
        let within = self.rng.u64(..100_000);
        self.network.borrow_mut().kill(connection, [within; 2]);
        drop(live);
        self.account.see("session over");
        self.plan_in(10_000, SimTask::Connect(at));
    }

    fn step_live_client(&mut self, at: usize, live: &mut LiveClient) -> Result<(), Broken> {
        let end = EndId { connection: live.connection, is_server: false };
        loop {
            let notice = self.network.borrow_mut().notice(end);
            let Some(notice) = notice else { break };
            match notice {
                SimNotice::Message(message) => live.session.on_message(&message),
                SimNotice::Imm(imm) => live.session.on_imm(imm),
                SimNotice::ReadDone(tag, bytes) => live.session.on_read(tag, bytes),
                SimNotice::Datagram(bytes) => live.session.on_datagram(&bytes, self.client_clock(at)),
                SimNotice::Down => live.session.on_down("the connection is lost"),
            }
            match self.rng.u8(..8) {
                0 if !self.scenario.way.is_sleepy => {
                    self.plan_in(20_000, SimTask::StepClient(at));
                    break;
                }
                1 => self.take_finished(live)?,
                _ => {}
            }
        }
        self.take_finished(live)?;
        self.send_backlog(at, live)?;
        let (timer, now) = (live.session.next_timer(), self.client_clock(at));
        self.plan_timer(timer, now, &mut live.timer_ns, SimTask::StepClient(at));
        if self.network.borrow_mut().take_refused(end) {
            self.plan_in(50_000, SimTask::StepClient(at));
        }
        Ok(())
    }

    fn take_finished(&mut self, live: &mut LiveClient) -> Result<(), Broken> {
        let client = self.client_of(live);
        while let Some(finished) = live.session.next(self.client_clock(client)) {
            self.on_finished(live, finished)?;
        }
        Ok(())
    }

    fn on_finished(&mut self, live: &mut LiveClient, finished: Finished<Vec<u8>>) -> Result<(), Broken> {
        let id = finished.id;
        self.active_ns = self.now_ns();
        let Some(uid) = live.calls.remove(&(id.slot, id.number)) else {
            return Err(format!("{id:?} ended, which is no call of connection {}", live.connection));
        };
        self.note(&[10, uid as u64], || format!("call {uid} ends: {:?}", finished.result.as_ref().map(|_| "reply")));
        match finished.result {
            Ok(reply) => {
                let long;
                let body = match reply.body {
                    Body::Short => live.session.body(),
                    Body::Long(bytes) => {
                        self.account.see("large reply");
                        long = bytes;
                        &long
                    }
                };
                self.account.on_reply(uid, reply.flags, body)
            }
            Err(status) => {
                let network = self.network.borrow();
                let around = Circumstances {
                    now_ns: network.now_ns(),
                    is_up: network.is_up(live.connection),
                    is_draining: self.has_drained(live.connection),
                    may_be_busy: self.scenario.faults.busy > 0.0,
                    max_message_bytes: self.scenario.limits.max_message_bytes,
                    inline_bytes: live.session.carrier().reply_inline_bytes(),
                };
                drop(network);
                self.account.on_error(uid, &status, &around)
            }
        }
    }

    fn send_backlog(&mut self, at: usize, live: &mut LiveClient) -> Result<(), Broken> {
        while let Some(uid) = self.clients[at].backlog.front().copied() {
            if self.account.calls[uid].told.is_some() {
                self.clients[at].backlog.pop_front();
                continue;
            }
            let call = &self.account.calls[uid];
            let body = body_of(uid as u64, call.plan.filling, call.plan.body_bytes);
            let new = NewCall {
                method: uid as u64,
                flags: call.plan.flags,
                deadline: call.deadline_ns.map(|deadline| self.client_instant(at, deadline)),
                body: &body,
            };
            match live.session.start(&new, self.client_clock(at)) {
                Ok(id) => {
                    self.clients[at].backlog.pop_front();
                    self.on_sent(uid, live, id)?;
                }
                Err(NotStarted::Full) => {
                    self.account.see("all slots taken, or busy");
                    break;
                }
                Err(NotStarted::Refused(_)) if live.session.closed().is_some() && self.rng.bool() => break,
                Err(NotStarted::Refused(status)) => {
                    self.clients[at].backlog.pop_front();
                    self.check_refused(uid, live, status.code())?;
                    self.account.end(uid, Told::Error(status.code(), status.executed()))?;
                }
            }
        }
        Ok(())
    }

    fn on_sent(&mut self, uid: usize, live: &mut LiveClient, id: CallId) -> Result<(), Broken> {
        let now = self.now_ns();
        self.active_ns = now;
        self.note(&[11, uid as u64], || format!("call {uid} is sent as {id:?}"));
        self.account.calls[uid].sent = Some((live.connection, id, now));
        self.account.calls[uid].is_hostile = self.is_hostile(live.connection);
        if self.account.calls[uid].plan.body_bytes > live.session.carrier().request_inline_bytes() {
            self.account.see("large request");
        }
        let before = live.calls.insert((id.slot, id.number), uid);
        ensure!(before.is_none(), "call {uid} got the slot of call {before:?}, which has not ended");
        ensure!(live.calls.len() <= usize::from(self.scenario.limits.slots), "more calls than slots");
        Ok(())
    }

    fn check_refused(&mut self, uid: usize, live: &LiveClient, code: Code) -> Result<(), Broken> {
        let call = &self.account.calls[uid];
        let is_true = match code {
            Code::Unavailable => live.session.closed().is_some(),
            Code::ResourceExhausted => call.plan.body_bytes > self.scenario.limits.max_message_bytes,
            Code::DeadlineExceeded => call.deadline_ns.is_some_and(|deadline| deadline < self.now_ns() + 1_000),
            _ => false,
        };
        ensure!(is_true, "call {uid} is refused for no reason: {code}");
        self.account.see("refused at the client");
        Ok(())
    }

    /// The application withdraws a call.
    pub(crate) fn cancel(&mut self, uid: usize) -> Result<(), Broken> {
        let call = &self.account.calls[uid];
        if call.told.is_some() {
            return Ok(());
        }
        let (client, sent) = (call.client, call.sent);
        if let (Some((_, id, _)), Some(live)) = (sent, &mut self.clients[client].live) {
            live.session.cancel(id);
            live.calls.remove(&(id.slot, id.number));
            self.account.see("cancelled");
        }
        self.note(&[12, uid as u64], || format!("call {uid} is cancelled"));
        self.account.end(uid, Told::Cancelled)?;
        self.plan_in(5_000, SimTask::StepClient(client));
        Ok(())
    }

    /// A client's process dies, with all its calls.
    pub(crate) fn crash_client(&mut self, at: usize) -> Result<(), Broken> {
        let Some(live) = self.clients[at].live.take() else {
            return Ok(());
        };
        let within = self.crash_is_heard_within();
        self.network.borrow_mut().crash(EndId { connection: live.connection, is_server: false }, within);
        let calls: Vec<usize> = live.calls.values().copied().collect();
        drop(live);
        for uid in calls {
            self.account.end(uid, Told::Crashed)?;
        }
        self.account.see("client crashed");
        self.plan_in(100_000, SimTask::Connect(at));
        Ok(())
    }
}
