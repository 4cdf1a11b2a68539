//! Where handlers run that the polling thread does not run itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use crate::service::{BoxFuture, RunOn};

/// A function that runs a future to its end, on threads of its own.
pub type Spawn = Arc<dyn Fn(BoxFuture<()>) + Send + Sync>;

/// The executor and the pool of a server.
#[derive(Clone)]
pub(crate) struct Executors {
    spawn: Spawn,
    pool: HandlerPool,
}

impl Executors {
    /// Asynchronous handlers go to `spawn`, or to the pool if there is none.
    ///
    /// # Errors
    /// If the system starts no threads.
    pub(crate) fn new(spawn: Option<Spawn>, threads: usize) -> std::io::Result<Executors> {
        let pool = HandlerPool::start(threads.max(1))?;
        let own = pool.clone();
        Ok(Executors { spawn: spawn.unwrap_or_else(|| Arc::new(move |future| own.run(future))), pool })
    }

    pub(crate) fn run(&self, on: RunOn, future: BoxFuture<()>) {
        match on {
            RunOn::Pool => self.pool.run(future),
            RunOn::Poller | RunOn::Executor => (self.spawn)(future),
        }
    }
}

/// Threads that each run one future at a time. They end with the last handle.
#[derive(Clone)]
struct HandlerPool(Sender<BoxFuture<()>>);

impl HandlerPool {
    fn start(threads: usize) -> std::io::Result<HandlerPool> {
        let (sender, receiver) = channel::<BoxFuture<()>>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new().name(format!("rpc-pool-{number}")).spawn(move || work(&receiver))?;
        }
        Ok(HandlerPool(sender))
    }

    fn run(&self, future: BoxFuture<()>) {
        // The threads outlive every handle, so there is always a receiver.
        let _ = self.0.send(future);
    }
}

fn work(receiver: &Mutex<Receiver<BoxFuture<()>>>) {
    loop {
        let next = receiver.lock().ok().and_then(|receiver| receiver.recv().ok());
        match next {
            // A handler that panics ends its call, not the thread.
            Some(future) => drop(catch_unwind(AssertUnwindSafe(|| block_on(future)))),
            None => return,
        }
    }
}

/// Runs a future in this thread.
fn block_on(mut future: BoxFuture<()>) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = Context::from_waker(&waker);
    while future.as_mut().poll(&mut task).is_pending() {
        thread::park();
    }
}
