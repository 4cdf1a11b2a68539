//! Bandwidth and message rate: as many outstanding as the depth allows, for a while.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use device::SendFlags;

use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::Test;
use super::{half_bytes, work_request};
use crate::error::Error;

/// Completions taken at once.
const POLLED: usize = 64;

/// What a stream carried.
pub(super) struct Carried {
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
}

/// Messages that were posted and not yet completed, of one queue pair.
struct Sender<'a> {
    endpoints: &'a Endpoints,
    peers: &'a [EndpointInfo],
    test: &'a Test,
    /// Work requests per doorbell; the last of them asks for the completion of all.
    batch: u32,
    outstanding: Vec<u32>,
}

/// Sends for the duration of the test, then waits for what is outstanding.
pub(super) fn client(endpoints: &Endpoints, peers: &[EndpointInfo], test: &Test) -> Result<Carried, Error> {
    let batch = (test.depth / 4).clamp(1, 32);
    let mut sender = Sender { endpoints, peers, test, batch, outstanding: vec![0; endpoints.qps.len()] };
    let start = Instant::now();
    (0..endpoints.qps.len()).try_for_each(|index| sender.fill(index))?;
    let (mut messages, mut completions) = (0, Vec::with_capacity(POLLED));
    let mut elapsed = start.elapsed();
    while sender.is_busy(elapsed) {
        completions.clear();
        endpoints.send_cq.poll(&mut completions, POLLED)?;
        for completion in completions.drain(..) {
            let index = endpoints.check(completion)?.wr_id as usize;
            sender.outstanding[index] -= batch;
            messages += u64::from(batch);
            if elapsed < test.duration() {
                sender.fill(index)?;
            }
        }
        elapsed = start.elapsed();
        if elapsed > test.duration() + Duration::from_secs(60) {
            return Err(Error::Silence(Duration::from_secs(60)));
        }
    }
    Ok(Carried { messages, elapsed })
}

impl Sender<'_> {
    /// Fills a queue pair up to the depth.
    fn fill(&mut self, index: usize) -> Result<(), Error> {
        while self.outstanding[index] + self.batch <= self.test.depth {
            self.post(index)?;
        }
        Ok(())
    }

    /// Whether there is time left, or something that has not been answered.
    fn is_busy(&self, elapsed: Duration) -> bool {
        elapsed < self.test.duration() || self.outstanding.iter().any(|n| *n > 0)
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

/// Takes in messages and posts as many receives again, until `finished` says how many were
/// sent and as many have `arrived` (here and at other threads), or no more come.
pub(super) fn server(
    endpoints: &Endpoints,
    test: &Test,
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
            }
        }
    }
}
