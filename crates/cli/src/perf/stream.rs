//! Bandwidth and message rate: as many outstanding as the depth allows, for a while.

use std::time::{Duration, Instant};

use device::SendFlags;

use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::Test;
use super::{half_bytes, work_request};
use crate::error::Error;

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
    let (mut messages, mut completions) = (0, Vec::with_capacity(64));
    let mut open = true;
    while open || sender.outstanding.iter().any(|n| *n > 0) {
        if open {
            sender.fill()?;
        }
        completions.clear();
        endpoints.send_cq.poll(&mut completions, 64)?;
        for completion in completions.drain(..) {
            endpoints.check(completion)?;
            sender.outstanding[completion.wr_id as usize] -= batch;
            messages += u64::from(batch);
        }
        open = open && start.elapsed() < test.duration();
        if start.elapsed() > test.duration() + Duration::from_secs(60) {
            return Err(Error::Silence(Duration::from_secs(60)));
        }
    }
    Ok(Carried { messages, elapsed: start.elapsed() })
}

impl Sender<'_> {
    /// Fills every queue pair up to the depth.
    fn fill(&mut self) -> Result<(), Error> {
        for index in 0..self.outstanding.len() {
            while self.outstanding[index] + self.batch <= self.test.depth {
                self.post(index)?;
            }
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
        for qp in &endpoints.qps {
            endpoints.post_recvs(qp, test.depth * 2, half_bytes(test) as u64, test.size_bytes)?;
        }
    }
    Ok(())
}

/// Takes in messages and posts as many receives again, until `finished` says how
/// many were sent and they are here, or no more come. Returns how many came.
pub(super) fn server(
    endpoints: &Endpoints,
    test: &Test,
    mut finished: impl FnMut() -> Result<Option<u64>, Error>,
) -> Result<u64, Error> {
    let index_of: std::collections::HashMap<_, _> =
        endpoints.qps.iter().enumerate().map(|(i, qp)| (qp.qpn(), i)).collect();
    let (mut messages, mut expected, mut last) = (0, None, Instant::now());
    let mut used = vec![0u32; endpoints.qps.len()];
    let mut completions = Vec::with_capacity(64);
    loop {
        completions.clear();
        if endpoints.recv_cq.poll(&mut completions, 64)? == 0 {
            expected = if expected.is_none() { finished()? } else { expected };
            let all_here = expected.is_some_and(|sent| messages >= sent);
            if all_here || expected.is_some() && last.elapsed() > Duration::from_millis(200) {
                return Ok(messages);
            }
            continue;
        }
        last = Instant::now();
        for completion in completions.drain(..) {
            endpoints.check(completion)?;
            messages += 1;
            let index = index_of[&completion.qpn];
            used[index] += 1;
            if used[index] >= test.depth.div_ceil(2) {
                let again = std::mem::take(&mut used[index]);
                endpoints.post_recvs(&endpoints.qps[index], again, half_bytes(test) as u64, test.size_bytes)?;
            }
        }
    }
}
