//! Searches that many tasks begin on one queue pair.

use std::future::Future;
use std::ops::Deref;
use std::time::{Duration, Instant};

use async_lock::Semaphore;
use futures_timer::Delay;
use longarm::error::{PostError, WorkError};
use longarm::{Buffer, Failure, ProtectionDomain, QueuePair, RemoteKey};
use parking_lot::Mutex;

use crate::cache::LocationCache;
use crate::layout::TableLayout;
use crate::local::LookupError;
use crate::lookup::{FoundObject, KeyLookup, LookupStep, ReadRequest};
use crate::object::TornCheck;
use crate::tree::TreeLookup;
use crate::verbs::lane_read::{LaneRead, read_at_once};
use crate::verbs::lanes::{BUFFER_BYTES, LaneSearch};
use crate::verbs::timeout::within;
use crate::verbs::{ReadError, ReaderOptions, ReaderStats};

/// The pause of a search that finds writers in between each time, or a full queue.
pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// A search whose shared copies lie behind a lock.
pub(crate) trait TaskSearch: LaneSearch {
    /// Does something with the copies.
    fn with<R>(copies: &Mutex<Self::Shared>, work: impl FnOnce(&mut Self::Shared) -> R) -> R;
}

/// Tables have no copies, so their searches take no lock while they check long values.
impl<L: TableLayout, C: TornCheck> TaskSearch for KeyLookup<L, C> {
    fn with<R>(_: &Mutex<()>, work: impl FnOnce(&mut ()) -> R) -> R {
        work(&mut ())
    }
}

impl<C: TornCheck> TaskSearch for TreeLookup<C> {
    fn with<R>(copies: &Mutex<Self::Shared>, work: impl FnOnce(&mut Self::Shared) -> R) -> R {
        work(&mut copies.lock())
    }
}

/// A search that no task has now, and its buffer.
struct IdleLane<S> {
    search: S,
    buffer: Option<Buffer>,
}

/// The things that searches leave for the next ones.
pub(super) struct LaneState<S: LaneSearch> {
    pub(super) root: Option<S::Root>,
    cache: LocationCache,
    idle: Vec<IdleLane<S>>,
    /// Buffers of READs that are no lookups, between two of them.
    pub(super) spare: Vec<Buffer>,
    pub(super) stats: ReaderStats,
}

/// The searches of a reader that many tasks share.
pub(crate) struct SharedLanes<Q, S: LaneSearch> {
    pub(super) qp: Q,
    pub(super) domain: ProtectionDomain,
    pub(super) key: RemoteKey,
    pub(super) options: ReaderOptions,
    pub(super) copies: Mutex<S::Shared>,
    pub(super) state: Mutex<LaneState<S>>,
    room: Semaphore,
}

impl<Q: Deref<Target = QueuePair>, S: TaskSearch> SharedLanes<Q, S> {
    pub(crate) fn new(qp: Q, key: RemoteKey, options: ReaderOptions, copies: S::Shared) -> Self {
        let cache = LocationCache::new(options.locations);
        SharedLanes {
            domain: qp.protection_domain().clone(),
            qp,
            key,
            copies: Mutex::new(copies),
            state: Mutex::new(LaneState {
                root: None,
                cache,
                idle: Vec::new(),
                spare: Vec::new(),
                stats: ReaderStats::default(),
            }),
            room: Semaphore::new(options.outstanding.max(1)),
            options,
        }
    }

    pub(crate) fn stats(&self) -> ReaderStats {
        self.state.lock().stats
    }

    /// Looks a key up, and gives its object to `take`.
    ///
    /// A task that is dropped meanwhile leaves nothing behind: the device keeps the buffer until its READ has ended.
    pub(crate) async fn get<T>(
        &self,
        key: &[u8],
        take: impl FnOnce(Option<FoundObject<'_>>) -> T,
    ) -> Result<T, ReadError> {
        let _room = self.room.acquire().await;
        let mut lane = self.idle_lane();
        let mut wanted = self.start(&mut lane.search, key)?;
        let mut busy_since: Option<Instant> = None;
        let (answer, place) = loop {
            let buffer = self.read(lane.buffer.take(), wanted, lane.search.object_lock()).await?;
            let step = S::with(&self.copies, |copies| lane.search.feed(key, &buffer, copies));
            match step {
                LookupStep::Found(found) => {
                    let location = found.location;
                    let answer = take(Some(found));
                    lane.buffer = Some(buffer);
                    break (answer, Some(location));
                }
                LookupStep::Absent => {
                    lane.buffer = Some(buffer);
                    break (take(None), None);
                }
                LookupStep::Read(next) => wanted = next,
                LookupStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                LookupStep::Busy => {
                    if busy_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience {
                        return Err(LookupError::Busy.into());
                    }
                    self.state.lock().stats.busy += 1;
                    Delay::new(PAUSE).await;
                    wanted = self.start(&mut lane.search, key)?;
                }
            }
            lane.buffer = Some(buffer);
        };
        let mut state = self.state.lock();
        state.root = lane.search.root();
        if let Some(tag) = lane.search.tag_of(key) {
            match place {
                Some(location) => state.cache.put(tag, location),
                None => state.cache.forget(tag),
            }
        }
        state.idle.push(lane);
        Ok(answer)
    }

    fn idle_lane(&self) -> IdleLane<S> {
        let mut state = self.state.lock();
        state.stats.lookups += 1;
        let lane = state.idle.pop();
        lane.unwrap_or_else(|| IdleLane { search: S::create(self.key.len_bytes()), buffer: None })
    }

    fn start(&self, search: &mut S, key: &[u8]) -> Result<ReadRequest, ReadError> {
        let mut state = self.state.lock();
        if let Some(root) = state.root {
            search.learn(root);
        }
        let remembered = search.tag_of(key).and_then(|tag| state.cache.get(tag));
        drop(state);
        match S::with(&self.copies, |copies| search.start(key, remembered, copies)) {
            LookupStep::Read(wanted) => Ok(wanted),
            LookupStep::OtherFormat => Err(LookupError::OtherFormat.into()),
            _ => Err(LookupError::Busy.into()),
        }
    }

    /// READs plain bytes, in turn with the lookups.
    pub(super) async fn read_one(&self, wanted: ReadRequest) -> Result<Buffer, ReadError> {
        let _room = self.room.acquire().await;
        let spare = self.state.lock().spare.pop();
        self.read(spare, wanted, None).await
    }

    /// READs into this buffer if it is long enough. Searches that were dropped may still fill the queue: then it waits.
    async fn read(&self, buffer: Option<Buffer>, wanted: ReadRequest, lock: Option<u64>) -> Result<Buffer, ReadError> {
        let from = self.key.at(wanted.at, wanted.len_bytes)?;
        let (len_bytes, began) = (wanted.len_bytes as usize, Instant::now());
        let mut buffer = match buffer.filter(|buffer| buffer.capacity() >= len_bytes) {
            Some(buffer) => buffer,
            None => self.domain.allocate(len_bytes.max(BUFFER_BYTES))?,
        };
        self.state.lock().stats.reads += 1;
        buffer.set_len(len_bytes);
        if read_at_once(&self.qp, &from, lock, &mut buffer) {
            return Ok(buffer);
        }
        loop {
            buffer.set_len(len_bytes);
            let failure = match self.in_time(LaneRead::start(&self.qp, buffer, &from, lock).done()).await? {
                Ok(buffer) => return Ok(buffer),
                Err(failure) => failure,
            };
            let is_full = matches!(failure.error(), WorkError::NotPosted(PostError::QueueFull { .. }));
            if !is_full || began.elapsed() > self.options.timeout {
                return Err(failure.into_error().into());
            }
            Delay::new(PAUSE).await;
            buffer = self.domain.allocate(len_bytes.max(BUFFER_BYTES))?;
        }
    }

    async fn in_time(
        &self,
        read: impl Future<Output = Result<Buffer, Failure>>,
    ) -> Result<Result<Buffer, Failure>, WorkError> {
        let timeout = self.options.timeout;
        within(timeout, read).await.ok_or(WorkError::TimedOut(timeout))
    }
}
