//! Batches: parts of a stream on their way, one at a time for each member.

use cluster::{ConfigWish, MemberId};

use crate::sender::state::ReplicaSender;
use crate::sender::words::{BatchAck, BatchHead, ReplicaBatch};

impl ReplicaSender {
    /// Members that have streams.
    pub fn members(&self) -> impl Iterator<Item = &MemberId> {
        self.links.keys()
    }

    /// The next batch for a member, if there is something to send and none is under way.
    pub fn next_batch(&mut self, to: &MemberId, now_ns: u64) -> Option<ReplicaBatch> {
        let epoch = self.roles.epoch();
        let link = self.links.get_mut(to)?;
        let is_done = link.queue.is_empty() && link.applied == link.received;
        if link.in_flight.is_some() || now_ns < link.retry_ns || is_done {
            return None;
        }
        let mut length = link.cut(self.options.batch_bytes, self.options.group_bytes);
        if length == 0 && !link.queue.is_empty() {
            // Changes that belong together are under way. Others must not wait for them for long.
            let since_ns = *link.held_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) < self.options.group_ns {
                return None;
            }
            length = link.queue.len().min(self.options.batch_bytes);
        }
        link.held_ns = None;
        let bytes = link.queue[..length].to_vec();
        link.in_flight = Some(bytes.len());
        let (from, to) = (self.roles.me().clone(), to.clone());
        let head = BatchHead { from, to, epoch, stream: link.stream, offset: link.received };
        Some(ReplicaBatch { head, bytes })
    }

    /// Takes the answer to a batch; `None`: the member refused it, or nobody knows whether it came. Returns true if the stream
    /// goes on.
    pub fn answered(&mut self, head: &BatchHead, ack: Option<BatchAck>, now_ns: u64) -> bool {
        let Some(link) = self.links.get_mut(&head.to).filter(|link| link.stream == head.stream) else { return true };
        let before = link.applied;
        let is_sound = ack.is_some_and(|ack| link.acknowledge(ack));
        if !is_sound {
            link.retry_ns = now_ns.saturating_add(self.options.pause_ns);
            self.reset(&head.to);
            return false;
        }
        let stands = link.applied == before && link.queue.is_empty() && link.applied < link.received;
        link.retry_ns = if stands { now_ns.saturating_add(self.options.later_ns) } else { 0 };
        let epoch = self.roles.epoch();
        for from in link.advance() {
            self.wishes.push(ConfigWish::Admit { from, member: head.to.clone(), epoch });
        }
        true
    }
}
