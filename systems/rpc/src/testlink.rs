//! A pair of sessions in memory, for tests: nothing moves before the test says so, and the test may take it away.

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use longarm::{RKey, RemoteKey};

use crate::carrier::Carrier;
use crate::code::{Code, Executed};
use crate::link::{LinkBusy, PeerArea, SessionLink};
use crate::session::{
    Arrived, Body, CallId, ClientSession, Finished, NewCall, NotStarted, ServerSession, SessionLimits,
};
use crate::status::Status;

/// The key of a link's read area; other keys are of exposed memory.
const READ_AREA: RKey = RKey(1);

/// Memory in words.
pub(crate) struct TestArea(Vec<Cell<u64>>);

impl TestArea {
    pub(crate) fn new(len_bytes: u64) -> TestArea {
        TestArea(vec![Cell::new(0); len_bytes as usize / 8])
    }
}

impl PeerArea for TestArea {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        self.0[at as usize / 8].get()
    }

    fn store(&self, at: u64, word: u64) {
        self.0[at as usize / 8].set(word);
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        for (offset, byte) in (at as usize..).zip(out) {
            *byte = self.0[offset / 8].get().to_le_bytes()[offset % 8];
        }
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        for (offset, byte) in (at as usize..).zip(bytes) {
            let mut word = self.0[offset / 8].get().to_le_bytes();
            word[offset % 8] = *byte;
            self.0[offset / 8].set(u64::from_le_bytes(word));
        }
    }
}

/// A request that a link has taken.
#[derive(Clone, Debug)]
pub(crate) enum TestOp {
    Write { at: u64, bytes: Vec<u8>, imm: Option<u32> },
    Read { key: RemoteKey, tag: u64 },
    Send(Vec<u8>),
    Datagram(Vec<u8>),
}

type Exposures = RefCell<HashMap<u32, Vec<u8>>>;

/// Memory that the peer may READ until this is dropped.
pub(crate) struct TestExposed(u32, Weak<Exposures>);

impl Drop for TestExposed {
    fn drop(&mut self) {
        if let Some(exposures) = self.1.upgrade() {
            exposures.borrow_mut().remove(&self.0);
        }
    }
}

/// One end of a connection.
pub(crate) struct TestLink {
    area: TestArea,
    read_area: TestArea,
    peer_read_bytes: u64,
    exposures: Rc<Exposures>,
    last_key: u32,
    pub(crate) posted: Vec<TestOp>,
    /// The device refuses all requests.
    pub(crate) busy: bool,
}

impl TestLink {
    pub(crate) fn new(area_bytes: u64, read_bytes: u64, peer_read_bytes: u64) -> TestLink {
        TestLink {
            area: TestArea::new(area_bytes),
            read_area: TestArea::new(read_bytes),
            peer_read_bytes,
            exposures: Rc::default(),
            last_key: READ_AREA.0,
            posted: Vec::new(),
            busy: false,
        }
    }

    fn post(&mut self, op: TestOp) -> Result<(), LinkBusy> {
        if self.busy {
            return Err(LinkBusy);
        }
        self.posted.push(op);
        Ok(())
    }

    /// Pieces of memory that the peer may READ.
    pub(crate) fn exposures(&self) -> usize {
        self.exposures.borrow().len()
    }

    /// The bytes that the key leads to, unless its memory is gone.
    pub(crate) fn bytes_at(&self, key: &RemoteKey) -> Option<Vec<u8>> {
        if key.rkey() == READ_AREA {
            let mut bytes = vec![0; key.len_bytes() as usize];
            self.read_area.copy_out(key.addr(), &mut bytes);
            return Some(bytes);
        }
        self.exposures.borrow().get(&key.rkey().0).cloned()
    }
}

impl SessionLink for TestLink {
    type Bytes = Vec<u8>;
    type Exposed = TestExposed;
    type Area = TestArea;

    fn write(&mut self, at: u64, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        self.post(TestOp::Write { at, bytes: parts.concat(), imm: None })
    }

    fn write_with_imm(&mut self, at: u64, parts: &[&[u8]], imm: u32) -> Result<(), LinkBusy> {
        self.post(TestOp::Write { at, bytes: parts.concat(), imm: Some(imm) })
    }

    fn read(&mut self, from: &RemoteKey, tag: u64) -> Result<(), LinkBusy> {
        self.post(TestOp::Read { key: *from, tag })
    }

    fn send(&mut self, message: &[u8]) -> Result<(), LinkBusy> {
        self.post(TestOp::Send(message.to_vec()))
    }

    fn datagram(&mut self, parts: &[&[u8]]) -> Result<(), LinkBusy> {
        self.post(TestOp::Datagram(parts.concat()))
    }

    fn expose(&mut self, parts: &[&[u8]]) -> Result<(TestExposed, RemoteKey), LinkBusy> {
        let bytes = parts.concat();
        self.last_key += 1;
        let key = RemoteKey::from_parts(0, RKey(self.last_key), bytes.len() as u64);
        self.exposures.borrow_mut().insert(self.last_key, bytes);
        Ok((TestExposed(self.last_key, Rc::downgrade(&self.exposures)), key))
    }

    fn area(&self) -> &TestArea {
        &self.area
    }

    fn read_area(&self) -> Option<&TestArea> {
        Some(&self.read_area)
    }

    fn peer_read_key(&self, at: u64, len_bytes: u64) -> Option<RemoteKey> {
        (at + len_bytes <= self.peer_read_bytes).then(|| RemoteKey::from_parts(at, READ_AREA, len_bytes))
    }
}

/// A client, a server, and the clock that both believe.
pub(crate) struct TestPair {
    pub(crate) client: ClientSession<TestLink>,
    pub(crate) server: ServerSession<TestLink>,
    pub(crate) now: Instant,
}

/// The server's looks at its memory in [`TestPair::serve`]: enough for a scan of all slots.
const LOOKS: usize = 70;

impl TestPair {
    pub(crate) fn new(client: (TestLink, Carrier), server: (TestLink, Carrier), limits: SessionLimits) -> TestPair {
        TestPair {
            client: ClientSession::new(client.0, client.1, limits),
            server: ServerSession::new(server.0, server.1, limits),
            now: Instant::now(),
        }
    }

    pub(crate) fn start(&mut self, body: &[u8]) -> CallId {
        self.try_start(body).expect("the session takes the call")
    }

    pub(crate) fn try_start(&mut self, body: &[u8]) -> Result<CallId, NotStarted> {
        self.client.start(&NewCall { method: 1, flags: 0, deadline: None, body }, self.now)
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Moves the clock to the client's next timer.
    pub(crate) fn pass_to_timer(&mut self) {
        self.now = self.now.max(self.client.next_timer().expect("the client waits for a time"));
    }

    /// The requests that the client's device has taken since the last time.
    pub(crate) fn client_posts(&mut self) -> Vec<TestOp> {
        std::mem::take(&mut self.client.link().posted)
    }

    pub(crate) fn server_posts(&mut self) -> Vec<TestOp> {
        std::mem::take(&mut self.server.link().posted)
    }

    pub(crate) fn deliver_to_server(&mut self, ops: Vec<TestOp>) {
        for op in ops {
            match op {
                TestOp::Write { at, bytes, imm } => {
                    self.server.link().area.copy_in(at, &bytes);
                    imm.into_iter().for_each(|imm| self.server.on_imm(imm));
                }
                TestOp::Read { key, tag } => {
                    let bytes = self.server.link().bytes_at(&key).expect("the key is good");
                    self.client.on_read(tag, Some(bytes));
                }
                TestOp::Send(message) => self.server.on_message(&message),
                TestOp::Datagram(datagram) => self.server.on_datagram(&datagram, self.now),
            }
        }
    }

    pub(crate) fn deliver_to_client(&mut self, ops: Vec<TestOp>) {
        for op in ops {
            match op {
                TestOp::Write { at, bytes, imm } => {
                    self.client.link().area.copy_in(at, &bytes);
                    imm.into_iter().for_each(|imm| self.client.on_imm(imm));
                }
                TestOp::Read { key, tag } => {
                    let bytes = self.client.link().bytes_at(&key).expect("the key is good");
                    self.server.on_read(tag, Some(bytes));
                }
                TestOp::Send(message) => self.client.on_message(&message),
                TestOp::Datagram(datagram) => self.client.on_datagram(&datagram, self.now),
            }
        }
    }

    /// Requests that the server finds in some looks, with their bodies.
    pub(crate) fn arrivals(&mut self) -> Vec<(Arrived<Vec<u8>>, Vec<u8>)> {
        let mut arrivals = Vec::new();
        for _ in 0..LOOKS {
            if let Some(arrived) = self.server.next(self.now) {
                let short = self.server.take_body();
                let body = match &arrived.body {
                    Body::Short => short.clone(),
                    Body::Long(bytes) => bytes.clone(),
                };
                self.server.put_body(short);
                arrivals.push((arrived, body));
            }
        }
        arrivals
    }

    pub(crate) fn reply(&mut self, id: CallId, body: &[u8]) {
        self.server.reply(id, (Code::Ok, Executed::Yes), 0, body, self.now);
    }

    /// The server answers what it finds with the same bytes backwards. Returns the calls that it answered.
    pub(crate) fn serve(&mut self) -> Vec<CallId> {
        let arrivals = self.arrivals();
        for (arrived, body) in &arrivals {
            self.reply(arrived.id, &reversed(body));
        }
        arrivals.iter().map(|(arrived, _)| arrived.id).collect()
    }

    /// Calls that the client finds to be over.
    pub(crate) fn finished(&mut self) -> Vec<(CallId, Result<Vec<u8>, Status>)> {
        let mut all = Vec::new();
        while let Some(Finished { id, result }) = self.client.next(self.now) {
            let result = result.map(|reply| match reply.body {
                Body::Short => self.client.body().to_vec(),
                Body::Long(bytes) => bytes,
            });
            all.push((id, result));
        }
        all
    }

    /// Delivers everything and serves it, until nothing moves any more. Returns the calls that are over.
    pub(crate) fn run(&mut self) -> Vec<(CallId, Result<Vec<u8>, Status>)> {
        let mut all = Vec::new();
        for _ in 0..20 {
            let ops = self.client_posts();
            self.deliver_to_server(ops);
            self.serve();
            let ops = self.server_posts();
            self.deliver_to_client(ops);
            all.extend(self.finished());
        }
        all
    }
}

/// The bytes backwards.
pub(crate) fn reversed(body: &[u8]) -> Vec<u8> {
    body.iter().rev().copied().collect()
}
