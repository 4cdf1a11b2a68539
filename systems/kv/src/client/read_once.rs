//! One attempt to look keys up by READs.

use remote::ReadError;

use crate::client::answer::Answer;
use crate::client::table::KvTable;
use crate::client::term::lasts;

impl KvTable {
    /// Looks keys up by READs, and tells each with its number. After an error some may have been told. `since_ns`: the time now,
    /// for values that have expired by now. Without it they are doubtful.
    pub(super) fn read_once(
        &mut self,
        keys: &[&[u8]],
        since_ns: Option<u64>,
        each: &mut dyn FnMut(usize, Answer<'_>),
    ) -> Result<(), ReadFailure> {
        let (clock, mut durable, mut until_ns) = (self.session.clock(), self.session.durable(), u64::MAX);
        if self.session.has_backups() {
            let Some(term) = self.session.term().filter(|term| keys.iter().all(|key| term.serves(key))) else {
                (0..keys.len()).for_each(|number| each(number, Answer::Doubtful));
                return Ok(());
            };
            (durable, until_ns) = (Some(term.safe), term.until_ns);
        }
        let Some(reader) = &mut self.reader else { return Err(ReadFailure::NoReader) };
        let mut is_broken = false;
        reader.look_up(keys, &mut |number, found| match Answer::of((clock, since_ns), durable, found) {
            Answer::Broken => is_broken = true,
            // Another server may have been the primary when this one's memory was read.
            _ if until_ns != u64::MAX && !lasts(until_ns, clock) => each(number, Answer::Doubtful),
            answer => each(number, answer),
        })?;
        if is_broken { Err(ReadFailure::Broken) } else { Ok(()) }
    }
}

/// The reason why READs brought no answer.
pub(super) enum ReadFailure {
    NoReader,
    Read(ReadError),
    Broken,
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> ReadFailure {
        ReadFailure::Read(error)
    }
}
