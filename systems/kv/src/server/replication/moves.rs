//! Shares that move between members: the thread that takes them over, and the former primary's answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{MemberId, boot_ns};
use longarm_rpc::Status;
use replica::{HandOverAnswer, HandOverAsk};

use crate::protocol::{decode, encode};
use crate::server::replication::core::Replication;
use crate::server::replication::left_keys::LeftKeys;
use crate::server::replication::link::PeerLink;
use crate::server::replication::words::{HandOverReply, HandOverRequest, LinkPurpose};

/// The longest time for which the thread does not look by itself.
const REST: Duration = Duration::from_millis(100);
/// The time between two looks while a share is on its way here.
const LOOK: Duration = Duration::from_micros(200);
/// The pause after a question that found no answer.
const PAUSE: Duration = Duration::from_millis(5);

/// Starts the thread that asks former primaries for shares. It ends with the server.
pub(super) fn start(replication: &Arc<Replication>) -> std::io::Result<JoinHandle<()>> {
    let replication = Arc::clone(replication);
    thread::Builder::new().name("kv-moves".into()).spawn(move || ask_all(&replication))
}

fn ask_all(replication: &Replication) {
    let (mut links, mut left_keys) = (BTreeMap::new(), LeftKeys::default());
    while !replication.is_stopping.load(Ordering::Acquire) {
        let mut sender = replication.sender();
        let asks = sender.asks(boot_ns());
        if asks.is_empty() && sender.awaits_shares() {
            replication.news.wait_for(&mut sender, LOOK);
            continue;
        }
        drop(sender);
        if asks.is_empty() {
            links.clear();
            if !left_keys.drop_some(replication) {
                let mut sender = replication.sender();
                if sender.roles().epoch() == left_keys.epoch() {
                    replication.news.wait_for(&mut sender, REST);
                }
            }
            continue;
        }
        for (former, ask) in asks {
            if let Err(status) = replication.ask(&mut links, &former, ask) {
                log::debug!("hand-over of the slots from {} by {}: {status}", ask.from, former.name);
                links.remove(&former);
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Replication {
    /// Asks a former primary whether it has released a share. If so, this member serves it from now on.
    fn ask(&self, links: &mut BTreeMap<MemberId, PeerLink>, former: &MemberId, ask: HandOverAsk) -> Result<(), Status> {
        if !links.contains_key(former) {
            let link = PeerLink::open(self, &self.address_of(former)?, LinkPurpose::Moves)?;
            links.insert(former.clone(), link);
        }
        let Some(link) = links.get_mut(former) else { return Ok(()) };
        let answer = link.ask(former, ask)?;
        let serves = self.sender().told(ask, &answer);
        if serves {
            self.right.accept(ask.from, ask.since);
            self.work.notify_all();
            self.wake_answers();
        }
        Ok(())
    }

    /// The answer to a target.
    pub(super) fn hand_over(&self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let (HandOverRequest { pass, to, from, since }, _) = decode(request)?;
        let target = self.passes.find(&pass)?;
        if to != *self.right.member() {
            return Err(Status::failed_precondition("the question is for another life of this member"));
        }
        self.follow();
        let answer = self.release(&target, HandOverAsk { from, since });
        let in_step = match answer {
            HandOverAnswer::NotYet => None,
            HandOverAnswer::Released { in_step } => Some(in_step),
        };
        encode(&HandOverReply { in_step }, &[], reply);
        self.wake_answers();
        Ok(())
    }

    /// Releases a share, if it is time. Nobody changes a table meanwhile.
    fn release(&self, target: &MemberId, ask: HandOverAsk) -> HandOverAnswer {
        let locks: Vec<_> = self.tables.iter().map(|table| table.writer.lock()).collect();
        let answer = self.sender().asked(target, ask, boot_ns());
        let is_released = matches!(answer, HandOverAnswer::Released { .. });
        let answer =
            if is_released && !self.right.release(ask.from, ask.since) { HandOverAnswer::NotYet } else { answer };
        drop(locks);
        answer
    }
}
