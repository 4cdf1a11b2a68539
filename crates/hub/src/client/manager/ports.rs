//! The bound ports of a session, as a new hub must know them.

use crate::message::{BindRefusal, BindSpec, HubRequest};
use std::collections::{BTreeMap, BTreeSet};

/// The hub's answer about a port: the port, or the refusal.
pub(super) type PortAnswer = Result<u16, BindRefusal>;

/// A bound port.
#[derive(Clone, Copy, Debug)]
struct PortRecord {
    spec: BindSpec,
    listening: bool,
}

/// All bound ports by token.
#[derive(Debug, Default)]
pub(super) struct BoundPorts {
    by_token: BTreeMap<u64, PortRecord>,
    /// Ports that a new hub has yet to answer about.
    unconfirmed: BTreeSet<u64>,
    next_token: u64,
}

impl BoundPorts {
    /// A token that was never used.
    pub(super) fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    pub(super) fn contains(&self, token: u64) -> bool {
        self.by_token.contains_key(&token)
    }

    /// The hub has bound a port.
    pub(super) fn add(&mut self, token: u64, mut spec: BindSpec, port: u16) {
        spec.address.set_port(port);
        let before = self.by_token.insert(token, PortRecord { spec, listening: false });
        assert!(before.is_none(), "a token is used once");
    }

    /// The hub has made a port a listening one, unless the port was lost in the meantime.
    pub(super) fn set_listening(&mut self, token: u64) {
        if let Some(port) = self.by_token.get_mut(&token) {
            port.listening = true;
        }
    }

    /// Forgets a port. Returns whether there was one.
    pub(super) fn remove(&mut self, token: u64) -> bool {
        self.by_token.remove(&token).is_some()
    }

    /// The requests that give a new hub all ports.
    pub(super) fn bind_again(&mut self) -> Vec<HubRequest> {
        self.unconfirmed = self.by_token.keys().copied().collect();
        let requests = self.by_token.iter().map(|(token, port)| HubRequest::Bind {
            token: *token,
            spec: port.spec,
            listening: port.listening,
            again: true,
        });
        requests.collect()
    }

    /// Whether an answer is to one of those requests. The next answer about this port is not.
    pub(super) fn take_unconfirmed(&mut self, token: u64) -> bool {
        self.unconfirmed.remove(&token)
    }
}
