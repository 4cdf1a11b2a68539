//! Objects in a peer's memory that are read at one moment.

use transport::OBJECT_WORD_BYTES;

use crate::completion::{Completion, Outcome, OutcomeSeal};
use crate::flight::{Failure, Lend};

/// The outcome of a [READ of an object](crate::QueuePair::read_object), with its buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an object may have been busy"]
pub enum ObjectRead<B> {
    /// The whole object, as it was at one moment.
    Whole(B),
    /// A writer had the object, or changed it all the time. The first eight bytes are its first word; the rest means
    /// nothing.
    Busy(B),
}

impl<B> ObjectRead<B> {
    /// The buffers, if the object is whole.
    pub fn whole(self) -> Option<B> {
        match self {
            ObjectRead::Whole(buffers) => Some(buffers),
            ObjectRead::Busy(_) => None,
        }
    }

    /// The buffers, whatever they hold.
    pub fn into_buffers(self) -> B {
        match self {
            ObjectRead::Whole(buffers) | ObjectRead::Busy(buffers) => buffers,
        }
    }
}

impl<B: Lend> OutcomeSeal for ObjectRead<B> {}
impl<B: Lend> Outcome for ObjectRead<B> {
    fn from_completion(completion: Completion) -> Result<ObjectRead<B>, Failure> {
        let is_whole = completion.is_whole_object();
        let buffers = B::from_completion(completion)?;
        Ok(if is_whole { ObjectRead::Whole(buffers) } else { ObjectRead::Busy(buffers) })
    }
}

/// Whether a reply of this length is an object, and not only its first word. Objects are longer.
pub(crate) fn is_whole(len_bytes: u32) -> bool {
    len_bytes != OBJECT_WORD_BYTES
}
