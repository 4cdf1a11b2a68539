//! Peers that write garbage: no panic, no access outside of the frames, an end to every call.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use faults::Rng;
use memory::{Access, PdId, RemoteKeys, SharedKey};
use proptest::prelude::*;
use wire::{Qpn, RKey};

use crate::cells::{Broken, Cells, RingReceiver, RingSender, cells_of};
use crate::layout::{ExportArea, LinkArea, MAX_FRAME_BYTES};
use crate::testing::Couple;
use crate::{Death, LANES, SharedQp};

/// One end's use of its link in a round.
fn use_link(couple: &Couple, rng: &mut Rng) {
    let [a, b] = &couple.links;
    let lane = rng.next_u64() as usize % LANES;
    {
        let mut producer = a.producer(lane);
        let len = rng.next_u64() as usize % (MAX_FRAME_BYTES + 1);
        if let Some(mut room) = producer.reserve(len) {
            room.write(0, &vec![7; len]);
            room.commit();
        }
    }
    let lanes = a.waiting();
    for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
        let Some(mut consumer) = a.consumer(lane) else { continue };
        for _ in 0..20 {
            let Some(frame) = consumer.peek() else { break };
            assert!(frame.len_bytes() <= MAX_FRAME_BYTES);
            let mut out = vec![0; frame.len_bytes()];
            assert!(frame.copy_out(0, &mut out));
            frame.release();
        }
    }
    drop(a.enter(rng.next_u64() as u16));
    let _ = (a.standing(), a.decide(), b.waiting(), a.peer().is_asleep());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn garbage_in_the_link_hurts_nobody_else(seed in 1u64.., small in any::<bool>()) {
        let couple = Couple::new();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::new(seed);
                let memory = couple.link_memory();
                while !stop.load(Relaxed) {
                    // Small values do more damage.
                    let value = if small { rng.next_u64() % 5000 } else { rng.next_u64() };
                    let place = rng.next_u64() as usize % (size_of::<LinkArea>() / 8) * 8;
                    memory.part(place, 8).expect("inside").write(&value.to_ne_bytes());
                    // The words before the rings are written more often.
                    let place = rng.next_u64() as usize % 1024 * 8;
                    memory.part(place, 8).expect("inside").write(&value.to_ne_bytes());
                }
            });
            let mut rng = Rng::new(seed ^ 0x5555);
            for _ in 0..300 {
                use_link(&couple, &mut rng);
            }
            stop.store(true, Relaxed);
        });
        let deaths = couple.links.each_ref().map(|link| link.death());
        prop_assert!(deaths.iter().all(|death| matches!(death, None | Some(Death::BrokenRing))));
    }

    #[test]
    fn garbage_in_an_export_is_no_key_or_some_key(seed in 1u64.., rkeys in prop::collection::vec(any::<u32>(), 50)) {
        let couple = Couple::new();
        let (memory, peer) = (couple.exports[1].memory(), couple.links[0].peer());
        let mut rng = Rng::new(seed);
        for rkey in rkeys {
            let slot = crate::testing::plain_keys().slot(RKey(rkey)) as usize;
            let first = size_of::<ExportArea>() - (1 << 20) * 64 + slot * 64;
            for word in 0..8 {
                memory.part(first + word * 8, 8).expect("inside").write(&rng.next_u64().to_ne_bytes());
            }
            memory.part(first + 4, 4).expect("inside").write(&rkey.to_ne_bytes());
            if let Some(key) = peer.key(RKey(rkey)).map(|known| known.value) {
                prop_assert_eq!(key.rkey, RKey(rkey));
                prop_assert!(Access::all().contains(key.access));
            }
            prop_assert!(peer.qp(Qpn::new(rkey)).is_none());
        }
        prop_assert!(couple.exports[1].add_slot(0));
        couple.exports[1].open_qp(&SharedQp { qpn: Qpn::new(1), peer: Qpn::new(2), pd: PdId(0), access: Access::empty() });
        prop_assert!(peer.qp(Qpn::new(1)).is_some());
    }

    #[test]
    fn any_header_is_a_frame_within_the_ring_or_breaks_it(header in any::<u64>(), length in 0u32..20000, plausible in any::<bool>()) {
        let couple = Couple::new();
        let ring = &couple.links[0].area.ends[1].rings[0];
        let header = if plausible { 1 << 32 | u64::from(length) } else { header };
        ring.header(0).store(header, Relaxed);
        match RingReceiver::default().peek(ring) {
            Ok(Some(found)) => {
                prop_assert!(found.body_bytes <= MAX_FRAME_BYTES && header >> 32 == 1);
                prop_assert!(found.index as u64 + cells_of(found.body_bytes) <= 2048);
            }
            Ok(None) => prop_assert!(header == 0 || header as u32 == u32::MAX),
            Err(Broken) => prop_assert!(header != 0),
        }
    }

    #[test]
    fn a_position_that_no_consumer_has_breaks_the_ring(head in any::<u64>()) {
        let couple = Couple::new();
        let ring = &couple.links[0].area.ends[0].rings[0];
        let mut sender = RingSender::default();
        while let Ok(Some(_)) = sender.reserve(ring, 56) {
            sender.commit(ring, 56);
        }
        ring.head().store(head, Relaxed);
        match sender.reserve(ring, 56) {
            Ok(_) => prop_assert!(head <= 2047),
            Err(Broken) => prop_assert!(head > 2047),
        }
    }
}

#[test]
fn a_record_that_never_stands_still_is_no_key() {
    let couple = Couple::new();
    let keys = RemoteKeys::from_words(&[0; RemoteKeys::WORDS]).expect("as many words");
    let rkey = RKey(0x99);
    let key = SharedKey {
        rkey,
        pd: PdId(0),
        access: Access::REMOTE_READ,
        only: None,
        base: 0,
        len_bytes: 1,
        start: 0,
        place: None,
    };
    couple.exports[1].open_key(keys.slot(rkey), &key);
    let first = size_of::<ExportArea>() - (1 << 20) * 64 + keys.slot(rkey) as usize * 64;
    let sequence = couple.exports[1].memory().part(first, 4).expect("inside");
    assert!(couple.links[0].peer().key(rkey).is_some());
    sequence.write(&7u32.to_ne_bytes());
    assert_eq!(couple.links[0].peer().key(rkey).map(|known| known.value), None);
}

#[test]
fn a_wait_on_garbage_ends_with_its_writer() {
    let couple = Couple::new();
    for place in (0..4096).step_by(8) {
        // All words before the rings of the first end.
        couple.link_memory().part(place, 8).expect("inside").write(&[0x5b; 8]);
    }
    let [a, b] = couple.links;
    drop(a);
    b.wait_for_peer_accesses();
    assert_eq!(b.death(), Some(Death::Gone));
}

#[test]
fn words_that_the_peer_has_taken_for_us_stop_nobody_for_ever() {
    let couple = Couple::new();
    couple.link_memory().part(0, 8192).expect("inside").write(&[0x5b; 8192]);
    let [a, b] = couple.links;
    drop(b);
    assert!(a.enter(3).is_none());
    assert_eq!(a.death(), Some(Death::Gone));
}
