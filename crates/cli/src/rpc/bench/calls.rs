//! The calls that a measurement makes.

use std::time::{Duration, Instant};

use longarm_rpc::{CallId, Client, Method, NotStarted, Published, PublishedSlice, Status};

use super::case::BenchCase;
use super::server::{ECHO, FILL};
use crate::error::Error;
use crate::perf::WaitLimit;

/// The time in which one of the calls that are outstanding at the end must end.
const DRAIN: Duration = Duration::from_secs(10);

/// Requests up to this length are copied for each call. An echo always is: its reply has to be copied, too.
const COPIED_BYTES: usize = 4096;

/// One kind of call.
pub(super) struct BenchCall {
    method: Method,
    body: Vec<u8>,
    /// The body, if it is too long to be copied for each call.
    published: Option<PublishedSlice>,
    reply_bytes: usize,
}

impl BenchCall {
    pub(super) fn of(case: &BenchCase) -> BenchCall {
        let mut body = vec![7; case.size_bytes as usize];
        let reply_bytes = case.reply_bytes as usize;
        if case.is_echo() {
            return BenchCall { method: ECHO, published: None, body, reply_bytes };
        }
        if let Some(first) = body.first_chunk_mut() {
            *first = case.reply_bytes.to_le_bytes();
        }
        let published = (body.len() > COPIED_BYTES).then(|| Published::new(body.clone()).into());
        BenchCall { method: FILL, body, published, reply_bytes }
    }

    /// Starts a call; `None` if the client has no room.
    pub(super) fn start(&self, client: &mut Client) -> Result<Option<CallId>, Error> {
        let started = match &self.published {
            Some(body) => client.start_published(self.method, body, None),
            None => client.start(self.method, &self.body, None),
        };
        match started {
            Ok(id) => Ok(Some(id)),
            Err(NotStarted::Full) => Ok(None),
            Err(NotStarted::Refused(status)) => Err(status.into()),
        }
    }

    /// Whether it is the right reply.
    pub(super) fn is_answered(&self, reply: &Result<&[u8], Status>) -> bool {
        reply.as_ref().is_ok_and(|reply| reply.len() == self.reply_bytes)
    }

    /// Makes one call and waits for its end.
    pub(super) fn finish_one(&self, client: &mut Client) -> Result<(), Error> {
        let mut limit = WaitLimit::default();
        while self.start(client)?.is_none() {
            client.poll(|_, _| ());
            limit.check()?;
        }
        let mut outcome = None;
        loop {
            client.poll_for(Duration::from_millis(1), |_, reply| outcome = Some(self.check(reply)));
            match outcome.take() {
                Some(outcome) => return outcome,
                None => limit.check()?,
            }
        }
    }

    fn check(&self, reply: Result<&[u8], Status>) -> Result<(), Error> {
        let reply = reply?;
        if reply.len() == self.reply_bytes {
            return Ok(());
        }
        Err(Error::Peer(format!("a reply has {} bytes in place of {}", reply.len(), self.reply_bytes)))
    }
}

/// Waits until no call is outstanding. All clients take turns: those of some ways send lost requests again while they
/// poll. Returns the number of calls that do not end.
pub(super) fn drain(clients: &mut [Client]) -> u64 {
    let mut until = Instant::now() + DRAIN;
    loop {
        let ended: usize = clients.iter_mut().map(|client| client.poll(|_, _| ())).sum();
        let left: usize = clients.iter().map(Client::outstanding).sum();
        let now = Instant::now();
        if ended > 0 {
            until = now + DRAIN;
        }
        if left == 0 || now > until {
            return left as u64;
        }
    }
}
