//! Answers that wait for backups.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use cluster::HashSlot;
use longarm_rpc::{Executed, Method, Methods, Response, RunOn, Status};

use crate::server::replication::core::{Replication, take_changed};
use crate::server::slots::key_of;

/// Adds a method whose answer leaves when everything that it can have seen is with all backups.
pub(crate) fn deferred(
    methods: Methods,
    method: Method,
    replication: &Arc<Replication>,
    handler: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), Status> + Send + Sync + 'static,
) -> Methods {
    let replication = Arc::clone(replication);
    methods.asynchronous(method, RunOn::Poller, move |request| {
        let (mut reply, replication) = (Vec::new(), Arc::clone(&replication));
        let key = key_of(method, request.get_ref());
        let done = key.and_then(|key| guarded(&replication, key, || handler(request.get_ref(), &mut reply)));
        async move {
            let (number, done) = done?;
            poll_fn(|context| replication.poll_settled(number, context)).await?;
            done.map(|()| Response::new(reply.into()))
        }
    })
}

/// Runs a handler for a key that this member serves. Returns the number that its answer has to wait for, and its outcome.
pub(crate) fn guarded<T>(
    replication: &Replication,
    key: Option<&[u8]>,
    handler: impl FnOnce() -> Result<T, Status>,
) -> Result<(u64, Result<T, Status>), Status> {
    let Some(slot) = key.map(HashSlot::of_key) else {
        let done = handler();
        return Ok((replication.last(), done));
    };
    let tenure = replication.admit(slot)?;
    take_changed();
    let done = handler();
    let changed = take_changed();
    if done.as_ref().is_err_and(|status| status.executed() == Executed::No) {
        // A refusal says nothing about values.
        return Ok((0, done));
    }
    // A change was made by the primary, under the table's lock. The next primary has it, when it is with all backups.
    let number = changed.map_or_else(|| replication.conclude(slot, tenure), Ok)?;
    Ok((number, done))
}

/// Waits in this thread until everything up to this number is with all backups.
pub(crate) fn settled(replication: &Replication, number: u64) -> Result<(), Status> {
    let waker = Waker::from(Arc::new(ReplyThreadWaker(std::thread::current())));
    loop {
        match replication.poll_settled(number, &mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

struct ReplyThreadWaker(Thread);

impl Wake for ReplyThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
