//! A server's process: a session per client, handlers that answer when the call's plan says, and drains.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::code::{Code, Executed};
use crate::session::{Arrived, Body, CallId, ServerSession};
use crate::sim::account::{Broken, ensure};
use crate::sim::bytes::{reply_of, words_of};
use crate::sim::link::SimLink;
use crate::sim::network::{EndId, SimNotice};
use crate::sim::world::{SimTask, SimWorld};

/// A server.
#[derive(Default)]
pub(crate) struct SimServer {
    /// Sessions by their connections.
    pub(crate) sessions: BTreeMap<usize, LiveServer>,
    pub(crate) is_draining: bool,
}

/// A server's session.
pub(crate) struct LiveServer {
    pub(crate) session: ServerSession<SimLink>,
    /// Requests that handlers have, or will get.
    pub(crate) held: usize,
    /// Since the drain: requests that may still come, because they had come before in part.
    pub(crate) drained: Option<usize>,
    /// The next look because of the session's timer.
    pub(crate) timer_ns: u64,
}

/// A request that waits for its handler, or a handler that has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) server: usize,
    pub(crate) connection: usize,
    pub(crate) uid: usize,
    pub(crate) id: CallId,
    pub(crate) deadline: Option<Instant>,
}

impl SimWorld {
    /// A server looks at one of its sessions.
    pub(crate) fn step_server(&mut self, server: usize, connection: usize) -> Result<(), Broken> {
        let Some(mut live) = self.servers[server].sessions.remove(&connection) else {
            return Ok(());
        };
        let outcome = self.step_live_server(server, connection, &mut live);
        let is_over = live.session.ended().is_some();
        if is_over {
            let why = live.session.ended().unwrap_or_default();
            ensure!(self.may_end(connection), "a server's session ended by itself: {why}");
            // The session goes; its handlers go on.
            let within = self.rng.u64(..100_000);
            self.network.borrow_mut().kill(connection, [within; 2]);
        } else if self.is_drained(&live) && self.rng.u8(..4) == 0 {
            self.account.see("closed after a drain");
            self.network.borrow_mut().kill(connection, [100_000; 2]);
            self.servers[server].sessions.insert(connection, live);
        } else {
            self.servers[server].sessions.insert(connection, live);
        }
        outcome
    }

    /// A server polls the memory of a session.
    pub(crate) fn look_server(&mut self, server: usize, connection: usize) -> Result<(), Broken> {
        let Some(mut live) = self.servers[server].sessions.remove(&connection) else {
            return Ok(());
        };
        let outcome = self.take_arrived(server, connection, &mut live);
        self.servers[server].sessions.insert(connection, live);
        outcome
    }

    fn is_drained(&self, live: &LiveServer) -> bool {
        live.drained.is_some() && live.held == 0 && live.session.is_quiet()
    }

    fn step_live_server(&mut self, server: usize, connection: usize, live: &mut LiveServer) -> Result<(), Broken> {
        let end = EndId { connection, is_server: true };
        loop {
            let notice = self.network.borrow_mut().notice(end);
            let Some(notice) = notice else { break };
            match notice {
                SimNotice::Message(message) => live.session.on_message(&message),
                SimNotice::Imm(imm) => live.session.on_imm(imm),
                SimNotice::ReadDone(tag, bytes) => live.session.on_read(tag, bytes),
                SimNotice::Datagram(bytes) => live.session.on_datagram(&bytes, self.server_clock(server)),
                SimNotice::Down => live.session.on_down("the connection is lost"),
            }
            match self.rng.u8(..8) {
                0 if !self.scenario.way.is_sleepy => {
                    self.plan_in(20_000, SimTask::StepServer(server, connection));
                    break;
                }
                1 => self.take_arrived(server, connection, live)?,
                _ => {}
            }
        }
        self.take_arrived(server, connection, live)?;
        let (timer, now) = (live.session.next_timer(), self.server_clock(server));
        self.plan_timer(timer, now, &mut live.timer_ns, SimTask::StepServer(server, connection));
        if self.network.borrow_mut().take_refused(end) {
            self.plan_in(50_000, SimTask::StepServer(server, connection));
        }
        Ok(())
    }

    fn take_arrived(&mut self, server: usize, connection: usize, live: &mut LiveServer) -> Result<(), Broken> {
        while let Some(arrived) = live.session.next(self.server_clock(server)) {
            if self.is_hostile(connection) {
                self.on_hostile_request(live, &arrived, server);
            } else {
                self.on_request(server, connection, live, &arrived)?;
            }
        }
        Ok(())
    }

    fn on_request(
        &mut self,
        server: usize,
        connection: usize,
        live: &mut LiveServer,
        arrived: &Arrived<Vec<u8>>,
    ) -> Result<(), Broken> {
        let now_ns = self.now_ns();
        let uid = self.account.on_arrived(arrived.method, connection, arrived.id, now_ns)?;
        self.note(&[20, uid as u64], || format!("call {uid} arrives as {:?}", arrived.id));
        if let Some(still) = &mut live.drained {
            ensure!(*still > 0, "call {uid} was taken by a session that drains");
            *still -= 1;
        }
        let has_deadline = arrived.deadline.is_some();
        let checked = match &arrived.body {
            Body::Long(bytes) => self.account.check_request(uid, arrived.flags, bytes, has_deadline),
            Body::Short => {
                let body = live.session.take_body();
                let checked = self.account.check_request(uid, arrived.flags, &body, has_deadline);
                live.session.put_body(body);
                checked
            }
        };
        checked?;
        live.held += 1;
        let running = Running { server, connection, uid, id: arrived.id, deadline: arrived.deadline };
        match self.account.calls[uid].plan.wait_ns {
            0 => self.start_handler(live, running),
            wait => {
                self.plan_after(wait, SimTask::Start(running));
                Ok(())
            }
        }
    }

    /// The handler of a request gets its turn.
    pub(crate) fn start(&mut self, running: Running) -> Result<(), Broken> {
        self.with_live(running, |world, live| world.start_handler(live, running))
    }

    fn start_handler(&mut self, live: &mut LiveServer, running: Running) -> Result<(), Broken> {
        let now = self.server_clock(running.server);
        if live.session.is_pointless(running.id, running.deadline, now) {
            self.account.see("pointless");
            live.held -= 1;
            return Ok(());
        }
        self.note(&[21, running.uid as u64], || format!("the handler of call {} starts", running.uid));
        let now_ns = self.now_ns();
        self.account.on_started(running.uid, now_ns)?;
        match self.account.calls[running.uid].plan.work_ns {
            0 => self.answer_now(live, running),
            work => self.plan_after(work, SimTask::Answer(running)),
        }
        Ok(())
    }

    /// A handler answers.
    pub(crate) fn answer(&mut self, running: Running) -> Result<(), Broken> {
        self.with_live(running, |world, live| {
            world.answer_now(live, running);
            Ok(())
        })
    }

    fn answer_now(&mut self, live: &mut LiveServer, running: Running) {
        let plan = self.account.calls[running.uid].plan;
        let (uid, now) = (running.uid as u64, self.server_clock(running.server));
        let outcome = (plan.code, Executed::Yes);
        self.account.on_answered(running.uid);
        if plan.code == Code::Ok {
            let body = reply_of(uid, plan.filling, plan.reply_bytes);
            live.session.reply(running.id, outcome, plan.reply_flags, &body, now);
        } else {
            live.session.reply(running.id, outcome, 0, words_of(uid, plan.reply_bytes).as_bytes(), now);
        }
        live.held -= 1;
    }

    /// Does something with a session, if it lives; its process looks at it soon after.
    fn with_live(
        &mut self,
        running: Running,
        act: impl FnOnce(&mut SimWorld, &mut LiveServer) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let (server, connection) = (running.server, running.connection);
        let Some(mut live) = self.servers[server].sessions.remove(&connection) else {
            return Ok(());
        };
        let outcome = act(self, &mut live);
        self.servers[server].sessions.insert(connection, live);
        let was_refused = self.network.borrow_mut().take_refused(EndId { connection, is_server: true });
        if was_refused || self.rng.bool() {
            self.plan_in(20_000, SimTask::StepServer(server, connection));
        }
        outcome
    }

    /// The server takes no more requests.
    pub(crate) fn drain(&mut self, server: usize) {
        self.account.see("drain");
        self.servers[server].is_draining = true;
        let connections: Vec<usize> = self.servers[server].sessions.keys().copied().collect();
        for connection in connections {
            self.drained.insert(connection);
            if let Some(live) = self.servers[server].sessions.get_mut(&connection) {
                let reading = live.session.running() - live.held;
                live.drained.get_or_insert(reading);
                live.session.drain();
            }
            self.plan_in(5_000, SimTask::StepServer(server, connection));
        }
        self.plan_in(500_000, SimTask::Undrain(server));
    }

    /// A server's process dies, and another takes its place.
    pub(crate) fn crash_server(&mut self, server: usize) {
        self.account.see("server crashed");
        let within = self.crash_is_heard_within();
        for connection in std::mem::take(&mut self.servers[server].sessions).into_keys() {
            self.network.borrow_mut().crash(EndId { connection, is_server: true }, within);
        }
        self.servers[server].is_draining = false;
    }
}
