//! A client whose queue pair several threads share: a server then has fewer queue pairs than there are threads.
//!
//! Threads of a host that have a queue pair each with every server crowd a network card's memory. FaRM shares queue pairs among
//! threads for that, and pays with a lock (Dragojević et al., NSDI 2014, section 3). `longarm rpc bench --share` measures both.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use longarm::Target;
use parking_lot::Mutex;

use crate::client::poll::{Client, ClientStats};
use crate::options::ClientOptions;
use crate::service::Method;
use crate::session::{CallId, NotStarted};
use crate::status::Status;
use crate::way::Way;

/// A [`Client`] that several threads share. Each thread has a clone, and starts and polls calls of its own.
///
/// A clone takes only its own calls' outcomes, whichever thread finds the replies. It copies each reply once more than
/// a `Client` does. The slots of the session are those of all threads together. A clone that is dropped withdraws its calls.
///
/// ```no_run
/// use longarm_rpc::{ClientOptions, Method, SharedClient};
///
/// const SAY: Method = Method::new("/echo.Echo/Say");
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = SharedClient::connect("host:7471", &ClientOptions::default())?;
/// std::thread::scope(|scope| {
///     for number in 0..4u8 {
///         let mut client = client.clone();
///         scope.spawn(move || {
///             client.start(SAY, &[number], None).expect("a first call");
///             while client.poll(|_, reply| println!("{reply:?}")) == 0 {}
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct SharedClient {
    shared: Arc<Mutex<ThreadsState>>,
    /// The place of its mailbox.
    place: usize,
    /// Its calls that have not ended.
    outstanding: usize,
    /// Outcomes that it takes out of its mailbox.
    taken: ThreadMailbox,
}

struct ThreadsState {
    client: Client,
    /// The mailbox for the outcome of a slot's call, and that call.
    owners: Vec<Option<(usize, CallId)>>,
    /// `None` belongs to nobody.
    mailboxes: Vec<Option<ThreadMailbox>>,
}

/// Outcomes that their thread has not taken.
#[derive(Default)]
struct ThreadMailbox {
    outcomes: Vec<(CallId, Result<Range<usize>, Status>)>,
    bytes: Vec<u8>,
}

impl ThreadMailbox {
    fn put(&mut self, call: CallId, reply: Result<&[u8], Status>) {
        let start = self.bytes.len();
        let reply = reply.map(|bytes| {
            self.bytes.extend_from_slice(bytes);
            start..self.bytes.len()
        });
        self.outcomes.push((call, reply));
    }
}

impl ThreadsState {
    /// Takes the replies that are there, each for the thread that has made the call.
    fn drive(&mut self) {
        let ThreadsState { client, owners, mailboxes } = self;
        client.poll(|call, reply| {
            let owner = owners[usize::from(call.slot)].take_if(|(_, owned)| *owned == call);
            if let Some(mailbox) = owner.and_then(|(place, _)| mailboxes[place].as_mut()) {
                mailbox.put(call, reply);
            }
        });
    }

    fn add_mailbox(&mut self) -> usize {
        let place = self.mailboxes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.mailboxes.push(None);
            self.mailboxes.len() - 1
        });
        self.mailboxes[place] = Some(ThreadMailbox::default());
        place
    }
}

impl SharedClient {
    /// Connects to a server as [`Client::connect`] does.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub fn connect(to: impl Into<Target>, options: &ClientOptions) -> Result<SharedClient, Status> {
        Ok(SharedClient::from(Client::connect(to, options)?))
    }

    fn on(shared: Arc<Mutex<ThreadsState>>) -> SharedClient {
        let place = shared.lock().add_mailbox();
        SharedClient { shared, place, outstanding: 0, taken: ThreadMailbox::default() }
    }

    /// The way of the session.
    pub fn way(&self) -> Way {
        self.shared.lock().client.way()
    }

    /// The figures of the session, with the calls of all threads.
    pub fn stats(&self) -> ClientStats {
        self.shared.lock().client.stats()
    }

    /// Calls of this clone that have not ended.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends a request, as [`Client::start`] does.
    ///
    /// # Errors
    /// Those of [`Client::start`]. [`NotStarted::Full`] also if the other threads have all slots.
    pub fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted> {
        let mut state = self.shared.lock();
        let call = state.client.start(method, body, deadline)?;
        state.owners[usize::from(call.slot)] = Some((self.place, call));
        self.outstanding += 1;
        Ok(call)
    }

    /// Withdraws a call of this clone, as [`Client::cancel`] does.
    pub fn cancel(&mut self, call: CallId) {
        let mut state = self.shared.lock();
        let owner = state.owners.get_mut(usize::from(call.slot));
        if owner.and_then(|owner| owner.take_if(|owned| *owned == (self.place, call))).is_some() {
            state.client.cancel(call);
            self.outstanding -= 1;
        }
    }

    /// Takes the calls of this clone that have ended, each with the bytes of its reply. Returns how many they are. Never
    /// waits, except for another thread that is about to send or to poll.
    pub fn poll(&mut self, mut ended: impl FnMut(CallId, Result<&[u8], Status>)) -> usize {
        let mut state = self.shared.lock();
        state.drive();
        if let Some(mailbox) = &mut state.mailboxes[self.place] {
            std::mem::swap(mailbox, &mut self.taken);
        }
        drop(state);
        let count = self.taken.outcomes.len();
        self.outstanding -= count;
        for (call, reply) in self.taken.outcomes.drain(..) {
            ended(call, reply.map(|range| &self.taken.bytes[range]));
        }
        self.taken.bytes.clear();
        count
    }
}

impl From<Client> for SharedClient {
    /// Shares a client. The outcomes of calls that it has under way go to nobody.
    fn from(client: Client) -> SharedClient {
        let owners = vec![None; usize::from(client.slots())];
        SharedClient::on(Arc::new(Mutex::new(ThreadsState { client, owners, mailboxes: Vec::new() })))
    }
}

impl Clone for SharedClient {
    /// Another user of the same session, for another thread. It has none of this one's calls.
    fn clone(&self) -> SharedClient {
        SharedClient::on(Arc::clone(&self.shared))
    }
}

impl Drop for SharedClient {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.mailboxes[self.place] = None;
        for slot in 0..state.owners.len() {
            if let Some((_, call)) = state.owners[slot].take_if(|(place, _)| *place == self.place) {
                state.client.cancel(call);
            }
        }
    }
}

impl std::fmt::Debug for SharedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedClient({}, {} outstanding)", self.way(), self.outstanding)
    }
}
