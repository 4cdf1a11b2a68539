//! The thread behind a channel: it connects, and it waits where tasks do not spin.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::channel::state::{ChannelCore, ChannelState};
use crate::client::Client;
use crate::code::Executed;
use crate::memory_sleep::MemorySleep;
use crate::status::Status;

/// The longest sleep: the driver looks whether the connection still stands.
const SLEEP: Duration = Duration::from_millis(100);
/// The longest sleep while calls wait for the server.
const WATCH: Duration = Duration::from_millis(5);

/// # Errors
/// If the system starts no thread.
pub(super) fn start_driver(shared: &Arc<ChannelCore>) -> Result<(), Status> {
    let shared = Arc::clone(shared);
    let drive = move || Driver { shared, descriptor: None, memory_sleep: None }.run();
    let started = thread::Builder::new().name("rpc-channel".into()).spawn(drive);
    started.map(|_| ()).map_err(|error| Status::unavailable(error.to_string()).with_executed(Executed::No))
}

struct Driver {
    shared: Arc<ChannelCore>,
    /// A copy of the descriptor of the present session's completion channel, to be slept on without the lock.
    descriptor: Option<OwnedFd>,
    memory_sleep: Option<MemorySleep>,
}

impl Driver {
    fn run(mut self) {
        while self.step() {}
    }

    /// Does all that there is to do, then sleeps. False if the channel is closed.
    fn step(&mut self) -> bool {
        let goes_on = self.work_and_sleep();
        if let Some(sleep) = &mut self.memory_sleep {
            sleep.end();
        }
        goes_on
    }

    fn work_and_sleep(&mut self) -> bool {
        let rung = self.shared.alarm.take();
        let now = Instant::now();
        let shared = self.shared.clone();
        let mut state = shared.state.lock();
        if state.is_closed() {
            return false;
        }
        let most = self.begin_sleep(&mut state, rung);
        state.drive();
        if state.wants_session(now) {
            drop(state);
            self.connect();
            return true;
        }
        if state.waits_for_link() {
            state.wake_waiting();
        } else if state.outstanding() == 0 {
            state.unwatch();
        }
        let deadline = [state.expire_waiting(now), state.next_timer()].into_iter().flatten().min();
        let is_watched = state.is_watched();
        let longest = deadline.map_or(SLEEP, |deadline| deadline.saturating_duration_since(now).min(SLEEP));
        if is_watched && let Some(client) = state.client() {
            client.take_events();
            if !client.arm() {
                return true; // There is something already.
            }
        }
        drop(state);
        self.sleep(is_watched, longest.min(most));
        true
    }

    /// Returns the longest time for which the driver may sleep after it has looked once more.
    fn begin_sleep(&mut self, state: &mut ChannelState, rung: bool) -> Duration {
        let (Some(sleep), true) = (&mut self.memory_sleep, state.is_watched()) else { return SLEEP };
        if rung {
            sleep.found();
        }
        if state.waits_for_link() {
            return sleep.nap();
        }
        match state.client() {
            Some(client) if !client.wakes() => sleep.begin(WATCH),
            _ => WATCH,
        }
    }

    fn sleep(&self, is_watched: bool, longest: Duration) {
        match &self.descriptor {
            Some(descriptor) if is_watched => {
                let memory = self.memory_sleep.as_ref().and_then(MemorySleep::descriptor);
                self.shared.alarm.sleep(descriptor.as_fd(), memory, longest);
            }
            _ => self.shared.alarm.sleep_alone(longest),
        }
    }

    /// Makes a session. That blocks, so it happens without the lock.
    fn connect(&mut self) {
        let result = Client::connect_sleeping(self.shared.target.clone(), &self.shared.options);
        if let Ok(client) = &result {
            self.descriptor = client.descriptor().ok();
            self.memory_sleep = Some(MemorySleep::new(client.device()));
        }
        self.shared.state.lock().connected(result);
    }
}
