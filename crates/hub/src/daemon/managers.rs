//! The clients that manage connections: their numbers, closing messages and counters.
//!
//! A peer may still send MADs to a process that is gone. They must not reach another process with the same
//! number. So a freed number is used again only after all others.

use super::response::ClientId;
use crate::closing_messages::ClosingMessages;
use std::collections::BTreeMap;

/// The highest number: communication ids have 12 bits for it.
const HIGHEST: u16 = 4095;

/// A client that manages connections.
#[derive(Debug)]
pub(super) struct ManagingClient {
    /// The high bits of its communication ids.
    pub(super) number: u16,
    pub(super) closing: ClosingMessages,
    /// MADs that it has sent.
    pub(super) mads_sent: u64,
}

/// All of them, by connection and by number.
#[derive(Debug)]
pub(super) struct Managers {
    clients: BTreeMap<ClientId, ManagingClient>,
    by_number: BTreeMap<u16, ClientId>,
    next: u16,
}

impl Managers {
    /// None yet. The numbers begin at `start`: clients of an earlier hub may come back with theirs.
    pub(super) fn new(start: u16) -> Managers {
        Managers { clients: BTreeMap::new(), by_number: BTreeMap::new(), next: start % HIGHEST + 1 }
    }

    /// Adds a client with the wanted number if that is free, else with the next free one. Returns the
    /// number; `None` if there is none.
    pub(super) fn add(&mut self, id: ClientId, wanted: Option<u16>) -> Option<u16> {
        let number = match wanted.filter(|number| self.is_free(*number)) {
            Some(number) => number,
            None => self.next_number()?,
        };
        let client = ManagingClient { number, closing: ClosingMessages::default(), mads_sent: 0 };
        let before = self.clients.insert(id, client);
        assert!(before.is_none(), "a client gets one number");
        self.by_number.insert(number, id);
        Some(number)
    }

    /// Forgets a client and frees its number.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<ManagingClient> {
        let client = self.clients.remove(&id)?;
        let owner = self.by_number.remove(&client.number);
        assert_eq!(owner, Some(id), "a number has one owner");
        Some(client)
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&ManagingClient> {
        self.clients.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut ManagingClient> {
        self.clients.get_mut(&id)
    }

    /// The client with a number.
    pub(super) fn with_number(&self, number: u16) -> Option<ClientId> {
        self.by_number.get(&number).copied()
    }

    /// All clients, in the order of their numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.by_number.values().copied()
    }

    fn next_number(&mut self) -> Option<u16> {
        let round = (0..HIGHEST).map(|i| (self.next - 1 + i) % HIGHEST + 1);
        let number = round.into_iter().find(|number| self.is_free(*number))?;
        self.next = number % HIGHEST + 1;
        Some(number)
    }

    fn is_free(&self, number: u16) -> bool {
        (1..=HIGHEST).contains(&number) && !self.by_number.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_is_used_after_all_others() {
        let mut managers = Managers::new(4093);
        let taken: Vec<_> = (0..4).map(|id| managers.add(id, None).unwrap()).collect();
        assert_eq!(taken, [4094, 4095, 1, 2]);
        assert_eq!(managers.remove(2).map(|client| client.number), Some(1));
        assert_eq!((managers.with_number(1), managers.with_number(2)), (None, Some(3)));
        assert_eq!(managers.add(9, None), Some(3));
    }

    #[test]
    fn the_wanted_number_is_given_if_it_is_free() {
        let mut managers = Managers::new(0);
        assert_eq!(managers.add(1, Some(77)), Some(77));
        assert_eq!(managers.add(2, Some(77)), Some(1), "taken");
        assert_eq!(managers.add(3, Some(0)), Some(2), "no number");
        assert_eq!(managers.add(4, Some(4096)), Some(3), "no number");
        assert_eq!(managers.ids().collect::<Vec<_>>(), [2, 3, 4, 1]);
        managers.remove(1);
        assert_eq!(managers.add(5, Some(77)), Some(77), "free again");
    }

    #[test]
    fn there_are_4095_numbers() {
        for start in [0, 1, 4094, 4095, u16::MAX] {
            let mut managers = Managers::new(start);
            let all: std::collections::BTreeSet<_> = (0..4095).map(|id| managers.add(id, None).unwrap()).collect();
            assert_eq!((all.first(), all.last(), all.len()), (Some(&1), Some(&4095), 4095));
            assert_eq!(managers.add(9999, None), None);
            assert_eq!(managers.add(9999, Some(7)), None);
            let owner = managers.with_number(7).unwrap();
            managers.remove(owner);
            assert_eq!(managers.add(9999, None), Some(7));
        }
    }
}
