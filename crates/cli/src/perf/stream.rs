//! Bandwidth and message rate: as many outstanding messages as the depth allows, for a time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use device::{Completion, SendFlags};

use super::credits::{CreditGiver, CreditTaker};
use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::Test;
use super::work::{half_bytes, work_request};
use crate::error::Error;

/// Completions per poll.
const POLLED: usize = 64;
/// The longest wait for outstanding messages at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The warm-up takes the stream's duration divided by this number: queues take memory when they are first used,
/// and all queue pairs begin at once.
const WARM_UP: u32 = 4;

/// The messages that a stream carried.
#[derive(Clone, Copy, Default)]
pub(super) struct StreamResult {
    /// All messages.
    pub(super) messages: u64,
    /// The messages that completed while the clock ran.
    pub(super) counted: u64,
    /// The time on the clock.
    pub(super) elapsed: Duration,
}

impl StreamResult {
    /// Messages per second while the clock ran, if `arrived` of all messages arrived.
    pub(super) fn rate(&self, arrived: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if self.messages == 0 || seconds == 0.0 {
            return 0.0;
        }
        arrived as f64 * (self.counted as f64 / self.messages as f64) / seconds
    }

    /// The sum over several threads that ran at once.
    pub(super) fn together(each: &[StreamResult]) -> StreamResult {
        each.iter().fold(StreamResult::default(), |all, one| StreamResult {
            messages: all.messages + one.messages,
            counted: all.counted + one.counted,
            elapsed: all.elapsed.max(one.elapsed),
        })
    }
}

/// Sends the messages of a thread's queue pairs.
struct LoadSender<'a> {
    endpoints: &'a Endpoints,
    peers: &'a [EndpointInfo],
    test: &'a Test,
    /// Work requests per doorbell; the last of them is signaled.
    batch: u32,
    outstanding: Vec<u32>,
    /// Where messages wait for the receiver's buffers.
    credits: Option<CreditTaker<'a>>,
    /// Completed messages.
    messages: u64,
    /// Whether completed messages are followed by new ones.
    refills: bool,
}

/// Warms up, sends for the duration of the test, then waits for outstanding messages. If `by_address`, messages wait for
/// the receiver's credits.
pub(super) fn client(
    endpoints: &Endpoints,
    peers: &[EndpointInfo],
    test: &Test,
    by_address: bool,
) -> Result<StreamResult, Error> {
    let batch = (test.depth / 4).clamp(1, 32);
    let outstanding = vec![0; endpoints.qps.len()];
    let credits = (by_address && test.op.uses_recv()).then(|| CreditTaker::new(endpoints, test));
    let mut sender = LoadSender { endpoints, peers, test, batch, outstanding, credits, messages: 0, refills: true };
    let start = Instant::now();
    (0..endpoints.qps.len()).try_for_each(|index| sender.fill(index))?;
    sender.work_until(start + test.duration() / WARM_UP)?;
    let (early, start) = (sender.messages, Instant::now());
    sender.work_until(start + test.duration())?;
    let (counted, elapsed) = (sender.messages - early, start.elapsed());
    sender.finish()?;
    Ok(StreamResult { messages: sender.messages, counted, elapsed })
}

impl LoadSender<'_> {
    /// Fills a queue pair up to the depth, or as far as credits go.
    fn fill(&mut self, index: usize) -> Result<(), Error> {
        while self.outstanding[index] + self.batch <= self.test.depth {
            if self.credits.as_mut().is_some_and(|credits| !credits.take(index, self.batch)) {
                break;
            }
            self.post(index)?;
        }
        Ok(())
    }

    /// Polls completions and posts as many messages again.
    fn work_until(&mut self, end: Instant) -> Result<(), Error> {
        let mut completions = Vec::with_capacity(POLLED);
        while Instant::now() < end {
            self.step(&mut completions)?;
        }
        Ok(())
    }

    /// Waits for outstanding messages.
    fn finish(&mut self) -> Result<(), Error> {
        self.refills = false;
        let (start, mut completions) = (Instant::now(), Vec::with_capacity(POLLED));
        while self.outstanding.iter().any(|n| *n > 0) {
            self.step(&mut completions)?;
            if start.elapsed() > PATIENCE {
                return Err(Error::Silence(PATIENCE));
            }
        }
        Ok(())
    }

    fn step(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.endpoints.send_cq.poll(completions, POLLED)?;
        for completion in completions.drain(..) {
            let index = self.endpoints.check(completion)?.wr_id as usize;
            self.outstanding[index] -= self.batch;
            self.messages += u64::from(self.batch);
            if self.refills {
                self.fill(index)?;
            }
        }
        // Credits may have come to a queue pair that has nothing outstanding.
        if self.refills && self.credits.is_some() {
            (0..self.outstanding.len()).try_for_each(|index| self.fill(index))?;
        }
        Ok(())
    }

    fn post(&mut self, index: usize) -> Result<(), Error> {
        let (test, peer) = (self.test, &self.peers[index]);
        let wrs = (1..=self.batch).map(|n| {
            let flags = if n == self.batch { SendFlags::SIGNALED } else { SendFlags::empty() };
            let mut wr = work_request(self.endpoints, peer, test.op, test.size_bytes, flags);
            wr.wr_id = index as u64;
            wr
        });
        self.endpoints.qps[index].post_send(wrs)?;
        self.outstanding[index] += self.batch;
        Ok(())
    }
}

/// Posts receives in advance, for each queue pair.
pub(super) fn prepare(endpoints: &Endpoints, test: &Test) -> Result<(), Error> {
    if test.op.uses_recv() {
        for index in 0..endpoints.qps.len() {
            endpoints.post_recvs(index, test.depth * 2, half_bytes(test) as u64, test.size_bytes)?;
        }
    }
    Ok(())
}

/// Receives messages and posts as many receives again. Ends when `finished` has the number of sent
/// messages and as many have `arrived` (here and at other threads), or when no more arrive.
pub(super) fn server(
    endpoints: &Endpoints,
    test: &Test,
    mut credits: Option<CreditGiver<'_>>,
    arrived: &AtomicU64,
    finished: impl Fn() -> Result<Option<u64>, Error>,
) -> Result<(), Error> {
    let (mut messages, mut last) = (0, Instant::now());
    let mut used = vec![0u32; endpoints.qps.len()];
    let mut completions = Vec::with_capacity(POLLED);
    loop {
        completions.clear();
        if endpoints.recv_cq.poll(&mut completions, POLLED)? == 0 {
            if messages > 0 {
                arrived.fetch_add(std::mem::take(&mut messages), Relaxed);
                last = Instant::now();
            }
            if let Some(sent) = finished()?
                && (arrived.load(Relaxed) >= sent || last.elapsed() > Duration::from_millis(200))
            {
                return Ok(());
            }
            continue;
        }
        messages += completions.len() as u64;
        for completion in completions.drain(..) {
            let index = endpoints.check(completion)?.wr_id as usize;
            used[index] += 1;
            if used[index] >= test.depth.div_ceil(2) {
                let again = std::mem::take(&mut used[index]);
                endpoints.post_recvs(index, again, half_bytes(test) as u64, test.size_bytes)?;
                credits.as_mut().map_or(Ok(()), |credits| credits.give(index, again))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_clock_saw_counts() {
        let one = StreamResult { messages: 1000, counted: 600, elapsed: Duration::from_secs(2) };
        assert_eq!(one.rate(1000), 300.0);
        assert_eq!(one.rate(500), 150.0, "half of it was lost");
        let two = StreamResult::together(&[one, StreamResult { elapsed: Duration::from_secs(3), ..one }]);
        assert_eq!((two.messages, two.rate(2000)), (2000, 400.0));
        assert_eq!(StreamResult::default().rate(0), 0.0);
    }
}
