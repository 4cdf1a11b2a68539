//! A pause for other tasks, on any runtime.

use std::future::poll_fn;
use std::task::Poll;

/// Lets other tasks run once. Work that is ready at each poll would keep its thread otherwise.
pub(crate) async fn yield_turn() {
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
