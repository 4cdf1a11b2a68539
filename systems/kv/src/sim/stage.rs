//! Actors take turns: one thread each, of which one runs at a time. So blocking code runs as it is, and a seed decides everything.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use parking_lot::{Condvar, Mutex};

/// Turns after which a run counts as endless.
const MOST_TURNS: u64 = 3_000_000;

/// A time at which an actor goes on: time, order of its planning, actor, token.
type Planned = Reverse<(u64, u64, usize, u64)>;

struct WaitingActor {
    /// Plans with an older token are void.
    token: u64,
    until_ns: u64,
    is_wakeable: bool,
}

struct StageState {
    now_ns: u64,
    turns: u64,
    agenda: BinaryHeap<Planned>,
    planned: u64,
    running: Option<usize>,
    waiting: Vec<WaitingActor>,
    /// The run was given up, for this reason.
    stopped: Option<String>,
}

/// The time, and the actors that wait for it.
pub(crate) struct Stage {
    state: Mutex<StageState>,
    turns: Vec<Condvar>,
    over: Condvar,
}

impl StageState {
    fn plan(&mut self, actor: usize, at_ns: u64) {
        self.planned += 1;
        let token = self.waiting[actor].token;
        self.agenda.push(Reverse((at_ns.max(self.now_ns), self.planned, actor, token)));
    }

    /// Takes the next actor out of the agenda, and lets it run.
    fn next(&mut self) -> Option<usize> {
        self.running = None;
        while let Some(Reverse((at_ns, _, actor, token))) = self.agenda.pop() {
            if self.waiting[actor].token == token {
                self.now_ns = at_ns;
                self.turns += 1;
                self.waiting[actor].token += 1;
                self.waiting[actor].is_wakeable = false;
                self.running = Some(actor);
                if self.turns == MOST_TURNS && self.stopped.is_none() {
                    self.stopped = Some("the run has no end".into());
                }
                return Some(actor);
            }
        }
        None
    }
}

impl Stage {
    pub(crate) fn new(actors: usize) -> Stage {
        let waiting = (0..actors).map(|_| WaitingActor { token: 0, until_ns: 0, is_wakeable: false }).collect();
        let mut state = StageState {
            now_ns: 1_000_000,
            turns: 0,
            agenda: BinaryHeap::new(),
            planned: 0,
            running: None,
            waiting,
            stopped: None,
        };
        (0..actors).for_each(|actor| state.plan(actor, 0));
        Stage { state: Mutex::new(state), turns: (0..actors).map(|_| Condvar::new()).collect(), over: Condvar::new() }
    }

    /// Nanoseconds of the world's own time.
    pub(crate) fn now_ns(&self) -> u64 {
        self.state.lock().now_ns
    }

    /// Gives the run up: every actor ends when it would go on.
    pub(crate) fn stop(&self, reason: String) {
        self.state.lock().stopped.get_or_insert(reason);
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        self.state.lock().stopped.clone()
    }

    /// Waits for the first turn of an actor. False: the run was given up.
    pub(crate) fn enter(&self, actor: usize) -> bool {
        let mut state = self.state.lock();
        while state.running != Some(actor) {
            self.turns[actor].wait(&mut state);
        }
        state.stopped.is_none()
    }

    /// Lets the others go on until that time, or until somebody [wakes](Stage::wake) the actor. False: the run was given up.
    pub(crate) fn wait(&self, actor: usize, until_ns: u64, is_wakeable: bool) -> bool {
        let mut state = self.state.lock();
        if state.stopped.is_some() {
            return false;
        }
        let place = &mut state.waiting[actor];
        (place.until_ns, place.is_wakeable) = (until_ns, is_wakeable);
        state.plan(actor, until_ns);
        if let Some(next) = state.next()
            && next != actor
        {
            self.turns[next].notify_one();
            while state.running != Some(actor) {
                self.turns[actor].wait(&mut state);
            }
        }
        state.stopped.is_none()
    }

    /// Lets an actor that waits go on at that time already.
    pub(crate) fn wake(&self, actor: usize, at_ns: u64) {
        let mut state = self.state.lock();
        let place = &mut state.waiting[actor];
        if place.is_wakeable && at_ns < place.until_ns {
            place.until_ns = at_ns;
            place.token += 1;
            state.plan(actor, at_ns);
        }
    }

    /// The actor has ended.
    pub(crate) fn leave(&self, actor: usize) {
        let mut state = self.state.lock();
        state.waiting[actor].token += 1;
        match state.next() {
            Some(next) => drop(self.turns[next].notify_one()),
            None => drop(self.over.notify_one()),
        }
    }

    /// Starts the first actor, and waits until all have ended.
    pub(crate) fn run(&self) {
        let mut state = self.state.lock();
        if let Some(first) = state.next() {
            self.turns[first].notify_one();
            while state.running.is_some() {
                self.over.wait(&mut state);
            }
        }
    }
}
