//! Work that goes on to its end when the task that began it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use parking_lot::Mutex;

/// A future that is polled to its end, whoever drops it: a thread of its own does the rest then. Its owner polls it otherwise, so a
/// future that is never dropped early costs no thread.
pub(super) struct ToTheEnd<T: 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> ToTheEnd<T> {
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> ToTheEnd<T> {
        ToTheEnd(Some(Box::pin(work)))
    }
}

impl<T> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let done = work.as_mut().poll(task);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        let Some(work) = self.0.take() else { return };
        // If the system has no thread left, this one does it.
        let work = Arc::new(Mutex::new(Some(work)));
        let rest = Arc::clone(&work);
        let run = move || drop(rest.lock().take().map(finish));
        if thread::Builder::new().name("remote-finish".into()).spawn(run).is_err() {
            drop(work.lock().take().map(finish));
        }
    }
}

/// Polls to the end. The work has time limits of its own.
fn finish<T>(mut work: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut task) {
            return done;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_timer::Delay;

    use super::*;

    #[tokio::test]
    async fn work_ends_in_its_task_or_without_it() {
        let (ended, end) = std::sync::mpsc::channel();
        let work = |number: u32| {
            let ended = ended.clone();
            ToTheEnd::new(async move {
                Delay::new(Duration::from_millis(5)).await;
                ended.send(number).unwrap();
                number
            })
        };
        assert_eq!(work(1).await, 1);
        let mut second = work(2);
        assert!(Pin::new(&mut second).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(second);
        // One that was never polled, too.
        drop(work(3));
        let mut all: Vec<u32> = end.iter().take(3).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    }
}
