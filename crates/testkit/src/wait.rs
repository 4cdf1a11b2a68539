//! Waiting for something that another thread, process or the kernel does.

use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for anything. No test depends on its length: the machines that run tests are shared and slow.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time for which the thread only yields between polls. Later polls are a millisecond apart.
const EAGER: Duration = Duration::from_millis(20);

/// Waits until `holds` returns true. `what` says what that means, for the failure.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// Waits until `attempt` returns a value. `what` names the value, for the failure.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, attempt).unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain: {what}"))
}

fn within<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        // The time is read first: an attempt that begins in time counts.
        let waited = start.elapsed();
        let found = attempt();
        if found.is_some() || waited > patience {
            return found;
        }
        if waited < EAGER { thread::yield_now() } else { thread::sleep(Duration::from_millis(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_the_first_success_is_returned() {
        let (start, mut polls) = (Instant::now(), 0);
        let found = wait_for("a late poll", || {
            polls += 1;
            (start.elapsed() > 2 * EAGER).then_some(polls)
        });
        assert_eq!(found, polls);
        wait_until("nothing", || true);
    }

    #[test]
    fn patience_ends() {
        let mut polls = 0;
        let found: Option<()> = within(Duration::ZERO, || {
            polls += 1;
            None
        });
        assert_eq!((found, polls > 0), (None, true));
    }
}
