//! A client's and a server's session, the network between them, and handlers that take their time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::carrier::Carrier;
use crate::carrier::datagram::testing::TestLink;
use crate::carrier::datagram::tests::network::{LossyNetwork, PacketFaults, Toward};
use crate::carrier::datagram::{
    DatagramCarrier, DatagramClient, DatagramCounters, DatagramSetup, PacketCut, PacketEnd,
};
use crate::code::{Code, Executed};
use crate::session::{Body, CallId, ClientSession, NewCall, NotStarted, ServerSession, SessionLimits};

pub(super) const MAX_MESSAGE_BYTES: usize = (8 << 20) + 8192;
const CLIENT: PacketEnd = PacketEnd { session: 7, token: 0x1234_5678 };
const SERVER: PacketEnd = PacketEnd { session: 3, token: 0x8765_4321 };

/// The two ends of a session.
pub(super) fn setups(slots: u16, credits: u32, mtu_bytes: usize) -> (DatagramSetup, DatagramSetup) {
    let cut = PacketCut::new(mtu_bytes, MAX_MESSAGE_BYTES);
    let mut client = DatagramSetup::new(slots, cut, CLIENT, SERVER);
    (client.credits, client.shortest_timeout) = (credits, Duration::from_millis(1));
    (client, DatagramSetup { ours: SERVER, theirs: CLIENT, ..client })
}

/// Bytes that say which they are.
pub(super) fn pattern(seed: u64, len_bytes: usize) -> Vec<u8> {
    (0..len_bytes as u64).map(|at| (seed.wrapping_mul(31).wrapping_add(at ^ at >> 8)) as u8).collect()
}

/// The sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) request: usize,
    pub(super) reply: usize,
}

pub(super) struct World {
    pub(super) client: ClientSession<TestLink>,
    pub(super) server: ServerSession<TestLink>,
    pub(super) network: LossyNetwork,
    pub(super) now: Instant,
    /// The time that each handler takes.
    pub(super) handler: Duration,
    running: Vec<(Instant, CallId, usize)>,
    /// Times that the server executed each call.
    pub(super) executed: HashMap<CallId, u32>,
    pub(super) under_way: HashMap<CallId, Sizes>,
    pub(super) done: usize,
    /// Packets that the client and the server have sent.
    pub(super) packets: (u64, u64),
    poll_again: bool,
}

impl World {
    pub(super) fn new(setup: (DatagramSetup, DatagramSetup), seed: u64, faults: PacketFaults) -> World {
        let limits = SessionLimits { slots: setup.0.slots, max_message_bytes: MAX_MESSAGE_BYTES };
        let client = Carrier::Datagram(Box::new(DatagramCarrier::client(setup.0)));
        let server = Carrier::Datagram(Box::new(DatagramCarrier::server(setup.1)));
        World {
            client: ClientSession::new(TestLink::default(), client, limits),
            server: ServerSession::new(TestLink::default(), server, limits),
            network: LossyNetwork::new(seed, faults),
            now: Instant::now(),
            handler: Duration::ZERO,
            running: Vec::new(),
            executed: HashMap::new(),
            under_way: HashMap::new(),
            done: 0,
            packets: (0, 0),
            poll_again: false,
        }
    }

    /// Starts a call; false if all slots are taken. The number of the method says how long the reply is to be.
    pub(super) fn start(&mut self, sizes: Sizes) -> bool {
        let body = pattern(sizes.request as u64, sizes.request);
        let call = NewCall { method: sizes.reply as u64, flags: 0, deadline: None, body: &body };
        self.make_room();
        match self.client.start(&call, self.now) {
            Ok(id) => {
                self.under_way.insert(id, sizes);
                self.carry();
                true
            }
            Err(NotStarted::Full) => false,
            Err(NotStarted::Refused(status)) => panic!("refused: {status}"),
        }
    }

    /// Runs until no call is under way.
    pub(super) fn finish(&mut self) {
        while !self.under_way.is_empty() {
            self.step();
        }
    }

    /// Makes all calls, as many at a time as there are slots.
    pub(super) fn call_all(&mut self, calls: impl IntoIterator<Item = Sizes>) {
        for sizes in calls {
            while !self.start(sizes) {
                self.step();
            }
        }
        self.finish();
    }

    /// Goes to the next moment at which something happens.
    pub(super) fn step(&mut self) {
        let handler = self.running.iter().map(|(at, ..)| *at).min();
        let poll = self.poll_again.then(|| self.now + Duration::from_micros(3));
        let moments = [self.network.next_arrival(), self.client.next_timer(), handler, poll];
        let next = moments.into_iter().flatten().min().expect("the calls hang: nothing will ever happen again");
        self.now = self.now.max(next);
        self.make_room();
        while let Some((toward, packet)) = self.network.arrived(self.now) {
            match toward {
                Toward::Client => self.client.on_datagram(&packet, self.now),
                Toward::Server => self.server.on_datagram(&packet, self.now),
            }
        }
        self.serve();
        self.collect();
        self.carry();
    }

    fn make_room(&mut self) {
        let busy = self.network.faults.busy;
        for link in [self.client.link(), self.server.link()] {
            link.room = if self.network.random.hits(busy) { 0 } else { usize::MAX };
            link.refused = false;
        }
    }

    fn serve(&mut self) {
        while let Some(arrived) = self.server.next(self.now) {
            assert!(matches!(arrived.body, Body::Short));
            let body = self.server.take_body();
            assert_eq!(body, pattern(body.len() as u64, body.len()), "the request is not as it was sent");
            self.server.put_body(body);
            *self.executed.entry(arrived.id).or_default() += 1;
            self.running.push((self.now + self.handler, arrived.id, arrived.method as usize));
        }
        let now = self.now;
        for (_, id, len_bytes) in self.running.extract_if(.., |(at, ..)| *at <= now) {
            let reply = pattern(u64::from(id.number), len_bytes);
            self.server.reply(id, (Code::Ok, Executed::Yes), 0, &reply, now);
        }
        assert_eq!(self.server.ended(), None);
    }

    fn collect(&mut self) {
        while let Some(finished) = self.client.next(self.now) {
            let sizes = self.under_way.remove(&finished.id).expect("a call that is under way");
            let Ok(reply) = finished.result else { panic!("no call may fail") };
            assert!(matches!(reply.body, Body::Short));
            assert!(
                self.client.body() == pattern(u64::from(finished.id.number), sizes.reply),
                "the reply of {sizes:?}"
            );
            self.done += 1;
        }
        assert_eq!(self.client.closed(), None);
    }

    /// Hands what the sessions have sent to the network.
    fn carry(&mut self) {
        self.poll_again = self.client.link().refused || self.server.link().refused;
        for packet in std::mem::take(&mut self.client.link().datagrams) {
            self.packets.0 += 1;
            self.network.send(Toward::Server, packet, self.now);
        }
        for packet in std::mem::take(&mut self.server.link().datagrams) {
            self.packets.1 += 1;
            self.network.send(Toward::Client, packet, self.now);
        }
    }

    /// The client's end.
    pub(super) fn datagram_client(&self) -> &DatagramClient {
        match self.client.carrier() {
            Carrier::Datagram(carrier) => match &**carrier {
                DatagramCarrier::Client(client) => client,
                DatagramCarrier::Server(_) => panic!("the client's end is a server's"),
            },
            _ => panic!("another way"),
        }
    }

    /// The client's and the server's counters.
    pub(super) fn counters(&self) -> (DatagramCounters, DatagramCounters) {
        match self.server.carrier() {
            Carrier::Datagram(server) => (self.datagram_client().counters(), server.counters()),
            _ => panic!("another way"),
        }
    }
}
