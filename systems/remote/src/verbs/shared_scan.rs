//! Scans of a tree as futures, on the queue pair that tasks share.

use std::ops::Deref;
use std::time::Instant;

use futures_timer::Delay;
use futures_util::future::try_join_all;
use longarm::QueuePair;

use crate::local::LookupError;
use crate::object::TornCheck;
use crate::tree::{KeyRange, ScanItem, ScanStep, TreeLookup, TreeScan};
use crate::verbs::ReadError;
use crate::verbs::lanes::BUFFER_BYTES;
use crate::verbs::shared_lanes::{PAUSE, SharedLanes};
use crate::verbs::turn::yield_turn;

/// Steps after which other tasks have their turn, where each READ is done at once.
const STEPS: usize = 32;

impl<Q: Deref<Target = QueuePair>, C: TornCheck> SharedLanes<Q, TreeLookup<C>> {
    /// Tells at most `limit` keys of a range. A scan that is dropped leaves nothing behind.
    pub(super) async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        mut each: impl FnMut(ScanItem<'_>),
    ) -> Result<(), ReadError> {
        let mut scan = TreeScan::<C>::new(self.key.len_bytes(), self.options.outstanding);
        if let Some(root) = self.state.lock().root {
            scan.learn(root);
        }
        let (mut busy_since, mut steps) = (None::<Instant>, 0);
        let mut step = scan.start(range, limit, &mut self.copies.lock());
        loop {
            match step {
                ScanStep::Reads => self.read_wanted(&mut scan).await?,
                ScanStep::Items => {
                    scan.items().for_each(&mut each);
                    busy_since = None;
                }
                ScanStep::Done => break,
                ScanStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                ScanStep::Busy if busy_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience => {
                    return Err(LookupError::Busy.into());
                }
                ScanStep::Busy => {
                    self.state.lock().stats.busy += 1;
                    Delay::new(PAUSE).await;
                }
            }
            steps += 1;
            if steps % STEPS == 0 {
                yield_turn().await;
            }
            step = scan.advance(&mut self.copies.lock());
        }
        self.state.lock().root = scan.root();
        Ok(())
    }

    /// Carries the READs of a step out, several at a time.
    async fn read_wanted(&self, scan: &mut TreeScan<C>) -> Result<(), ReadError> {
        let (count, width) = (scan.reads().len(), self.options.outstanding.max(1));
        for first in (0..count).step_by(width) {
            let wanted = first..count.min(first + width);
            let reads: Vec<_> = wanted.clone().map(|number| self.read_one(scan.reads()[number])).collect();
            let buffers = try_join_all(reads).await?;
            for (number, buffer) in wanted.zip(&buffers) {
                scan.feed(number, buffer);
            }
            let spare = &mut self.state.lock().spare;
            spare.extend(buffers.into_iter().filter(|buffer| buffer.capacity() <= BUFFER_BYTES));
            spare.truncate(width);
        }
        Ok(())
    }
}
