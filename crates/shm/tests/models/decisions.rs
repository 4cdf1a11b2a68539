//! Model: one decision per link.

use crate::check;
use crate::state::{LinkSide, Standing, confirm, give_up, standing};
use crate::sync::AtomicU32;
use loom::sync::Arc;
use loom::thread;

/// Runs both ends; returns each end's view of the decision.
fn both(end: fn(&AtomicU32, LinkSide) -> Standing, other: fn(&AtomicU32, LinkSide) -> Standing) -> [Standing; 2] {
    let word = Arc::new(AtomicU32::new(0));
    let theirs = word.clone();
    let peer = thread::spawn(move || other(&theirs, LinkSide::Offered));
    let mine = end(&word, LinkSide::Asked);
    let decided = [mine, peer.join().expect("no panic")];
    assert!(decided.iter().all(|end| [standing(&word), Standing::Pending].contains(end)));
    decided
}

fn patient(word: &AtomicU32, side: LinkSide) -> Standing {
    confirm(word, side);
    give_up(word)
}

#[test]
fn both_ends_agree_whoever_gives_up_first() {
    check(5, || {
        let [one, other] = both(patient, patient);
        assert_eq!(one, other);
        assert_ne!(one, Standing::Pending);
    });
}

#[test]
fn an_end_that_never_confirms_fails_the_link_for_both() {
    check(5, || assert_eq!(both(patient, |word, _| give_up(word)), [Standing::Failed; 2]));
}

#[test]
fn an_end_that_dies_after_it_confirmed_leaves_one_decision() {
    check(5, || {
        let [decided, died] = both(patient, confirm);
        match decided {
            Standing::Up => assert_ne!(died, Standing::Failed),
            Standing::Failed => assert_ne!(died, Standing::Up),
            Standing::Pending => panic!("giving up always decides"),
        }
    });
}
