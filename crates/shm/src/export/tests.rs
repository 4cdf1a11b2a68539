use memory::{Access, ObjectPlace, PdId, SharedKey};
use wire::{Qpn, RKey};

use super::*;
use crate::testing::Couple;

fn key(rkey: u32) -> SharedKey {
    SharedKey {
        rkey: RKey(rkey),
        pd: PdId(3),
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        only: Some(Qpn::new(0x12345)),
        base: 0x1000,
        len_bytes: 1 << 40,
        start: 0x7f00_0000_1000,
        place: Some(ObjectPlace { object: 5, offset: 4096, skip_front: 100, skip_back: 4095 }),
    }
}

/// The slot in which a peer searches for the key.
fn slot(rkey: u32) -> u32 {
    crate::testing::plain_keys().slot(RKey(rkey))
}

#[test]
fn a_peer_sees_keys_while_they_are_open() {
    let couple = Couple::new();
    let (export, peer) = (&couple.exports[1], couple.links[0].peer());
    let key = key(0x1234_5678);
    assert_eq!(peer.key(key.rkey).map(|known| known.value), None);
    export.open_key(slot(key.rkey.0), &key);
    assert_eq!(peer.key(key.rkey).map(|known| known.value), Some(key));
    // Another key of the same slot.
    assert_eq!(peer.key(RKey(key.rkey.0 ^ 1)).map(|known| known.value), None);
    let plain = SharedKey { only: None, place: None, ..key };
    export.open_key(slot(key.rkey.0), &plain);
    assert_eq!(peer.key(key.rkey).map(|known| known.value), Some(plain));
    export.close_key(slot(key.rkey.0));
    assert_eq!(peer.key(key.rkey).map(|known| known.value), None);
    assert_eq!(peer.key(RKey(0)).map(|known| known.value), None);
}

#[test]
fn a_place_that_does_not_fit_the_record_is_not_shown() {
    let couple = Couple::new();
    let key = key(77);
    let place = ObjectPlace { object: 1, offset: 0, skip_front: 1 << 32, skip_back: 0 };
    couple.exports[1].open_key(slot(77), &SharedKey { place: Some(place), ..key });
    assert_eq!(couple.links[0].peer().key(key.rkey).map(|known| known.value), Some(SharedKey { place: None, ..key }));
}

#[test]
fn a_queue_pair_is_found_by_its_whole_number() {
    let couple = Couple::new();
    let (export, peer) = (&couple.exports[1], couple.links[0].peer());
    let qp = SharedQp { qpn: Qpn::new(0x03_0011), peer: Qpn::new(9), pd: PdId(1), access: Access::REMOTE_READ };
    assert_eq!(peer.qp(qp.qpn).map(|known| known.value), None);
    assert!(export.add_slot(3));
    export.open_qp(&qp);
    assert_eq!(peer.qp(qp.qpn).map(|known| known.value), Some(qp));
    assert_eq!(peer.qp(Qpn::new(0x04_0011)).map(|known| known.value), None);
    assert!(export.add_slot(4));
    assert_eq!(peer.qp(Qpn::new(0x04_0011)).map(|known| known.value), None);
    export.close_qp(qp.qpn);
    assert_eq!(peer.qp(qp.qpn).map(|known| known.value), None);
}

#[test]
fn queue_pairs_of_several_slots_do_not_mix() {
    let couple = Couple::new();
    let (export, peer) = (&couple.exports[1], couple.links[0].peer());
    // The largest number of slots of a process, and the first one again.
    let slots: Vec<u8> = (0..MAX_SLOTS as u8).map(|number| 249 - number).collect();
    assert!(slots.iter().chain([&249]).all(|slot| export.add_slot(*slot)));
    assert!(!export.add_slot(1), "there is room for so many");
    let qp = |slot: u8| SharedQp {
        qpn: Qpn::from_parts(slot, 0xfffe),
        peer: Qpn::new(slot.into()),
        pd: PdId(1),
        access: Access::empty(),
    };
    slots.iter().for_each(|slot| export.open_qp(&qp(*slot)));
    export.close_qp(qp(240).qpn);
    for slot in 0..=255 {
        let shown = slots.contains(&slot) && slot != 240;
        assert_eq!(peer.qp(qp(slot).qpn).map(|known| known.value), shown.then(|| qp(slot)));
    }
}

#[test]
fn a_found_value_is_good_until_it_changes() {
    let couple = Couple::new();
    let (export, peer) = (&couple.exports[1], couple.links[0].peer());
    let key = key(0x1234_5678);
    export.open_key(slot(key.rkey.0), &key);
    let found = peer.key(key.rkey).unwrap();
    assert!(peer.has_key(&found));
    export.close_key(slot(key.rkey.0));
    assert!(!peer.has_key(&found));
    // The same key opened again counts as changed.
    export.open_key(slot(key.rkey.0), &key);
    assert!(!peer.has_key(&found) && peer.key(key.rkey).is_some_and(|again| peer.has_key(&again)));
    let qp = SharedQp { qpn: Qpn::new(0x03_0011), peer: Qpn::new(9), pd: PdId(1), access: Access::REMOTE_READ };
    assert!(export.add_slot(3));
    export.open_qp(&qp);
    let found = peer.qp(qp.qpn).unwrap();
    assert!(peer.has_qp(&found));
    export.open_qp(&SharedQp { access: Access::empty(), ..qp });
    assert!(!peer.has_qp(&found));
}

#[test]
fn nobody_else_can_map_it_for_writing() {
    let couple = Couple::new();
    let fd = couple.exports[0].fd();
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel refuses this mapping.
    let start = unsafe {
        use std::os::fd::AsRawFd;
        libc::mmap(core::ptr::null_mut(), 4096, rights, libc::MAP_SHARED, fd.as_raw_fd(), 0)
    };
    assert_eq!(start, libc::MAP_FAILED);
    assert!(rustix::io::pwrite(fd, &[1], 0).is_err());
    assert!(rustix::fs::ftruncate(fd, 0).is_err());
}

#[test]
fn this_process_reaches_its_own_memory_the_far_way() {
    let couple = Couple::new();
    let peer = couple.links[0].peer();
    assert!(peer.reaches_far() && peer.is_alive());
    let from = [1u8, 2, 3, 4];
    let mut to = [0u8; 4];
    // SAFETY: the bytes are a local variable, which only the span uses while it lives.
    let span = unsafe { memory::Span::new(to.as_mut_ptr(), to.len()) };
    peer.read_far((&raw const from).addr() as u64, span).expect("mapped");
    assert_eq!(to, from);
    let unmapped = peer.read_far(16, span).expect_err("not mapped");
    assert_eq!(unmapped.raw_os_error(), Some(libc::EFAULT));
}
