//! A polling thread: connections, sessions, and their requests.

mod admission;
mod ending;

use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use longarm::{Connecting, QpBuilder, Qpn};
use rustc_hash::FxHashMap;

use crate::alarm::Alarm;
use crate::auth::ServerDemands;
use crate::memory_sleep::MemorySleep;
use crate::observe::{self, ServerEvent};
use crate::options::ServerOptions;
use crate::server::figures::WorkerFigures;
use crate::server::inbox::ToWorker;
use crate::server::opening::OpeningSession;

use crate::server::serving::Serving;
use crate::server::sessions::Sessions;
use crate::server::stall::StallWatch;
use crate::server::way::GivingWay;
use crate::verbs::{Port, PortEvent};

/// The longest time for which an idle thread gives its processor away where other programs want it.
const REST: Duration = Duration::from_millis(1);
/// Time between two looks at things that have no event: deadlines of handshakes, connections that have ended.
const HOUSEKEEPING: Duration = Duration::from_millis(5);
/// Looks at sessions between two looks into the completion queue, while sessions poll memory.
const LOOKS: u32 = 8;
/// Requests that are taken from one session before the others have their turn.
const TURN: usize = 32;
/// The time for which replies may wait for others while handlers run.
const HOLD: Duration = Duration::from_micros(20);
/// Messages of a connection that are kept until the connection manager reports it.
const EARLY: usize = 4;
/// The longest sleep.
const SLEEP: Duration = Duration::from_millis(100);

/// One polling thread.
pub(crate) struct ServerWorker {
    port: Port,
    options: Arc<ServerOptions>,
    demands: ServerDemands,
    serving: Serving,
    inbox: Receiver<ToWorker>,
    alarm: Arc<Alarm>,
    figures: Arc<WorkerFigures>,
    connecting: Vec<Pin<Box<Connecting<QpBuilder>>>>,
    opening: FxHashMap<Qpn, OpeningSession>,
    /// Messages of connections that the connection manager has not reported yet.
    early: Vec<(Qpn, Vec<u8>)>,
    sessions: Sessions,
    draining: bool,
    stopped: bool,
    memory_sleep: MemorySleep,
    watch: StallWatch,
    way: GivingWay,
}

impl ServerWorker {
    pub(crate) fn new(
        port: Port,
        options: Arc<ServerOptions>,
        demands: ServerDemands,
        serving: Serving,
        inbox: Receiver<ToWorker>,
        alarm: Arc<Alarm>,
        figures: Arc<WorkerFigures>,
    ) -> ServerWorker {
        let memory_sleep = MemorySleep::new(port.device());
        ServerWorker {
            port,
            options,
            demands,
            serving,
            inbox,
            alarm,
            figures,
            connecting: Vec::new(),
            opening: FxHashMap::default(),
            early: Vec::new(),
            sessions: Sessions::default(),
            draining: false,
            stopped: false,
            memory_sleep,
            watch: StallWatch::new(Instant::now()),
            way: GivingWay::default(),
        }
    }

    /// Serves until the server stops.
    pub(crate) fn run(mut self) {
        let (mut now, mut looks) = (Instant::now(), 0);
        let (mut busy_at, mut kept_at, mut was_busy) = (now, now, true);
        while !self.stopped {
            looks += 1;
            let mut progress = self.serve_polled(now);
            if looks >= LOOKS || !self.sessions.poll_memory() || self.port.is_unrung() {
                looks = 0;
                now = Instant::now();
                // Answers of other threads do not end a rest of the device.
                let may_rest = !progress && !was_busy && self.serving.elsewhere == 0;
                let longest = if may_rest { REST } else { Duration::ZERO };
                progress |= self.serve_events(now, longest);
                progress |= self.alarm.take() && self.read_inbox(now);
                if now.duration_since(kept_at) >= HOUSEKEEPING {
                    kept_at = now;
                    self.keep_house(now);
                }
            }
            was_busy = progress;
            if progress {
                busy_at = now;
                self.memory_sleep.found();
            } else if looks == 0 && self.should_sleep(now, busy_at) {
                self.sleep(now);
                now = Instant::now();
            } else if self.serving.elsewhere == 0 || self.way.should_sleep(now) {
                std::hint::spin_loop();
            } else {
                // The thread that the answer comes from may wait for this processor.
                self.way.give_way();
            }
        }
        (0..self.sessions.len()).for_each(|_| observe::session_ends());
    }

    /// Whether the thread sleeps until something wakes it. It has had nothing to do since `busy_at`.
    fn should_sleep(&self, now: Instant, busy_at: Instant) -> bool {
        now.duration_since(busy_at) >= self.options.spin || (self.serving.elsewhere > 0 && self.way.should_sleep(now))
    }

    /// Looks into the memory of the sessions that are polled.
    fn serve_polled(&mut self, now: Instant) -> bool {
        let (mut progress, mut at) = (false, 0);
        // The list shrinks where a session ends.
        while let Some(index) = self.sessions.polled().get(at).copied() {
            progress |= self.serve(index, now);
            at += 1;
        }
        progress
    }

    /// Takes completions, and serves the sessions that they are of.
    fn serve_events(&mut self, now: Instant, longest: Duration) -> bool {
        let mut progress = self.take_events(now, longest);
        while let Some(index) = self.sessions.next_ready() {
            progress |= self.serve(index, now);
        }
        progress
    }

    /// Takes completions, and tells the sessions.
    fn take_events(&mut self, now: Instant, longest: Duration) -> bool {
        let mut progress = false;
        self.watch.look(now);
        // If this fails, the device has lost completions, or the process was forked: no session can go on.
        self.stopped |= self.port.ring(longest).is_err();
        while let Some(event) = self.port.take() {
            self.on_event(event, now);
            progress = true;
        }
        progress || self.stopped
    }

    fn on_event(&mut self, event: PortEvent, now: Instant) {
        match event {
            PortEvent::Imm(qpn, imm) => self.sessions.with(qpn, |session| session.on_imm(imm)),
            PortEvent::Message(qpn, message) => match self.opening.remove(&qpn) {
                Some(opening) => self.open(opening, &message),
                None if self.sessions.has(qpn) => self.sessions.with(qpn, |session| session.on_message(&message)),
                // An honest client sends one message before it hears of us, or the few pieces of one.
                None if self.early.len() < self.connecting.len() * EARLY => self.early.push((qpn, message)),
                None => {}
            },
            PortEvent::Datagram(buffer) => {
                if !self.sessions.on_datagram(&buffer, now) {
                    self.figures.dropped.fetch_add(1, Ordering::Relaxed);
                    observe::count(ServerEvent::Dropped, 1);
                }
                self.port.put_datagram(buffer);
            }
            PortEvent::Sent(completion) => self.sessions.with(completion.qpn(), |session| {
                if let Some((tag, bytes)) = session.link().on_completion(completion) {
                    session.on_read(tag, bytes);
                }
            }),
            PortEvent::Failed(qpn, why, completion) => {
                if let Some(opening) = self.opening.remove(&qpn) {
                    self.sessions.free_index(opening.index());
                }
                self.sessions.with(qpn, |session| {
                    let _ = session.link().on_completion(completion);
                    session.on_down(&why);
                });
            }
        }
    }

    /// Serves a session; returns whether there was anything to do.
    fn serve(&mut self, index: u32, now: Instant) -> bool {
        let mut served = 0;
        while served < TURN
            && let Some(request) = self.sessions.get(index).and_then(|(_, session)| session.next(now))
        {
            served += 1;
            let late = if request.deadline.is_some() || self.port.is_unrung() { Instant::now() } else { now };
            let holds_long = self.port.is_unrung() && late.saturating_duration_since(now) >= HOLD;
            if holds_long || self.port.is_crowded() {
                self.stopped |= self.port.ring(Duration::ZERO).is_err();
            }
            if self.watch.is_old(late) {
                self.take_events(late, Duration::ZERO);
            }
            let late = request.deadline.map_or(late, |_| self.watch.judged_at(now, late));
            if let Some((key, session, peer)) = self.sessions.get_with_peer(index) {
                self.serving.serve((key, peer), session, request, (now, late));
            }
        }
        let Some((_, session)) = self.sessions.get(index) else {
            return false;
        };
        let is_over = session.ended().is_some();
        session.link().set_more(served > 1);
        if served == TURN {
            self.sessions.make_ready(index);
        }
        self.figures.requests.fetch_add(served as u64, Ordering::Relaxed);
        if is_over {
            self.close(index);
        }
        served > 0 || is_over
    }

    fn read_inbox(&mut self, now: Instant) -> bool {
        let mut progress = false;
        loop {
            if self.port.is_crowded() {
                self.stopped |= self.port.ring(Duration::ZERO).is_err();
            }
            match self.inbox.try_recv() {
                Ok(ToWorker::Accept(incoming)) => self.accept(*incoming),
                Ok(ToWorker::Reply(key, id, answer)) => {
                    self.serving.elsewhere -= 1;
                    if let Some(session) = self.sessions.find(key) {
                        self.serving.reply_answer(session, id, answer, now);
                    }
                }
                Ok(ToWorker::Pointless(key, id)) => {
                    self.serving.elsewhere -= 1;
                    if let Some(session) = self.sessions.find(key) {
                        session.refuse_pointless(id, now);
                    }
                }
                Ok(ToWorker::Drain) => self.drain(),
                Ok(ToWorker::Stop) | Err(TryRecvError::Disconnected) => self.stopped = true,
                Err(TryRecvError::Empty) => break,
            }
            progress = true;
            if self.stopped {
                break;
            }
        }
        self.poll_connecting();
        progress
    }

    /// Sleeps until a completion, a change of memory or a message of another thread wakes it.
    fn sleep(&mut self, now: Instant) {
        let is_waiting = self.draining || !self.opening.is_empty();
        let mut longest = if is_waiting { HOUSEKEEPING } else { SLEEP };
        let polls_memory = self.sessions.poll_memory();
        if polls_memory {
            longest = self.memory_sleep.begin(longest);
        }
        if !(polls_memory && self.serve_polled(now)) {
            self.sleep_for(longest);
        }
        self.memory_sleep.end();
    }

    fn sleep_for(&mut self, longest: Duration) {
        let longest = self.watch.before_sleep(longest);
        if self.port.arm().is_ok() && !self.port.has_event().unwrap_or(true) {
            self.alarm.sleep(self.port.channel().as_fd(), self.memory_sleep.descriptor(), longest);
            while self.port.channel().next_event().is_some() {}
        }
    }
}
