//! How long a task looks for news itself.
//!
//! A task that waits is woken by the device's thread: two threads wake up for each message. So a task first looks
//! again at each turn of its executor, which runs other tasks in between. Where that was in vain the time halves, down to nothing. Where news
//! comes soon after the task gave up, the time is whole again.

use std::task::Context;
use std::time::{Duration, Instant};

/// Times below this are no use.
const LEAST: Duration = Duration::from_micros(2);

/// The rule for one direction of a stream.
#[derive(Debug)]
pub(crate) struct Attention {
    whole: Duration,
    window: Duration,
    since: Option<Instant>,
    /// The time at which the task last went to sleep.
    asleep: Option<Instant>,
}

impl Attention {
    pub(crate) fn new(whole: Duration) -> Attention {
        Attention { whole, window: whole, since: None, asleep: None }
    }

    /// There is no news: whether the task looks again. If so it will be polled.
    pub(crate) fn looks_again(&mut self, task: &Context<'_>) -> bool {
        if self.window < LEAST {
            self.since = None;
        } else if self.is_within(Instant::now()) {
            poll_soon(task);
            return true;
        }
        self.asleep = (!self.whole.is_zero()).then(Instant::now);
        false
    }

    /// There was news.
    pub(crate) fn found(&mut self) {
        let found_asleep = self.asleep.take();
        if found_asleep.is_some_and(|since| since.elapsed() < self.whole) {
            self.window = self.whole;
        }
        self.since = None;
    }

    fn is_within(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < self.window {
            return true;
        }
        self.since = None;
        self.window /= 2;
        false
    }
}

/// Lets the executor poll the task again after the others. tokio also looks at its descriptors and timers first.
#[cfg(feature = "tokio")]
fn poll_soon(task: &Context<'_>) {
    let mut turn = std::pin::pin!(tokio::task::yield_now());
    let _ = turn.as_mut().poll(&mut Context::from_waker(task.waker()));
}

#[cfg(not(feature = "tokio"))]
fn poll_soon(task: &Context<'_>) {
    task.waker().wake_by_ref();
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_stream_without_news_is_left_alone() {
        let task = Context::from_waker(Waker::noop());
        let mut attention = Attention::new(Duration::from_micros(10));
        let mut looks = 0;
        for _ in 0..20 {
            while attention.looks_again(&task) {
                looks += 1;
            }
        }
        let before = looks;
        assert!(!attention.looks_again(&task), "it went on after {before} looks");
        attention.asleep = Some(Instant::now() + Duration::from_secs(60));
        attention.found();
        assert_eq!(attention.window, attention.whole, "news came at once");
    }

    #[test]
    fn zero_turns_it_off() {
        let mut attention = Attention::new(Duration::ZERO);
        assert!(!attention.looks_again(&Context::from_waker(Waker::noop())));
        attention.found();
        assert!(!attention.looks_again(&Context::from_waker(Waker::noop())));
    }
}
