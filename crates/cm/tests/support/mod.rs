//! Two managers and the messages between them.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::time::Duration;

use cm::{
    CmEvent, Config, ConnId, ConnectReply, ConnectRequest, MadRoute, Manager, ManagerOutput, RequestReceived,
    SidrReply, SidrRequest,
};
use wire::mad::{self, Attribute, CmMessage};
use wire::{Psn, QKey, Qpn};

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;
pub const SERVICE: u64 = 0x0106_1c06;

/// Two ends, the messages in each direction, and the ends' events.
pub struct Pair {
    pub now: Duration,
    pub ends: [Manager; 2],
    /// Messages to each end.
    pub inbox: [VecDeque<[u8; 256]>; 2],
    pub events: [VecDeque<(ConnId, CmEvent)>; 2],
}

pub fn route(of: usize) -> MadRoute {
    let ip = |end: usize| [10, 0, 0, end as u8 + 1].into();
    MadRoute { local: ip(of), remote: ip(1 - of), interface: 0, traffic_class: 0 }
}

pub fn request() -> ConnectRequest<'static> {
    ConnectRequest::new(route(CLIENT), SERVICE, Qpn::new(0x11), Psn::new(0x100))
}

pub fn reply() -> ConnectReply<'static> {
    ConnectReply::new(Qpn::new(0x22), Psn::new(0x200))
}

pub fn sidr_reply() -> SidrReply<'static> {
    let ece = cm::Ece::default();
    SidrReply { status: 0, qpn: Qpn::new(0x33), qkey: QKey(0x1234), ece, info: &[], private_data: &[7] }
}

pub fn sidr_request() -> SidrRequest<'static> {
    SidrRequest::new(route(CLIENT), SERVICE)
}

pub fn attribute(mad: &[u8; 256]) -> Attribute {
    mad::attribute(mad).expect("a message of the connection manager")
}

pub fn message(mad: &[u8; 256]) -> CmMessage {
    mad::decode(mad).expect("a message of the connection manager").1
}

impl Default for Pair {
    fn default() -> Pair {
        let end = |end: u16| Manager::new(Config::new(end + 1, 0xaaaa_0000 + u64::from(end), u64::from(end) + 7));
        Pair {
            now: Duration::from_secs(1),
            ends: [end(0), end(1)],
            inbox: Default::default(),
            events: Default::default(),
        }
    }
}

impl Pair {
    /// Moves an end's messages into the other's inbox, and its events to `events`.
    pub fn collect(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some(output) = self.ends[end].poll() {
                match output {
                    ManagerOutput::Send { route: way, mad } => {
                        assert_eq!((way.local, way.remote), (route(end).local, route(end).remote));
                        self.inbox[1 - end].push_back(mad);
                    }
                    ManagerOutput::Event { id, event } => self.events[end].push_back((id, event)),
                }
            }
        }
    }

    /// Takes the messages for an end, which are lost to it.
    pub fn take(&mut self, end: usize) -> Vec<Attribute> {
        self.collect();
        self.inbox[end].drain(..).map(|mad| attribute(&mad)).collect()
    }

    /// Delivers one message.
    pub fn give(&mut self, end: usize, mad: &[u8; 256]) {
        self.ends[end].receive(self.now, &route(end), mad);
        self.collect();
    }

    /// Delivers messages until there are none.
    pub fn deliver(&mut self) {
        self.collect();
        loop {
            let Some(end) = [SERVER, CLIENT].into_iter().find(|end| !self.inbox[*end].is_empty()) else {
                return;
            };
            let mad = self.inbox[end].pop_front().expect("one is there");
            self.give(end, &mad);
        }
    }

    /// Time passes for both ends.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.ends.iter_mut().for_each(|end| end.expire(self.now));
        self.collect();
    }

    /// Time passes until the next timer of an end; false if it has none.
    pub fn next_timer(&mut self, end: usize) -> bool {
        let Some(next) = self.ends[end].next_timeout() else {
            return false;
        };
        self.now = self.now.max(next);
        self.ends[end].expire(self.now);
        self.collect();
        true
    }

    /// The only event of an end.
    pub fn event(&mut self, end: usize) -> (ConnId, CmEvent) {
        self.collect();
        let event = self.events[end].pop_front().expect("an event");
        assert!(self.events[end].is_empty(), "more than one event: {:?}", self.events[end]);
        event
    }

    pub fn no_event(&mut self) {
        self.collect();
        assert!(self.events.iter().all(VecDeque::is_empty), "events: {:?}", self.events);
    }

    /// A REQ that has arrived: ids of client and server.
    pub fn requested(&mut self) -> (ConnId, ConnId) {
        let client = self.ends[CLIENT].connect(self.now, &request()).expect("a free id");
        self.deliver();
        let (server, event) = self.event(SERVER);
        assert!(matches!(event, CmEvent::Request(RequestReceived { service_id: SERVICE, .. })));
        (client, server)
    }

    /// A REP that has arrived.
    pub fn replied(&mut self) -> (ConnId, ConnId) {
        let (client, server) = self.requested();
        self.ends[SERVER].accept(self.now, server, &reply()).expect("the right state");
        self.deliver();
        let (id, event) = self.event(CLIENT);
        assert!(id == client && matches!(event, CmEvent::Reply(_)), "{event:?}");
        (client, server)
    }

    /// An established connection.
    pub fn connected(&mut self) -> (ConnId, ConnId) {
        let (client, server) = self.replied();
        self.ends[CLIENT].confirm(self.now, client, &[]).expect("the right state");
        self.deliver();
        let (id, event) = self.event(SERVER);
        assert!(id == server && matches!(event, CmEvent::ReadyToUse { .. }), "{event:?}");
        (client, server)
    }

    /// Destroys the ids, waits for everything to end, and checks that nothing is left.
    pub fn finish(&mut self, ids: (ConnId, ConnId)) {
        self.ends[CLIENT].destroy(self.now, ids.0);
        self.ends[SERVER].destroy(self.now, ids.1);
        self.drain();
    }

    /// Lets time pass until no timer runs.
    pub fn drain_time(&mut self) {
        for _ in 0..1000 {
            if !self.next_timer(CLIENT) && !self.next_timer(SERVER) {
                return;
            }
            self.deliver();
        }
        panic!("a timer runs for ever");
    }

    /// Lets time pass until nothing is left.
    pub fn drain(&mut self) {
        self.deliver();
        self.drain_time();
        assert_eq!([0, 1].map(|end: usize| self.ends[end].ids_in_use()), [0, 0]);
        assert_eq!([0, 1].map(|end: usize| self.ends[end].next_timeout()), [None, None]);
    }
}
