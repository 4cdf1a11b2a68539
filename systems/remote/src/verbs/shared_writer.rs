//! Updates by tasks that may be dropped, on a connection that may end: a copy first, then lock, WRITE, unlock.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_lock::{Mutex, MutexGuardArc};
use longarm::error::WorkError;
use longarm::{Buffer, Failure, QueuePair};

use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::{FoundObject, KeyLookup};
use crate::object::TornCheck;
use crate::update::OneSidedUpdate;
use crate::verbs::alone_write::{AloneLink, AloneLock};
use crate::verbs::shared_lanes::SharedLanes;
use crate::verbs::shared_reader::SharedTableReader;
use crate::verbs::timeout::within;
use crate::verbs::to_the_end::ToTheEnd;
use crate::verbs::writer::{after_lookup, target_of};
use crate::verbs::{AloneError, AloneOutcome, ReadError, WriterPass};

/// The one update that is under way, and what it leaves for the next one.
pub(super) struct SharedUpdate<C> {
    update: OneSidedUpdate<C>,
    spare: Option<Buffer>,
}

impl<C: TornCheck> SharedUpdate<C> {
    pub(super) fn new() -> Arc<Mutex<SharedUpdate<C>>> {
        Arc::new(Mutex::new(SharedUpdate { update: OneSidedUpdate::new(), spare: None }))
    }
}

type Lanes<Q, L, C> = SharedLanes<Q, KeyLookup<L, C>>;

impl<Q, L, C> SharedTableReader<Q, L, C>
where
    Q: Deref<Target = QueuePair> + Send + Sync + 'static,
    L: TableLayout + Send + Sync + 'static,
    C: TornCheck + Send + Sync + 'static,
{
    /// Gives a present key a new value, once, as [`TableReader::update_alone`](crate::TableReader::update_alone) does. A
    /// connection has one block for copies, so one update is under way at a time, and further ones wait.
    ///
    /// A future that is dropped before it has the lock changes nothing, or completes its change: once its requests are posted, it
    /// goes on to its end without the task, by a thread of its own where it has to wait. So no dropped task leaves a lock.
    ///
    /// # Errors
    /// See [`AloneError`]. The connection is good for nothing then.
    pub async fn update_alone(
        &self,
        key: &[u8],
        pass: &WriterPass,
        mut value_of: impl FnMut(&FoundObject<'_>, &mut Vec<u8>) -> bool,
    ) -> Result<AloneOutcome, AloneError> {
        let (mut target, mut value) = (None, Vec::new());
        let take = |found: Option<FoundObject<'_>>| target = target_of(found, pass, &mut value_of, &mut value);
        let looked = self.lanes.get(key, take).await;
        let place = match after_lookup(looked, target)? {
            Ok(place) => place,
            Err(outcome) => return Ok(outcome),
        };
        let mut writing = self.writing.lock_arc().await;
        let root = self.lanes.state.lock().root;
        let root = root.ok_or_else(|| AloneError::NotBegun(LookupError::Busy.into()))?;
        let SharedUpdate { update, spare } = &mut *writing;
        // From here to `ToTheEnd` nothing is awaited, so no task can be dropped in between.
        match link(&self.lanes).begin(update, (&root, place), (key, &value), pass, spare)? {
            Ok(lock) => ToTheEnd::new(complete(Arc::clone(&self.lanes), writing, lock)).await,
            Err(outcome) => Ok(outcome),
        }
    }
}

fn link<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck>(lanes: &Lanes<Q, L, C>) -> AloneLink<'_> {
    AloneLink { qp: &lanes.qp, domain: &lanes.domain, key: lanes.key }
}

/// Waits for the lock, and writes the object. A connection that fails in between is ended: nothing of it comes late.
async fn complete<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck>(
    lanes: Arc<Lanes<Q, L, C>>,
    writing: MutexGuardArc<SharedUpdate<C>>,
    lock: AloneLock,
) -> Result<AloneOutcome, AloneError> {
    let done = carry_out(&lanes, writing, lock).await;
    if done.is_err() {
        let _ = lanes.qp.abort();
    }
    done
}

async fn carry_out<Q: Deref<Target = QueuePair>, L: TableLayout, C: TornCheck>(
    lanes: &Lanes<Q, L, C>,
    mut writing: MutexGuardArc<SharedUpdate<C>>,
    lock: AloneLock,
) -> Result<AloneOutcome, AloneError> {
    let (timeout, (word, body_to)) = (lanes.options.timeout, lock.places());
    let before = in_time(timeout, lock.swap).await?;
    let mut buffer = in_time(timeout, lock.copy.done()).await?;
    let Some(unlock) = link(lanes).write(&writing.update, (&word, &body_to), before, &mut buffer)? else {
        writing.spare = buffer;
        return Ok(AloneOutcome::Contended);
    };
    in_time(timeout, unlock.unlocked).await?;
    writing.spare = in_time(timeout, unlock.body.done()).await?;
    Ok(AloneOutcome::Updated(unlock.header))
}

async fn in_time<T>(timeout: Duration, request: impl Future<Output = Result<T, Failure>>) -> Result<T, AloneError> {
    let failed = |error: WorkError| AloneError::Unknown(ReadError::Link(error));
    match within(timeout, request).await {
        None => Err(failed(WorkError::TimedOut(timeout))),
        Some(done) => done.map_err(|failure| failed(failure.into_error())),
    }
}
