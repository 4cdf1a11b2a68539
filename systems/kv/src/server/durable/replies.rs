//! Replies that wait for the disk.
//!
//! With `--fsync always` a handler runs at once, on the polling thread. Its reply says something about changes that may not be
//! on disk yet, its own or those of others. So it waits until the log is synced that far. The polling thread goes on, and one
//! sync serves all who wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Wake, Waker};
use std::thread;

use journal::Journal;
use longarm_rpc::{BoxFuture, Executed, Method, Methods, Response, RunOn, Status};
use parking_lot::Mutex;

use crate::server::durable::table_log::unknown;

/// Adds a method whose reply waits for the disk.
pub(crate) fn deferred(
    methods: Methods,
    method: Method,
    journal: &Arc<Journal>,
    handler: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync + 'static,
) -> Methods {
    let journal = Arc::clone(journal);
    methods.asynchronous(method, RunOn::Poller, move |request| {
        let mut reply = Vec::new();
        let done = handler(request.get_ref(), &mut reply);
        // Everything that the handler can have seen has this number at most. A refusal says nothing about values.
        let is_refused = done.as_ref().is_err_and(|status| status.executed() == Executed::No);
        let (journal, number) = (Arc::clone(&journal), if is_refused { 0 } else { journal.appended() });
        async move {
            poll_fn(|context| journal.poll_durable(number, context)).await.map_err(|error| unknown(&error))?;
            done.map(|()| Response::new(reply.into()))
        }
    })
}

/// Waits in this thread until everything is on disk that was appended by now.
pub(crate) fn wait_for_disk(journal: &Journal) -> Result<(), Status> {
    journal.wait(journal.appended()).map_err(|error| unknown(&error))
}

/// A function that runs futures, all in one thread: they only wait for the disk. The thread ends with the function.
pub(crate) fn executor() -> std::io::Result<impl Fn(BoxFuture<()>) + Send + Sync + 'static> {
    let (sender, receiver) = channel::<Arc<ReplyTask>>();
    thread::Builder::new().name("kv-replies".into()).spawn(move || {
        while let Ok(task) = receiver.recv() {
            task.poll();
        }
    })?;
    Ok(move |future: BoxFuture<()>| {
        let task = ReplyTask { future: Mutex::new(Some(future)), again: sender.clone() };
        // The waker hands the task over each time that it can go on; this is the first time.
        Arc::new(task).wake();
    })
}

/// A reply that waits.
struct ReplyTask {
    future: Mutex<Option<BoxFuture<()>>>,
    again: Sender<Arc<ReplyTask>>,
}

impl ReplyTask {
    fn poll(self: &Arc<Self>) {
        let mut future = self.future.lock();
        let waker = Waker::from(Arc::clone(self));
        let is_done =
            future.as_mut().is_some_and(|future| Pin::new(future).poll(&mut Context::from_waker(&waker)).is_ready());
        if is_done {
            *future = None;
        }
    }
}

impl Wake for ReplyTask {
    fn wake(self: Arc<Self>) {
        // The thread has ended with the server.
        let _ = self.again.send(Arc::clone(&self));
    }
}
