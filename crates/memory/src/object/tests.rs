//! Whole copies, busy objects, and writers that write meanwhile.

use core::convert::Infallible;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const LOCK: u64 = 1 << 63;

fn never_fails(copies: &mut u32) -> impl FnMut() -> Result<(), Infallible> + '_ {
    || {
        *copies += 1;
        Ok(())
    }
}

#[test]
fn an_object_at_rest_is_copied_once() {
    let mut word = 7u64.to_ne_bytes();
    let mut aligned = [u64::from_ne_bytes(word)];
    // SAFETY: the bytes of a word are bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(aligned.as_mut_ptr().cast::<u8>(), 8) };
    let mut copies = 0;
    assert_eq!(copy_object(Span::from_mut(bytes), LOCK, never_fails(&mut copies)), Ok(ObjectCopy::Whole(7)));
    assert_eq!(copies, 1);
    word = (LOCK | 7).to_ne_bytes();
    bytes.copy_from_slice(&word);
    assert_eq!(copy_object(Span::from_mut(bytes), LOCK, never_fails(&mut copies)), Ok(ObjectCopy::Busy(LOCK | 7)));
    assert_eq!(copies, 1, "a locked object is not copied");
    assert_eq!(copy_object(Span::from_mut(bytes), 1 << 62, never_fails(&mut copies)), Ok(ObjectCopy::Whole(LOCK | 7)));
    assert_eq!(copy_object(Span::from_mut(bytes), 0, || Err("gone")), Err("gone"));
}

#[test]
fn an_object_that_always_changes_is_busy() {
    let word = AtomicU64::new(0);
    // SAFETY: the word lives until the end, and only raw copies and atomics access it.
    let span = unsafe { Span::new(word.as_ptr().cast(), 8) };
    let mut copies = 0;
    let outcome = copy_object(span, LOCK, || -> Result<(), Infallible> {
        copies += 1;
        word.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    assert_eq!((outcome, copies), (Ok(ObjectCopy::Busy(u64::from(TRIES))), TRIES));
}

/// A writer with a protocol that copies must see through: every whole copy has equal words.
#[test]
fn copies_beside_a_writer_are_never_torn() {
    const WORDS: usize = 129;
    let object: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let (mut whole, mut busy) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 0;
            while !stop.load(Ordering::Relaxed) {
                object[0].store(version | LOCK, Ordering::SeqCst);
                version += 1;
                for word in &object[1..] {
                    word.store(version, Ordering::Release);
                }
                object[0].store(version, Ordering::Release);
                for _ in 0..version % 64 {
                    spin_loop();
                }
            }
        });
        // SAFETY: the object outlives the scope, and only raw copies and atomics access it.
        let span = unsafe { Span::new(object[0].as_ptr().cast(), WORDS * 8) };
        let (word, mut out) = (span.part(0, 8).expect("a word"), vec![0; WORDS * 8]);
        while whole < 5_000 && busy < 5_000_000 {
            let copied: Result<_, Infallible> = copy_object(word, LOCK, || {
                span.read(&mut out);
                Ok(())
            });
            match copied.unwrap_or_else(|never| match never {}) {
                ObjectCopy::Busy(_) => busy += 1,
                ObjectCopy::Whole(word) => {
                    whole += 1;
                    let mut words = out[8..].as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
                    assert!(words.all(|each| each == word), "torn after {whole} whole copies");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(whole > 0, "{busy} copies were busy and none was whole");
}
