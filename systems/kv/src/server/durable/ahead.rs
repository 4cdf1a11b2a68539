//! Records that another thread reads ahead: it waits for the disk and checks sums, while this one fills the tables.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use journal::JournalError;

use crate::server::durable::DataError;

/// Bytes of records that go over together, if a single one is not longer.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait. With the one that is filled and the one that is read, they bound the memory.
const BATCHES: usize = 4;

/// Records in a row: the number and the end of each in the bytes.
#[derive(Default)]
struct RecordBatch {
    ends: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl RecordBatch {
    fn push(&mut self, number: u64, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push((number, self.bytes.len()));
    }

    fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        self.ends.iter().zip(starts).map(|((number, end), start)| (*number, &self.bytes[start..*end]))
    }
}

/// Runs `read`, which tells records in their order, in a thread of its own, and `apply` for each of them here.
///
/// # Errors
/// The first error of `apply`, or that of `read`.
pub(super) fn read_ahead<T: Send>(
    read: impl FnOnce(journal::EachRecord<'_>) -> Result<T, JournalError> + Send,
    mut apply: impl FnMut(u64, &[u8]) -> Result<(), DataError>,
) -> Result<T, DataError> {
    let (sender, receiver) = sync_channel(BATCHES);
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("kv-read-ahead".into()).spawn_scoped(scope, || send_all(read, sender));
        let reader = reader.map_err(|error| DataError::Content(format!("no thread to read ahead: {error}")))?;
        let applied = apply_all(receiver, &mut apply);
        let read = reader.join().unwrap_or_else(|_| Err(JournalError::Failed("the reader panicked".into())));
        // A reader that ends because nobody takes its records has nothing to say.
        applied.and_then(|()| Ok(read?))
    })
}

fn send_all<T>(
    read: impl FnOnce(journal::EachRecord<'_>) -> Result<T, JournalError>,
    sender: SyncSender<RecordBatch>,
) -> Result<T, JournalError> {
    let (mut batch, gone) = (RecordBatch::default(), || JournalError::Failed("nobody takes the records".into()));
    let outcome = read(&mut |number, record| {
        if !batch.bytes.is_empty() && batch.bytes.len() + record.len() > BATCH_BYTES {
            sender.send(std::mem::take(&mut batch)).map_err(|_| gone())?;
        }
        batch.push(number, record);
        Ok(())
    })?;
    sender.send(batch).map_err(|_| gone())?;
    Ok(outcome)
}

/// Dropping the receiver ends the reader.
fn apply_all(
    receiver: Receiver<RecordBatch>,
    apply: &mut impl FnMut(u64, &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    for batch in receiver {
        batch.records().try_for_each(|(number, record)| apply(number, record))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of these lengths, numbered from one.
    fn tell(lengths: &[usize], each: journal::EachRecord<'_>) -> Result<(), JournalError> {
        (1_u64..).zip(lengths).try_for_each(|(number, length)| each(number, &vec![number as u8; *length]))
    }

    #[test]
    fn records_come_whole_and_in_order() {
        let lengths = [0, 1, BATCH_BYTES - 1, 5, 3 * BATCH_BYTES, 0, 7, BATCH_BYTES, BATCH_BYTES, 2];
        let mut seen = Vec::new();
        let outcome = read_ahead(
            |each| tell(&lengths, each).map(|()| "read"),
            |number, record| {
                assert!(record.iter().all(|byte| *byte == number as u8));
                seen.push(record.len());
                Ok(())
            },
        );
        assert_eq!((outcome.unwrap(), seen), ("read", lengths.to_vec()));
    }

    #[test]
    fn the_first_error_ends_both() {
        let many = vec![BATCH_BYTES; 100];
        let stopped = read_ahead(
            |each| tell(&many, each),
            |number, _| if number == 3 { Err(DataError::Content("enough".into())) } else { Ok(()) },
        );
        assert_eq!(stopped.unwrap_err().to_string(), "enough");
        let mut count = 0;
        let broken = read_ahead(
            |each| tell(&[1, 2], each).and(Err::<(), _>(JournalError::Full)),
            |_, _| {
                count += 1;
                Ok(())
            },
        );
        assert!(matches!(broken, Err(DataError::Journal(JournalError::Full))));
        assert_eq!(count, 0, "a batch that is not full was not sent");
    }
}
