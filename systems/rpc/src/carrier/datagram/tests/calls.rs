//! Every call ends, with the right bytes, once.

use std::time::Duration;

use proptest::prelude::*;

use crate::carrier::datagram::tests::network::PacketFaults;
use crate::carrier::datagram::tests::world::{Sizes, World, setups};

const CREDITS: u32 = 32;
const MTU_BYTES: usize = 1024;
/// Bytes of a body in one packet: less the packet's header and the frame's.
const PAYLOAD_BYTES: usize = MTU_BYTES - 16 - 24;
const BAD: PacketFaults = PacketFaults { loss: 50, doubled: 20, late: 50, busy: 20 };

/// Asserts that all is as if no call had ever been.
fn assert_quiet(world: &World, calls: usize) {
    assert_eq!(world.done, calls);
    assert_eq!(world.datagram_client().credits_free(), CREDITS, "credits are lost");
    assert!(world.executed.values().all(|times| *times == 1), "a handler ran twice");
    assert_eq!(world.executed.len(), calls);
    let (client, server) = world.counters();
    assert_eq!((client.malformed, server.malformed), (0, 0), "an honest packet was taken for a malformed one");
    assert_eq!((client.foreign, server.foreign), (0, 0));
}

#[test]
fn on_a_good_network_a_short_call_is_two_packets() {
    let mut world = World::new(setups(8, CREDITS, MTU_BYTES), 1, PacketFaults::default());
    world.call_all([Sizes { request: 0, reply: 0 }, Sizes { request: PAYLOAD_BYTES, reply: PAYLOAD_BYTES }]);
    assert_eq!(world.packets, (2, 2));
    assert_quiet(&world, 2);
}

#[test]
fn on_a_good_network_a_call_has_as_many_packets_as_the_paper_says() {
    let mut world = World::new(setups(8, CREDITS, MTU_BYTES), 1, PacketFaults::default());
    world.call_all([Sizes { request: 3 * PAYLOAD_BYTES, reply: PAYLOAD_BYTES + 1 }]);
    // Three parts and a pull; two credits and two parts of the reply.
    assert_eq!(world.packets, (4, 4));
    assert_quiet(&world, 1);
}

#[test]
fn calls_of_all_sizes_survive_loss_doubling_reordering_and_a_busy_device() {
    let lengths = [0, 1, PAYLOAD_BYTES - 1, PAYLOAD_BYTES, PAYLOAD_BYTES + 1, 100_000];
    for seed in 0..8 {
        let mut world = World::new(setups(16, CREDITS, MTU_BYTES), seed, BAD);
        let calls: Vec<Sizes> = lengths
            .iter()
            .flat_map(|request| lengths.iter().map(|reply| Sizes { request: *request, reply: *reply }))
            .collect();
        world.call_all(calls.iter().copied());
        assert_quiet(&world, calls.len());
        assert!(world.counters().0.timeouts > 0, "the network lost nothing");
    }
}

#[test]
fn the_longest_messages_survive_too() {
    let faults = PacketFaults { loss: 2, doubled: 2, late: 2, busy: 2 };
    for (mtu_bytes, seed) in [(1024, 1), (4096, 2)] {
        let mut world = World::new(setups(4, CREDITS, mtu_bytes), seed, faults);
        world.call_all([Sizes { request: 8 << 20, reply: 8 << 20 }, Sizes { request: 1, reply: 1 }]);
        assert_quiet(&world, 2);
    }
}

#[test]
fn many_slots_share_few_credits() {
    for seed in 0..4 {
        let mut world = World::new(setups(64, CREDITS, MTU_BYTES), seed, BAD);
        world.handler = Duration::from_micros(300);
        world.call_all((0..500).map(|turn| Sizes { request: turn * 7, reply: turn * 5 }));
        assert_quiet(&world, 500);
    }
}

#[test]
fn a_dead_network_is_asked_more_and_more_seldom() {
    let mut world = World::new(setups(1, CREDITS, MTU_BYTES), 1, PacketFaults { loss: 1000, ..Default::default() });
    world.start(Sizes { request: 1, reply: 1 });
    let end = world.now + Duration::from_secs(10);
    while world.now < end {
        world.step();
    }
    assert!(world.packets.0 < 30, "{} packets in ten seconds", world.packets.0);
    world.network.faults.loss = 0;
    world.finish();
    assert_quiet(&world, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_calls_survive_any_faults(
        seed: u64,
        (loss, doubled, late, busy) in (0..200u64, 0..200u64, 0..300u64, 0..300u64),
        handler_us in 0..5000u64,
        mtu_bytes in 64..300usize,
        calls in prop::collection::vec((0..3000usize, 0..3000usize), 1..40),
    ) {
        let mut world = World::new(setups(5, CREDITS, mtu_bytes), seed, PacketFaults { loss, doubled, late, busy });
        world.handler = Duration::from_micros(handler_us);
        world.call_all(calls.iter().map(|(request, reply)| Sizes { request: *request, reply: *reply }));
        assert_quiet(&world, calls.len());
    }
}
