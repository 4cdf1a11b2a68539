//! The thread that sends records to one member.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{MemberId, boot_ns};
use longarm_rpc::Status;
use replica::{BatchAck, ReplicaBatch};

use crate::server::replication::core::Replication;
use crate::server::replication::link::PeerLink;
use crate::server::replication::words::LinkPurpose;

/// The longest time for which the thread does not look by itself.
const REST: Duration = Duration::from_millis(10);

/// Starts the thread of a member. It ends when there is nothing for the member any more, and when the server ends.
pub(super) fn start(replication: &Arc<Replication>, to: MemberId) -> std::io::Result<JoinHandle<()>> {
    let peer = PeerThread { replication: Arc::clone(replication), to, link: None, told: None };
    thread::Builder::new().name("kv-replica".into()).spawn(move || peer.run())
}

struct PeerThread {
    replication: Arc<Replication>,
    to: MemberId,
    link: Option<PeerLink>,
    /// The last error that the log has.
    told: Option<String>,
}

impl PeerThread {
    fn run(mut self) {
        let replication = Arc::clone(&self.replication);
        while !replication.is_stopping.load(Ordering::Acquire) {
            if let Err(status) = replication.copy_step() {
                self.tell(&status);
            }
            let mut sender = replication.sender();
            if !sender.members().any(|id| *id == self.to) {
                return;
            }
            let Some(batch) = sender.next_batch(&self.to, boot_ns()) else {
                // A change wakes us, and so does the step of a copy by another thread.
                if sender.copy_due().is_none() {
                    replication.work.wait_for(&mut sender, REST);
                }
                continue;
            };
            drop(sender);
            let ack = self.send(&batch);
            replication.sender().answered(&batch.head, ack, boot_ns());
            replication.wake_answers();
        }
    }

    fn send(&mut self, batch: &ReplicaBatch) -> Option<BatchAck> {
        match self.try_send(batch) {
            Ok(ack) => {
                self.told = None;
                Some(ack)
            }
            Err(status) => {
                self.link = None;
                self.tell(&status);
                None
            }
        }
    }

    fn try_send(&mut self, batch: &ReplicaBatch) -> Result<BatchAck, Status> {
        let link = match self.link.take() {
            Some(link) => link,
            None => PeerLink::open(&self.replication, &self.replication.address_of(&self.to)?, LinkPurpose::Records)?,
        };
        self.link.insert(link).send(batch)
    }

    /// Logs an error once.
    fn tell(&mut self, status: &Status) {
        let words = status.to_string();
        if self.told.as_ref() != Some(&words) {
            log::warn!("replication to {}: {words}", self.to.name);
            self.told = Some(words);
        }
    }
}
