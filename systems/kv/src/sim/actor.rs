//! The actor that this thread is: its machine's clock, its pauses, and its death.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::sim::world::{SERVER, SimWorld};

/// Bytes of a value in one message.
const PIECE_BYTES: usize = 3000;

thread_local! {
    static ACTOR: RefCell<Option<Rc<Actor>>> = const { RefCell::new(None) };
}

/// A process has died in the middle of what it did, or the run was given up.
pub(crate) struct Died;

/// The clock of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineClock {
    pub(crate) offset_ns: u64,
    /// Nanoseconds that it gains in a millisecond.
    pub(crate) drift: i64,
    /// At a time of the world, it jumps forward by so much.
    pub(crate) jump: Option<(u64, u64)>,
}

impl MachineClock {
    pub(crate) fn at(&self, now_ns: u64) -> u64 {
        let drifted = (i128::from(now_ns) + i128::from(now_ns) * i128::from(self.drift) / 1_000_000) as u64;
        let jumped = self.jump.filter(|(at_ns, _)| now_ns >= *at_ns).map_or(0, |(_, by_ns)| by_ns);
        drifted + self.offset_ns + jumped
    }
}

/// A process of the world.
pub(crate) struct Actor {
    world: Arc<SimWorld>,
    number: usize,
    clock: MachineClock,
    rng: RefCell<Rng>,
    /// Words of memory until the next pause.
    words: Cell<u32>,
    /// Pauses until the process dies.
    dies_in: Cell<Option<u32>>,
    /// Only pauses between words of memory count for that.
    dies_at_memory: Cell<bool>,
    /// The next pause is a long one.
    stops_next: Cell<bool>,
    /// True while the process is dead, and its objects are put away.
    is_dead: Cell<bool>,
}

/// Makes this thread an actor, and runs it.
pub(crate) fn play(world: &Arc<SimWorld>, number: usize, clock: MachineClock, rng: Rng, run: impl FnOnce()) {
    let actor = Actor {
        world: Arc::clone(world),
        number,
        clock,
        rng: RefCell::new(rng),
        words: Cell::new(1),
        dies_in: Cell::new(None),
        dies_at_memory: Cell::new(false),
        stops_next: Cell::new(false),
        is_dead: Cell::new(false),
    };
    ACTOR.set(Some(Rc::new(actor)));
    if world.stage.enter(number) {
        run();
    }
    ACTOR.set(None);
    world.stage.leave(number);
}

pub(crate) fn current() -> Option<Rc<Actor>> {
    ACTOR.with_borrow(Option::clone)
}

/// The time since the boot of this actor's machine; `None` outside of simulations. A process may stand still before it knows.
pub(crate) fn clock_ns() -> Option<u64> {
    let actor = current()?;
    actor.step();
    Some(actor.clock.at(actor.world.stage.now_ns()))
}

pub(crate) fn instant() -> Option<Instant> {
    static BASE: OnceLock<Instant> = OnceLock::new();
    Some(*BASE.get_or_init(Instant::now) + Duration::from_nanos(clock_ns()?))
}

/// Nanoseconds of the world until an instant of this actor.
pub(crate) fn left_ns(until: Instant) -> u64 {
    instant().map_or(0, |now| until.saturating_duration_since(now).as_nanos() as u64)
}

/// False outside of simulations.
pub(crate) fn sleep(time: Duration) -> bool {
    let actor = current();
    if let Some(actor) = &actor {
        actor.pause(time.as_nanos() as u64);
    }
    actor.is_some()
}

pub(crate) fn piece_bytes() -> Option<usize> {
    ACTOR.with_borrow(|actor| actor.as_ref().map(|_| PIECE_BYTES))
}

/// False outside of simulations.
pub(crate) fn fill_random(bytes: &mut [u8]) -> bool {
    let actor = current();
    if let Some(actor) = &actor {
        actor.draw(|rng| rng.fill(bytes));
    }
    actor.is_some()
}

impl Actor {
    /// The process has a lock now. Some die with it, and some stand still.
    pub(crate) fn risk(&self) {
        let plan = &self.world.plan;
        if self.world.is_calm() {
            return;
        }
        let (fate, words) = self.draw(|rng| (rng.u8(..8), rng.u32(1..16)));
        match fate {
            0 if plan.client_pauses > 0 => {
                self.words.set(words);
                self.dies_in.set(Some(0));
            }
            1 => {
                self.words.set(words);
                self.stops_next.set(true);
            }
            _ => {}
        }
    }

    /// The process has read a value that expires. Some stand still before they look at the clock.
    pub(crate) fn risk_time(&self) {
        if !self.world.is_calm() && self.draw(|rng| rng.u8(..4) == 0) {
            self.words.set(1);
            self.stops_next.set(true);
        }
    }

    /// Draws something at random.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.borrow_mut())
    }

    /// The process will die after so many pauses, or not.
    pub(crate) fn live(&self, dies_in: Option<u32>) {
        self.dies_in.set(dies_in);
        self.dies_at_memory.set(self.draw(|rng| rng.bool()));
        self.is_dead.set(false);
    }

    /// The process is dead: what it still does takes no time, and nobody sees it.
    pub(crate) fn bury(&self) {
        self.is_dead.set(true);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.get() || std::thread::panicking()
    }

    /// A look at a clock. Some of them take long.
    pub(crate) fn step(&self) {
        self.step_of(false);
    }

    /// One word of memory.
    pub(crate) fn step_word(&self) {
        self.step_of(true);
    }

    fn step_of(&self, is_memory: bool) {
        let words = self.words.get();
        if words > 1 {
            self.words.set(words - 1);
            return;
        }
        let plan = &self.world.plan;
        let is_calm = self.world.is_calm();
        // While the server stands still, little happens.
        let rarely = if self.number == SERVER { 20 } else { 1 };
        let (words, pause_ns) = {
            let mut rng = self.rng.borrow_mut();
            let chosen = if self.stops_next.take() { 0 } else { rng.u32(..plan.stop_one_in * rarely) };
            let pause_ns = match chosen {
                0 if !is_calm => rng.u64(..plan.longest_stop_ns),
                1..8 => rng.u64(..50_000),
                _ => rng.u64(..2_000),
            };
            (rng.u32(1..=plan.words * 2), pause_ns)
        };
        self.words.set(words);
        if pause_ns > 100_000 {
            self.world.trace(|| format!("actor {} stands still for {pause_ns} ns", self.number));
        }
        self.wait_as(self.world.stage.now_ns() + pause_ns, false, is_memory);
    }

    /// Lets the others go on for a while. The process may die meanwhile.
    pub(crate) fn pause(&self, time_ns: u64) {
        self.wait(self.world.stage.now_ns() + time_ns, false);
    }

    /// Waits until a time, or until somebody wakes the actor.
    pub(crate) fn wait(&self, until_ns: u64, is_wakeable: bool) {
        self.wait_as(until_ns, is_wakeable, false);
    }

    fn wait_as(&self, until_ns: u64, is_wakeable: bool, is_memory: bool) {
        if self.is_dead() {
            return;
        }
        let goes_on = self.world.stage.wait(self.number, until_ns, is_wakeable);
        let left = self.dies_in.get();
        let counts = is_memory || !self.dies_at_memory.get();
        if counts {
            self.dies_in.set(left.map(|left| left.saturating_sub(1)));
        }
        if !goes_on || (counts && left == Some(0)) {
            self.is_dead.set(true);
            resume_unwind(Box::new(Died));
        }
    }
}
