//! The thread of a member: carries out what the member's agent wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::agent::{MemberAgent, NextStep};
use crate::config::wish::ConfigWish;
use crate::config::{ClusterMember, ConfigError, MemberId};
use crate::coordinator::{Coordinator, MemberBeat};
use crate::right::{ServingRight, WishRefused};
use crate::term::{LONGEST_TERM, SHORTEST_TERM, boot_ns};

/// The longest time for which the thread does not look for wishes.
const ATTENTION: Duration = Duration::from_millis(20);
/// Attempts to leave before the thread ends without: then the others wait for the end of the term.
const FAREWELLS: u32 = 5;

/// Data that a member keeps on disk, and so shares with later processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptData {
    /// The number of the life, which all processes with these data have.
    pub incarnation: u64,
    /// The last process may have answered changes that are not on disk. So members that live serve its slots, and it fetches the
    /// data from them. It serves at once only slots of which no other member that lives has the data.
    pub may_lack: bool,
}

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The name, which no other member has.
    pub name: String,
    /// The address that clients get: `host:port`.
    pub address: String,
    /// Its data on disk. Without them, each process is another life.
    pub kept: Option<KeptData>,
    /// The time for which the member serves after a beat: 200 ms to 60 s. After so long without a beat others replace it.
    pub term: Duration,
    /// Backups of each slot, if this member forms the cluster.
    pub replicas: u8,
    /// Members that must be there before the cluster is formed.
    pub form_with: usize,
    /// The server carries out moves of slots, so operators may order them. Otherwise orders are refused.
    pub moves_slots: bool,
}

impl Default for MemberOptions {
    fn default() -> MemberOptions {
        MemberOptions {
            name: String::new(),
            address: String::new(),
            kept: None,
            term: Duration::from_secs(2),
            replicas: 0,
            form_with: 1,
            moves_slots: false,
        }
    }
}

/// A member that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// A name or an address that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A term outside of its bounds.
    #[error("a term has {SHORTEST_TERM:?} to {LONGEST_TERM:?}, not {0:?}")]
    Term(Duration),
    /// The system refused a thread or random numbers.
    #[error("the system refused: {0}")]
    System(String),
}

/// A member that runs. Dropping it gives its slots to others, and leaves the cluster.
///
/// ```
/// use longarm_cluster::{HashSlot, LocalCoordinator, MemberHandle, MemberOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = MemberOptions { name: "a".into(), address: "host1:7480".into(), ..MemberOptions::default() };
/// let member = MemberHandle::start(options, LocalCoordinator::default())?;
/// while member.right().check(HashSlot::of_key(b"foo")).is_err() {
///     std::thread::sleep(std::time::Duration::from_millis(1));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemberHandle {
    right: ServingRight,
    orders: Arc<MemberOrders>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct MemberOrders {
    leave: AtomicBool,
    end: AtomicBool,
}

impl MemberHandle {
    /// Starts the thread of a member.
    ///
    /// # Errors
    /// See [`MembershipError`]. A coordinator that does not answer is no error: the member goes on asking.
    pub fn start(
        options: MemberOptions,
        coordinator: impl Coordinator + 'static,
    ) -> Result<MemberHandle, MembershipError> {
        if !(SHORTEST_TERM..=LONGEST_TERM).contains(&options.term) {
            return Err(MembershipError::Term(options.term));
        }
        let incarnation = options.kept.map(|kept| kept.incarnation).map_or_else(random, Ok)?;
        let id = MemberId { name: options.name, incarnation };
        let member = ClusterMember { id, address: options.address };
        member.check()?;
        let beat = MemberBeat { member, term_ns: options.term.as_nanos() as u64, process: random()? };
        let mut agent = MemberAgent::new(beat, options.replicas, options.form_with.max(1));
        agent.set_moves_slots(options.moves_slots);
        if let Some(kept) = options.kept {
            agent.set_kept_data(kept.may_lack);
        }
        let (right, orders) = (agent.right().clone(), Arc::new(MemberOrders::default()));
        let thread = thread::Builder::new().name("cluster-member".into()).spawn({
            let orders = Arc::clone(&orders);
            move || run(agent, coordinator, &orders)
        });
        let thread = thread.map_err(|error| MembershipError::System(error.to_string()))?;
        Ok(MemberHandle { right, orders, thread: Some(thread) })
    }

    /// The right to serve.
    pub fn right(&self) -> &ServingRight {
        &self.right
    }

    /// Wishes a change. A later configuration shows whether it has come true.
    ///
    /// # Errors
    /// [`WishRefused`] says why the member does not take it.
    pub fn wish(&self, wish: ConfigWish) -> Result<(), WishRefused> {
        self.right.wish(wish)
    }

    /// Gives its slots to others, and leaves the cluster, as dropping it does. It does not wait for that.
    pub fn leave(&self) {
        self.orders.leave.store(true, Ordering::Release);
    }

    /// Ends the thread without leaving, as if the process died: others wait for the end of the term.
    pub fn abandon(self) {
        self.orders.end.store(true, Ordering::Release);
    }
}

impl Drop for MemberHandle {
    fn drop(&mut self) {
        self.orders.leave.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

fn random() -> Result<u64, MembershipError> {
    getrandom::u64().map_err(|error| MembershipError::System(error.to_string()))
}

fn run(mut agent: MemberAgent, mut coordinator: impl Coordinator, orders: &MemberOrders) {
    let (mut is_leaving, mut farewells) = (false, 0);
    while !orders.end.load(Ordering::Acquire) {
        if orders.leave.load(Ordering::Acquire) && !is_leaving {
            is_leaving = true;
            agent.leave();
        }
        agent.right().take_wishes().into_iter().for_each(|wish| agent.wish(wish));
        match agent.next(boot_ns()) {
            NextStep::Gone => break,
            NextStep::Call(request) => {
                let reply = coordinator.call(&request, Duration::from_nanos(agent.beat_ns()));
                farewells += u32::from(is_leaving && reply.is_err());
                agent.answered(reply.ok(), boot_ns());
            }
            NextStep::WaitUntil(_) if farewells >= FAREWELLS => break,
            NextStep::WaitUntil(until_ns) => {
                let wait = Duration::from_nanos(until_ns.saturating_sub(boot_ns()));
                if coordinator.wait(wait.min(ATTENTION)) {
                    agent.wake();
                }
            }
        }
    }
    agent.right().end();
}
