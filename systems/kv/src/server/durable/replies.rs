//! Replies that wait for the disk.
//!
//! With `--fsync always` a handler runs at once, on the polling thread. Its reply says something about changes that may not be
//! on disk yet, its own or those of others. So it waits until the log is synced that far. The polling thread goes on, and one
//! sync serves all who wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use journal::Journal;
use longarm_rpc::{BoxFuture, Executed, Method, Methods, Response, RunOn, Status};
use parking_lot::Mutex;

use crate::protocol::{GET, GetReply, decode};
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
        // A refusal says nothing about values.
        let is_refused = done.as_ref().is_err_and(|status| status.executed() == Executed::No);
        let appended = journal.appended();
        let number = if is_refused { 0 } else { last_seen(method, &reply).unwrap_or(appended).min(appended) };
        let journal = Arc::clone(&journal);
        async move {
            poll_fn(|context| journal.poll_durable(number, context)).await.map_err(|error| unknown(&error))?;
            done.map(|()| Response::new(reply.into()))
        }
    })
}

/// The number of the last change that a reply tells of. `None`: any that was appended by now. An absent key is of this kind: the change that
/// removed it has left no number.
fn last_seen(method: Method, reply: &[u8]) -> Option<u64> {
    let is_get = method == GET;
    let (GetReply { found, .. }, _) = is_get.then(|| decode(reply).ok()).flatten()?;
    found.map(|found| found.version.stamp())
}

/// Waits in this thread until everything is on disk that was appended by now.
pub(crate) fn wait_for_disk(journal: &Journal) -> Result<(), Status> {
    journal.wait(journal.appended()).map_err(|error| unknown(&error))
}

/// Runs a reply that waits: polls it here, and then in the thread that wakes it, which is the log's. The polls are short, since all
/// that a reply waits for is the disk.
pub(crate) fn run_reply(reply: BoxFuture<()>) {
    Arc::new(ReplyTask(Mutex::new(Some(reply)))).wake();
}

/// A reply that waits.
struct ReplyTask(Mutex<Option<BoxFuture<()>>>);

impl Wake for ReplyTask {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        // The log wakes with none of its locks held. It may come before the first poll has returned, and then waits here.
        let mut reply = self.0.lock();
        let poll = |reply: &mut BoxFuture<()>| reply.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if reply.as_mut().is_some_and(poll) {
            *reply = None;
        }
    }
}
