//! Time limits and pauses for any runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_timer::Delay;

/// The output of a future; `None` if it is not ready by `until`. One that is ready at once needs no timer.
pub(super) async fn by<F: Future>(until: Instant, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), None);
    poll_fn(|task| {
        if let Poll::Ready(output) = future.as_mut().poll(task) {
            return Poll::Ready(Some(output));
        }
        let left = || Delay::new(until.saturating_duration_since(Instant::now()));
        pin!(timer.get_or_insert_with(left)).poll(task).map(|()| None)
    })
    .await
}

/// Waits, if the pause ends before `until`. Returns false otherwise.
pub(super) async fn pause(pause: Duration, until: Instant) -> bool {
    let is_early = Instant::now() + pause < until;
    if is_early {
        Delay::new(pause).await;
    }
    is_early
}

/// Lets other tasks run once. Work that is ready at each poll would keep its thread otherwise.
pub(super) async fn yield_turn() {
    let mut has_yielded = false;
    poll_fn(|task| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_future_ends_in_time_and_a_pause_does_not_pass_the_limit() {
        let soon = Instant::now() + Duration::from_millis(1);
        assert_eq!(pollster::block_on(by(soon, std::future::pending::<()>())), None);
        assert_eq!(pollster::block_on(by(soon, async { 7 })), Some(7));
        assert!(!pollster::block_on(pause(Duration::from_secs(60), soon)));
        assert!(pollster::block_on(pause(Duration::ZERO, Instant::now() + Duration::from_secs(60))));
    }
}
