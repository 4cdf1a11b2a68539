//! Calls that block, on threads of their own: name resolution, and the connection managers of other providers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// Threads at most. Further calls wait until one is free.
const THREADS: usize = 64;
/// The time for which a forked child waits for a lock that its parent may have held at the fork.
const FORK_WAIT: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

static POOL: Mutex<Pool> = Mutex::new(Pool { pid: 0, threads: 0, jobs: VecDeque::new() });

struct Pool {
    pid: u32,
    threads: usize,
    jobs: VecDeque<Job>,
}

/// The pending result of a call that runs on another thread. Dropping it drops the result when it comes.
pub(crate) struct BlockingCall<T> {
    pid: u32,
    shared: Arc<Mutex<Shared<T>>>,
}

struct Shared<T> {
    result: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

/// The calling thread is in another process than the one that called.
#[derive(Debug)]
pub(crate) struct ForkedSince;

impl<T: Send + 'static> BlockingCall<T> {
    /// Runs `call` on another thread; on this one, if the system has no thread left.
    pub(crate) fn run(call: impl FnOnce() -> T + Send + 'static) -> BlockingCall<T> {
        let shared = Arc::new(Mutex::new(Shared { result: None, waker: None }));
        let place = Arc::clone(&shared);
        submit(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(call));
            let waker = {
                let mut shared = place.lock();
                shared.result = Some(result);
                shared.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
        BlockingCall { pid: std::process::id(), shared }
    }

    /// True once the result is there, until it is taken.
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.shared.lock().result.is_some()
    }

    /// The result, once. A panic of the call goes on here.
    pub(crate) fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<T, ForkedSince>> {
        if self.pid != std::process::id() {
            return Poll::Ready(Err(ForkedSince));
        }
        let mut shared = self.shared.lock();
        match shared.result.take() {
            Some(Ok(result)) => Poll::Ready(Ok(result)),
            Some(Err(panic)) => resume_unwind(panic),
            None => {
                shared.waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn submit(job: Job) {
    let Some(mut pool) = POOL.try_lock_for(FORK_WAIT) else { return job() };
    if pool.pid != std::process::id() {
        // The parent's calls run in the parent.
        let before = std::mem::replace(&mut *pool, Pool { pid: std::process::id(), threads: 0, jobs: VecDeque::new() });
        std::mem::forget(before);
    }
    pool.jobs.push_back(job);
    if pool.threads == THREADS {
        return;
    }
    pool.threads += 1;
    drop(pool);
    if guest::spawn("longarm-resolve", work).is_err() {
        work();
    }
}

/// A thread's life: it ends when nothing is left to do.
fn work() {
    loop {
        let mut pool = POOL.lock();
        let Some(job) = pool.jobs.pop_front() else {
            pool.threads -= 1;
            return;
        };
        drop(pool);
        job();
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::mpsc::{Sender, channel};

    use parking_lot::MutexGuard;

    use super::*;

    static ONE: Mutex<()> = Mutex::new(());

    /// All threads of the pool are busy until this is dropped.
    pub(crate) struct AllThreadsBusy {
        _end: Sender<()>,
        _one: MutexGuard<'static, ()>,
    }

    impl AllThreadsBusy {
        pub(crate) fn begin() -> AllThreadsBusy {
            let one = ONE.lock();
            let (end, wait) = channel();
            let wait = Arc::new(Mutex::new(wait));
            let occupy = |_| {
                let (wait, (begun, begins)) = (Arc::clone(&wait), channel());
                let call = BlockingCall::run(move || {
                    // The test waits for it.
                    let _ = begun.send(());
                    // It fails when the other end is dropped.
                    let _ = wait.lock().recv();
                });
                begins.recv().expect("the thread begins");
                call
            };
            // Dropping a call drops its result.
            (0..THREADS).map(occupy).for_each(drop);
            AllThreadsBusy { _end: end, _one: one }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::park;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn more_calls_than_threads_all_return() {
        let calls: Vec<_> = (0..3 * THREADS).map(|number| BlockingCall::run(move || number * 2)).collect();
        for (number, mut call) in calls.into_iter().enumerate() {
            assert_eq!(park(PATIENCE, |task| call.poll(task)).unwrap().unwrap(), number * 2);
        }
    }

    #[test]
    fn a_panic_goes_on_in_the_caller_and_harms_no_other() {
        let mut failing = BlockingCall::run(|| -> u32 { panic!("on purpose") });
        let caught = catch_unwind(AssertUnwindSafe(|| park(PATIENCE, |task| failing.poll(task)).is_some()));
        assert!(caught.is_err());
        let mut next = BlockingCall::run(|| 7);
        assert_eq!(park(PATIENCE, |task| next.poll(task)).unwrap().unwrap(), 7);
    }

    #[test]
    fn a_result_that_nobody_takes_is_dropped() {
        let witness = Arc::new(());
        let given = Arc::clone(&witness);
        drop(BlockingCall::run(move || given));
        testkit::wait_until("the result is dropped", || Arc::strong_count(&witness) == 1);
    }
}
