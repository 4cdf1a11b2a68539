use super::*;
use std::collections::HashSet;

fn stream(seed: u32) -> SecretStream {
    SecretStream::new([seed; 8])
}

#[test]
fn the_permutation_is_one_and_has_an_inverse() {
    let permutation = Permutation::new(&mut stream(1));
    let mut hit = vec![false; 1 << 24];
    for name in 0..1 << 24 {
        let handle = permutation.forward(name);
        assert!(!std::mem::replace(&mut hit[handle as usize], true));
        assert_eq!(permutation.backward(handle), name);
    }
}

#[test]
fn neighbours_and_secrets_lie_apart() {
    let (a, b) = (Permutation::new(&mut stream(1)), Permutation::new(&mut stream(2)));
    let names = 0..4096u32;
    assert!(names.clone().filter(|n| a.forward(*n) == b.forward(*n)).count() < 5);
    let steps: HashSet<u32> = names.map(|n| a.forward(n).wrapping_sub(a.forward(n + 1))).collect();
    assert!(steps.len() > 4000, "{} different steps", steps.len());
}

#[test]
fn the_tag_walks_through_all_values() {
    let mut stream = stream(3);
    for _ in 0..100 {
        let mut tag = Tag::new(&mut stream);
        let seen: HashSet<u8> = (0..256)
            .map(|_| {
                tag.advance();
                tag.value
            })
            .collect();
        assert_eq!(seen.len(), 256);
    }
}

#[test]
fn a_slot_repeats_no_key_for_4096_lives() {
    let mut stream = stream(4);
    let keys = Keys::new(&mut stream);
    let mut life = Life::new(&mut stream);
    let (mut local, mut remote) = (HashSet::new(), HashSet::new());
    for _ in 0..4096 {
        if let Some((lkey, rkey)) = keys.make(77, &life) {
            assert!(local.insert(lkey) && remote.insert(rkey));
            assert_eq!(keys.local_slot(lkey), 77);
            assert_eq!(keys.remote_slot(rkey), 77);
        }
        life.advance();
    }
    assert!(local.len() >= 4096 - 512);
}

#[test]
fn the_life_whose_handle_is_zero_is_skipped() {
    let mut stream = stream(5);
    let keys = Keys::new(&mut stream);
    for name in [keys.local.backward(0), keys.remote.backward(0)] {
        let slot = name & (MAX_SLOTS - 1);
        let mut life = Life::new(&mut stream);
        life.count = name >> SLOT_BITS;
        assert_eq!(keys.make(slot, &life), None);
        life.advance();
        assert!(keys.make(slot, &life).is_some());
    }
}
