//! The thread behind a channel: it connects, and it waits where tasks do not spin.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::channel::state::ChannelCore;
use crate::client::Client;
use crate::code::Executed;
use crate::status::Status;

/// The longest sleep: the driver looks whether the connection still stands.
const SLEEP: Duration = Duration::from_millis(100);
/// The longest sleep while calls wait for the server.
const WATCH: Duration = Duration::from_millis(5);
/// Naps where replies cause no completion, from the first to the longest.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// # Errors
/// If the system starts no thread.
pub(super) fn start_driver(shared: &Arc<ChannelCore>) -> Result<(), Status> {
    let shared = Arc::clone(shared);
    let drive = move || Driver { shared, descriptor: None, nap: NAPS.0 }.run();
    let started = thread::Builder::new().name("rpc-channel".into()).spawn(drive);
    started.map(|_| ()).map_err(|error| Status::unavailable(error.to_string()).with_executed(Executed::No))
}

struct Driver {
    shared: Arc<ChannelCore>,
    /// A copy of the descriptor of the present session's completion channel, to be slept on without the lock.
    descriptor: Option<OwnedFd>,
    nap: Duration,
}

impl Driver {
    fn run(mut self) {
        while self.step() {}
    }

    /// Does all that there is to do, then sleeps. False if the channel is closed.
    fn step(&mut self) -> bool {
        if self.shared.alarm.take() {
            self.nap = NAPS.0;
        }
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        if state.is_closed() {
            return false;
        }
        state.drive();
        if state.wants_session(now) {
            drop(state);
            self.connect();
            return true;
        }
        let waits_for_link = state.waits_for_link();
        if waits_for_link {
            state.wake_waiting();
        } else if state.outstanding() == 0 {
            state.unwatch();
        }
        let deadline = [state.expire_waiting(now), state.next_timer()].into_iter().flatten().min();
        let is_watched = state.is_watched();
        let longest = deadline.map_or(SLEEP, |deadline| deadline.saturating_duration_since(now).min(SLEEP));
        let mut naps = waits_for_link;
        if is_watched && let Some(client) = state.client() {
            naps |= !client.wakes();
            client.take_events();
            if !client.arm() {
                return true; // There is something already.
            }
        }
        drop(state);
        self.sleep(is_watched, naps, longest);
        true
    }

    fn sleep(&mut self, is_watched: bool, naps: bool, longest: Duration) {
        match &self.descriptor {
            Some(descriptor) if is_watched => {
                let longest = longest.min(if naps { self.nap } else { WATCH });
                self.nap = (self.nap * 2).min(NAPS.1);
                self.shared.alarm.sleep(descriptor.as_fd(), longest);
            }
            _ => self.shared.alarm.sleep_alone(longest),
        }
    }

    /// Makes a session. That blocks, so it happens without the lock.
    fn connect(&mut self) {
        let result = Client::connect_sleeping(self.shared.target.clone(), &self.shared.options);
        if let Ok(client) = &result {
            self.descriptor = client.descriptor().ok();
        }
        self.shared.state.lock().connected(result);
    }
}
