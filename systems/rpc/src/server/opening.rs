//! Connections that are not yet sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm::service::Uc;
use longarm::{Connection, Qpn, Unconnected};

use crate::auth::{AuthenticatedPeer, ServerDemands, Shield, Unproven};
use crate::client::random;
use crate::code::Code;
use crate::handshake::{Hello, OfferedMemory, Ready, SessionMessage, Welcome};
use crate::options::ServerOptions;
use crate::server::choice::{Wish, choose};
use crate::session::{ServerSession, SessionLimits};
use crate::session_memory::CarrierPlan;
use crate::verbs::{LinkParts, PeerKeys, Port, VerbsArea, VerbsLink};
use crate::way::Way;

/// A client that has not finished its handshake by then is sent away.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection whose client has not said everything.
pub(crate) struct OpeningSession {
    connection: Connection,
    index: u32,
    until: Instant,
    /// Chosen by the client's first message.
    shield: Option<Shield>,
    /// The client has not proved who it is: what it still says does not matter.
    is_turned_away: bool,
    welcomed: Option<Welcomed>,
}

/// The server's settings, as openings need them.
#[derive(Clone, Copy)]
pub(crate) struct OpeningRules<'a> {
    pub(crate) port: &'a Port,
    pub(crate) options: &'a ServerOptions,
    pub(crate) demands: &'a ServerDemands,
    /// Sessions whose memory the thread polls.
    pub(crate) polled: usize,
}

/// The server's half of a session to be.
struct Welcomed {
    plan: CarrierPlan,
    area: VerbsArea,
    read_area: Option<VerbsArea>,
    uc: Option<Unconnected<Uc>>,
}

/// The next step of an opening.
pub(crate) enum Step {
    /// The client has more to say.
    Wait(OpeningSession),
    /// The session with this number begins.
    Begin(u32, Box<ServerSession<VerbsLink>>, Option<Arc<AuthenticatedPeer>>),
    /// The client has not proved who it is, and has been told so.
    TurnAway(OpeningSession),
    /// There will be no session with this number: the client broke the rules, or the device refuses.
    End(u32),
}

impl OpeningSession {
    pub(crate) fn new(connection: Connection, index: u32) -> OpeningSession {
        OpeningSession {
            connection,
            index,
            until: Instant::now() + PATIENCE,
            shield: None,
            is_turned_away: false,
            welcomed: None,
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.connection.qpn()
    }

    /// True if the client takes too long, or has gone.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until || !self.connection.is_connected()
    }

    /// Handles a message of the client.
    pub(crate) fn on_message(mut self, rules: OpeningRules<'_>, message: &[u8]) -> Step {
        if self.is_turned_away {
            return Step::Wait(self);
        }
        let Some(message) = SessionMessage::decode(message) else {
            return Step::End(self.index);
        };
        let messages = match self.unseal(rules, message) {
            Ok(messages) => messages,
            Err(why) => return self.turn_away(rules.port, why),
        };
        let mut step = Step::Wait(self);
        for message in messages {
            step = match step {
                Step::Wait(opening) => opening.on_unsealed(rules, message),
                Step::Begin(index, ..) => Step::End(index),
                ended => ended,
            };
        }
        step
    }

    /// Takes the protection off a message, and answers.
    fn unseal(&mut self, rules: OpeningRules<'_>, message: SessionMessage) -> Result<Vec<SessionMessage>, Unproven> {
        if self.shield.is_none() {
            self.shield = Some(rules.demands.shield(&message)?);
        }
        let shield = self.shield.as_mut().ok_or_else(|| Unproven::new("no protection"))?;
        let unsealed = shield.open(message)?;
        self.post_all(rules.port, &unsealed.answers);
        Ok(unsealed.messages)
    }

    /// Says why there will be no session. The connection stays until the client has read it, or its patience ends.
    fn turn_away(mut self, port: &Port, why: Unproven) -> Step {
        let mut last_words = self.shield.as_mut().map(Shield::last_words).unwrap_or_default();
        let refused = SessionMessage::refused(Code::Unauthenticated, why.0);
        last_words.push(refused);
        self.post_all(port, &last_words);
        self.is_turned_away = true;
        Step::TurnAway(self)
    }

    fn on_unsealed(self, rules: OpeningRules<'_>, message: SessionMessage) -> Step {
        match (message, self.welcomed.is_some()) {
            (SessionMessage::Hello(hello), false) => self.welcome(rules, &hello),
            (SessionMessage::Ready(ready), true) => self.begin(rules, &ready),
            _ => Step::End(self.index),
        }
    }

    fn welcome(mut self, rules: OpeningRules<'_>, hello: &Hello) -> Step {
        let OpeningRules { port, options, .. } = rules;
        if let Some((code, words)) = hello.objection() {
            return self.refuse(port, code, words);
        }
        let sizes = hello.sizes.meet(&options.sizes(port.datagram_bytes()));
        let wish = Wish {
            ways: &hello.ways,
            is_forced: hello.is_forced,
            sleeps: hello.sleeps,
            typical_bytes: hello.typical_bytes,
            slot_body_bytes: sizes.slot_body_bytes(),
            polled: rules.polled,
        };
        let serves = |way: Way| options.ways.contains(&way) && way.runs_on(port.device());
        let Some((way, why)) = choose(&wish, serves) else {
            let ways: Vec<&str> = hello.ways.iter().map(|way| way.name()).collect();
            let words = format!("the server has none of the ways {}", ways.join(", "));
            return self.refuse(port, Code::FailedPrecondition, words);
        };
        let token = random();
        let plan = CarrierPlan {
            way,
            sizes,
            session: self.index,
            client_sleeps: hello.sleeps,
            client_token: hello.token,
            server_token: token,
        };
        let (areas, one_region) = (port.stores().areas(), options.tuning.one_region);
        let made = plan.server_area(areas, one_region).and_then(|area| {
            let uc = if way == Way::Herd { Some(port.uc().build()?) } else { None };
            Ok((area, plan.read_area(areas, one_region)?, uc))
        });
        let (area, read_area, uc) = match made {
            Ok(made) => made,
            Err(error) => return self.refuse(port, Code::ResourceExhausted, error.to_string()),
        };
        let own = port.ud().filter(|_| matches!(way, Way::Herd | Way::Datagram)).map(|ud| ud.address_handle());
        let (Ok(key), Ok(read_key)) = (area.key(), read_area.as_ref().map(VerbsArea::key).transpose()) else {
            return Step::End(self.index);
        };
        let memory = OfferedMemory::new(key, read_key, uc.as_ref().map(Unconnected::connection_info), own);
        let welcome = Welcome { way, why: why.into(), sizes, session: self.index, token, memory };
        if !self.send(port, &SessionMessage::Welcome(welcome)) {
            return Step::End(self.index);
        }
        self.welcomed = Some(Welcomed { plan, area, read_area, uc });
        Step::Wait(self)
    }

    fn begin(mut self, rules: OpeningRules<'_>, ready: &Ready) -> Step {
        let OpeningRules { port, options, .. } = rules;
        let peer = self.shield.as_ref().and_then(Shield::peer);
        let keys = ready.memory.keys().zip(self.welcomed.take());
        let Some(((written, read), Welcomed { plan, area, read_area, uc })) = keys else {
            return Step::End(self.index);
        };
        if !plan.fits_client(&written) {
            return Step::End(self.index);
        }
        let carrier = plan.server();
        let uc = match (uc, ready.memory.uc()) {
            (Some(uc), Some(info)) => uc.connect(&info).ok(),
            _ => None,
        };
        if plan.way == Way::Herd && uc.is_none() {
            return Step::End(self.index);
        }
        let datagrams = port.ud().cloned().zip(ready.memory.ud());
        if matches!(plan.way, Way::Herd | Way::Datagram) && datagrams.is_none() {
            return Step::End(self.index);
        }
        let parts = LinkParts { qp: self.connection, uc, datagrams, area, read_area, peer: PeerKeys { written, read } };
        let link = VerbsLink::new(parts, port.stores(), options.tuning);
        let sizes = plan.sizes;
        let limits = SessionLimits { slots: sizes.slots, max_message_bytes: sizes.max_message_bytes as usize };
        Step::Begin(self.index, Box::new(ServerSession::new(link, carrier, limits)), peer)
    }

    fn refuse(mut self, port: &Port, code: Code, words: String) -> Step {
        self.send(port, &SessionMessage::refused(code, words.clone()));
        // The connection stays until the client has read it, or its patience ends.
        Step::Wait(self)
    }

    /// Sends a message with the protection of the handshake.
    fn send(&mut self, port: &Port, message: &SessionMessage) -> bool {
        let sealed = self.shield.as_mut().and_then(|shield| shield.seal(message).ok());
        sealed.is_some_and(|sealed| sealed.iter().all(|message| self.post(port, message)))
    }

    /// Sends messages to a client that may have gone: if the device refuses one, the client's patience ends.
    fn post_all(&self, port: &Port, messages: &[SessionMessage]) {
        let _ = messages.iter().all(|message| self.post(port, message));
    }

    fn post(&self, port: &Port, message: &SessionMessage) -> bool {
        let buffer = port.stores().filled(&[&message.encode()]);
        buffer.is_some_and(|buffer| self.connection.send(buffer).post().is_ok())
    }
}
