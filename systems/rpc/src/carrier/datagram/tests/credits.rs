//! Credits and the window: how many packets are under way, and when slow handlers are asked.

use std::time::Duration;

use crate::carrier::datagram::tests::network::PacketFaults;
use crate::carrier::datagram::tests::world::{Sizes, World, setups};

const SHORT: Sizes = Sizes { request: 10, reply: 10 };

#[test]
fn no_more_packets_are_under_way_than_there_are_credits() {
    let mut world = World::new(setups(64, 4, 256), 1, PacketFaults::default());
    world.start(Sizes { request: 100_000, reply: 0 });
    assert_eq!(world.packets.0, 4);
    assert_eq!(world.datagram_client().credits_free(), 0);
    world.start(SHORT);
    assert_eq!(world.packets.0, 4, "the second call waits");
    world.finish();
    assert_eq!(world.datagram_client().credits_free(), 4);
}

#[test]
fn calls_take_turns() {
    let mut world = World::new(setups(4, 2, 256), 1, PacketFaults::default());
    world.start(Sizes { request: 100_000, reply: 0 });
    world.start(SHORT);
    while world.done == 0 {
        world.step();
    }
    assert!(world.packets.0 < 10, "the short call waited for the long one: {} packets", world.packets.0);
    world.finish();
}

#[test]
fn slow_handlers_are_asked_seldom_and_hold_no_credits() {
    let mut world = World::new(setups(64, 4, 256), 1, PacketFaults::default());
    world.handler = Duration::from_secs(2);
    for _ in 0..64 {
        assert!(world.start(SHORT));
    }
    let end = world.now + Duration::from_secs(1);
    while world.executed.len() < 64 || world.datagram_client().credits_free() < 4 {
        world.step();
    }
    assert!(world.now < end, "slow calls kept the others from the server");
    while world.now < end {
        world.step();
    }
    assert_eq!(world.datagram_client().window(), 4, "a slow handler is no congestion");
    let client_packets = world.packets.0;
    world.finish();
    assert!(client_packets < 64 * 12, "{client_packets} packets in a second: a storm");
    assert_eq!(world.datagram_client().credits_free(), 4);
}

#[test]
fn a_lost_reply_of_a_slow_handler_is_asked_for() {
    let mut world = World::new(setups(1, 4, 256), 1, PacketFaults::default());
    world.handler = Duration::from_millis(100);
    world.start(SHORT);
    let replied = world.now + world.handler;
    while world.now < replied - Duration::from_millis(1) {
        world.step();
        if world.client.next_timer().is_some_and(|timer| timer > replied) {
            break;
        }
    }
    world.network.faults.loss = 1000;
    while world.server.running() > 0 {
        world.step();
    }
    world.network.faults.loss = 0;
    world.finish();
    assert_eq!(world.done, 1);
    assert!(world.counters().1.repeated >= 2, "it asked while the handler ran, and after that");
}

#[test]
fn handlers_do_not_count_as_round_trip() {
    let mut world = World::new(setups(1, 8, 256), 1, PacketFaults::default());
    world.handler = Duration::from_micros(900);
    world.call_all([SHORT; 200]);
    assert_eq!(world.datagram_client().window(), 8);
    assert_eq!(world.counters().0.timeouts, 0);
}

#[test]
fn a_slow_network_closes_the_window_and_a_fast_one_opens_it() {
    let mut world = World::new(setups(32, 32, 256), 1, PacketFaults::default());
    world.call_all([SHORT; 100]);
    assert_eq!(world.datagram_client().window(), 32, "an uncongested session uses all credits");
    world.network.delay = Duration::from_millis(2);
    world.call_all([SHORT; 600]);
    let closed = world.datagram_client().window();
    assert!(closed <= 4, "{closed} packets are under way on a network with long queues");
    world.network.delay = Duration::from_micros(5);
    world.call_all([SHORT; 2000]);
    assert_eq!(world.datagram_client().window(), 32);
}

#[test]
fn the_server_forgets_long_replies_that_have_arrived() {
    let mut world = World::new(setups(1, 32, 1024), 1, PacketFaults::default());
    world.call_all([Sizes { request: 1, reply: 200_000 }]);
    // A part of the request, 198 pulls for the 199 parts of the reply, and the hint.
    assert_eq!(world.packets, (200, 199));
    world.call_all([SHORT, SHORT]);
    assert_eq!(world.done, 3);
    assert_eq!(world.counters().1.stale, 0, "the hint came in time");
}
