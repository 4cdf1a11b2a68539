//! The time for which a task looks for news itself.
//!
//! A task that waits is woken by the device's thread: two threads wake up for each message. So a task first looks again
//! at each turn of its executor, which runs other tasks in between. It does so only while its stream has news often:
//! a task whose last wait was long is left to the device's thread at once.

use std::task::Context;
use std::time::{Duration, Instant};

/// News within so many times the time of looking is news that comes often.
const OFTEN: u32 = 10;

/// The rule for one direction of a stream.
#[derive(Debug)]
pub(crate) struct Attention {
    time: Duration,
    /// News has come often.
    often: bool,
    /// The time at which the task began to wait.
    since: Option<Instant>,
}

impl Attention {
    /// Looks for that time at most.
    pub(crate) fn new(time: Duration) -> Attention {
        Attention { time, often: !time.is_zero(), since: None }
    }

    /// There is no news: whether the task looks again. If so it will be polled.
    pub(crate) fn looks_again(&mut self, task: &Context<'_>) -> bool {
        if self.time.is_zero() {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let looks = self.often && since.elapsed() < self.time;
        if looks {
            poll_soon(task);
        }
        looks
    }

    /// There was news.
    pub(crate) fn found(&mut self) {
        if let Some(since) = self.since.take() {
            self.often = since.elapsed() < self.time * OFTEN;
        }
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

    const LONG: Duration = Duration::from_secs(3600);

    fn looks(attention: &mut Attention) -> bool {
        attention.looks_again(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_stream_with_little_news_is_left_alone() {
        let mut attention = Attention::new(Duration::from_nanos(1));
        while looks(&mut attention) {}
        std::thread::sleep(Duration::from_millis(1));
        attention.found();
        assert!(!attention.often && !looks(&mut attention));
    }

    #[test]
    fn news_that_comes_often_is_looked_for() {
        let mut attention = Attention { often: false, ..Attention::new(LONG) };
        assert!(!looks(&mut attention));
        attention.found();
        assert!(looks(&mut attention));
        attention.found();
        assert!(looks(&mut attention));
    }

    #[test]
    fn zero_turns_it_off() {
        let mut attention = Attention::new(Duration::ZERO);
        assert!(!looks(&mut attention));
        attention.found();
        assert!(!looks(&mut attention));
    }
}
