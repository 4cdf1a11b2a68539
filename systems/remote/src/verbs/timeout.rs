//! A future with a time limit, for any runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_timer::Delay;

/// The output of a future; `None` if it takes longer. One that is ready at once needs no timer.
pub(crate) async fn within<F: Future>(timeout: Duration, future: F) -> Option<F::Output> {
    let (mut future, mut timer) = (pin!(future), None);
    poll_fn(|task| {
        if let Poll::Ready(output) = future.as_mut().poll(task) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| Delay::new(timeout));
        pin!(timer).poll(task).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endless_future_ends_in_time_and_a_ready_one_is_taken() {
        assert_eq!(within(Duration::from_millis(1), std::future::pending::<()>()).await, None);
        assert_eq!(within(Duration::ZERO, async { 7 }).await, Some(7));
        let late = async {
            Delay::new(Duration::from_millis(1)).await;
            8
        };
        assert_eq!(within(Duration::from_secs(60), late).await, Some(8));
    }
}
