//! The thread that follows configurations, and asks for others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::{MemberHandle, MemberId, boot_ns};

use crate::server::error::KvServerError;
use crate::server::replication::core::Replication;
use crate::server::replication::messages::MailThreads;
use crate::server::replication::{moves, peers};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The membership of a server that runs. Dropping it leaves the cluster, and ends all threads.
pub(crate) struct Steward {
    replication: Arc<Replication>,
    member: Option<Arc<MemberHandle>>,
    threads: Vec<JoinHandle<()>>,
}

impl Steward {
    pub(crate) fn start(replication: Arc<Replication>, member: MemberHandle) -> Result<Steward, KvServerError> {
        let member = Arc::new(member);
        let thread = thread::Builder::new().name("kv-steward".into()).spawn({
            let (replication, member) = (Arc::clone(&replication), Arc::clone(&member));
            move || run(&replication, &member)
        });
        let start = |error: std::io::Error| KvServerError::Start(error.to_string());
        let mut steward = Steward { replication, member: Some(member), threads: vec![thread.map_err(start)?] };
        steward.threads.push(moves::start(&steward.replication).map_err(start)?);
        Ok(steward)
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        let until_ns = self.replication.stop();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        // Readers of memory go on to the end of the term that they were told. Nobody may serve before.
        thread::sleep(Duration::from_nanos(until_ns.saturating_sub(boot_ns())));
        self.member = None;
    }
}

fn run(replication: &Arc<Replication>, member: &MemberHandle) {
    let mut threads: BTreeMap<MemberId, JoinHandle<()>> = BTreeMap::new();
    let mut mail = MailThreads::default();
    let (mut is_noted, mut is_leaving) = (false, false);
    while !replication.is_stopping.load(Ordering::Acquire) {
        replication.follow();
        mail.follow(replication);
        if !is_noted && replication.right.config().is_some() {
            is_noted = true;
            if let Err(error) = replication.note_wholeness() {
                log::error!("the next process of this member will believe that it lacks something: {error}");
            }
        }
        if replication.has_lost_disk() && !is_leaving {
            log::error!("the log on disk has failed, so this member leaves the cluster");
            is_leaving = true;
            member.leave();
        }
        let mut sender = replication.sender();
        sender.tick(boot_ns());
        let (wishes, members): (_, Vec<MemberId>) = (sender.take_wishes(), sender.members().cloned().collect());
        drop(sender);
        for wish in wishes {
            if let Err(refused) = member.wish(wish) {
                log::error!("a wish of the replication: {refused}");
            }
        }
        threads.retain(|_, thread| !thread.is_finished());
        for id in members {
            if threads.contains_key(&id) {
                continue;
            }
            match peers::start(replication, id.clone()) {
                Ok(thread) => drop(threads.insert(id, thread)),
                // Answers wait until the member is left out.
                Err(error) => log::error!("no thread for the records to {}: {error}", id.name),
            }
        }
        replication.wake_answers();
        thread::sleep(LOOK);
    }
    threads.into_values().for_each(|thread| drop(thread.join()));
    mail.join();
}
