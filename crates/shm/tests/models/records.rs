//! Model: a record is read whole.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU32;
use crate::{check, record};
use loom::sync::Arc;
use loom::thread;

#[derive(Default)]
struct Record {
    sequence: AtomicU32,
    words: [AtomicU32; 2],
}

impl Record {
    fn write(&self, value: u32) {
        record::write(&self.sequence, || self.words.iter().for_each(|word| word.store(value, Relaxed)));
    }

    fn read(&self) -> Option<[u32; 2]> {
        self.read_known().map(|(words, _)| words)
    }

    fn read_known(&self) -> Option<([u32; 2], u32)> {
        record::read(&self.sequence, || [self.words[0].load(Relaxed), self.words[1].load(Relaxed)])
    }
}

#[test]
fn a_reader_gets_one_writing_and_no_mixture() {
    check(3, || {
        let record = Arc::new(Record::default());
        let writer = {
            let record = record.clone();
            thread::spawn(move || (1..=2).for_each(|value| record.write(value)))
        };
        if let Some([first, second]) = record.read() {
            assert_eq!(first, second);
            assert_ne!(first, 0);
        }
        writer.join().expect("no panic");
        assert_eq!(record.read(), Some([2, 2]));
    });
}
