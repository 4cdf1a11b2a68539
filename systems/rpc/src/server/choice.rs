//! The choice of a way for a client that leaves it open.

use crate::way::Way;

/// Sessions whose memory one thread polls at most, unless clients force the way. Each adds a look to every round, also
/// while it is idle. 64 busy rings carry four times as many calls as 64 sessions of *immediate* (docs/rpc-ways.md).
const MOST_POLLED: usize = 64;
/// Messages longer than a slot, up to this length, are faster as packets than as a READ of the peer's memory.
const MOST_AS_PACKETS: u32 = 8 << 10;

/// The facts that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// The ways that the client offers.
    pub(crate) ways: &'a [Way],
    pub(crate) is_forced: bool,
    /// The client sleeps while it waits, so replies must cause completions.
    pub(crate) sleeps: bool,
    /// The length of the messages that the client expects to send and to receive.
    pub(crate) typical_bytes: u32,
    /// The longest message that the slots of the ways with slots hold.
    pub(crate) slot_body_bytes: u32,
    /// Sessions of the polling thread whose memory it polls.
    pub(crate) polled: usize,
}

/// The way and the reason in words; `None` if the server has none of those that the client offers.
pub(crate) fn choose(wish: &Wish<'_>, serves: impl Fn(Way) -> bool) -> Option<(Way, &'static str)> {
    let has = |way: Way| wish.ways.contains(&way) && serves(way);
    if wish.is_forced {
        return wish.ways.iter().copied().find(|way| serves(*way)).map(|way| (way, "the client forces it"));
    }
    let may_poll = !wish.sleeps && wish.polled < MOST_POLLED;
    let is_middling = wish.typical_bytes > wish.slot_body_bytes && wish.typical_bytes <= MOST_AS_PACKETS;
    let order: [(bool, Way, &str); 6] = [
        (may_poll, Way::Ring, "the client polls, and the server polls for few"),
        (is_middling, Way::Datagram, "messages are longer than a slot and take few packets, which need no READ"),
        (true, Way::Immediate, "completions tell of requests: the server polls no memory and may sleep"),
        (true, Way::Datagram, "completions tell of requests, and the device has no immediate data"),
        (true, Way::Ring, "the device has neither immediate data nor datagrams"),
        (true, Way::Fetch, "it is the only one that both have"),
    ];
    order.into_iter().find(|(fits, way, _)| *fits && has(*way)).map(|(_, way, why)| (way, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish<'static> =
        Wish { ways: &Way::ALL, is_forced: false, sleeps: false, typical_bytes: 64, slot_body_bytes: 480, polled: 0 };

    fn chosen(wish: Wish<'_>, served: &[Way]) -> Option<Way> {
        choose(&wish, |way| served.contains(&way)).map(|(way, _)| way)
    }

    #[test]
    fn clients_that_poll_have_rings_until_the_server_polls_many() {
        assert_eq!(chosen(WISH, &Way::ALL), Some(Way::Ring));
        assert_eq!(chosen(Wish { polled: MOST_POLLED, ..WISH }, &Way::ALL), Some(Way::Immediate));
        assert_eq!(chosen(Wish { sleeps: true, ..WISH }, &Way::ALL), Some(Way::Immediate));
    }

    #[test]
    fn messages_that_no_slot_holds_are_packets_if_these_are_few() {
        for (typical_bytes, way) in
            [(480, Way::Immediate), (481, Way::Datagram), (8192, Way::Datagram), (8193, Way::Immediate)]
        {
            let wish = Wish { sleeps: true, typical_bytes, ..WISH };
            assert_eq!(chosen(wish, &Way::ALL), Some(way), "{typical_bytes} bytes");
            assert_eq!(chosen(wish, &[Way::Immediate]), Some(Way::Immediate));
        }
    }

    #[test]
    fn a_device_without_immediate_data_has_what_is_left() {
        let sleeps = Wish { sleeps: true, ..WISH };
        assert_eq!(chosen(sleeps, &[Way::Ring, Way::Datagram, Way::Herd]), Some(Way::Datagram));
        assert_eq!(chosen(sleeps, &[Way::Ring, Way::Fetch]), Some(Way::Ring));
        assert_eq!(chosen(sleeps, &[Way::Fetch]), Some(Way::Fetch));
    }

    #[test]
    fn force_and_lack_are_obeyed() {
        let forced = Wish { ways: &[Way::Herd], is_forced: true, ..WISH };
        assert_eq!(chosen(forced, &Way::ALL), Some(Way::Herd));
        assert_eq!(chosen(forced, &[Way::Ring]), None);
        assert_eq!(chosen(Wish { ways: &[Way::Ring], ..WISH }, &[Way::Fetch]), None);
    }
}
