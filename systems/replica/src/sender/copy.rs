//! Copies of shares: the caller walks over its tables, a few keys at a time, and changes go on between.

use cluster::MemberId;

use crate::record::ReplicaRecord;
use crate::sender::link::CopyPhase;
use crate::sender::state::ReplicaSender;
use crate::sender::words::CopyCursor;

/// The next step of a copy: to tell the keys of these slots from the cursor on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTask {
    /// The member that gets the keys.
    pub member: MemberId,
    /// The first slot of the share.
    pub from: u16,
    /// The last one.
    pub to: u16,
    /// Where to begin.
    pub cursor: CopyCursor,
    stream: u64,
}

impl ReplicaSender {
    /// A copy that should go on, if there is one whose stream has room.
    pub fn copy_due(&self) -> Option<CopyTask> {
        self.links.iter().find_map(|(id, link)| {
            if link.queue.len() >= self.options.batch_bytes {
                return None;
            }
            link.shares.iter().find_map(|(from, share)| match share.phase {
                CopyPhase::Copying(cursor) => {
                    Some(CopyTask { member: id.clone(), from: *from, to: share.to, cursor, stream: link.stream })
                }
                _ => None,
            })
        })
    }

    /// Takes the records of some keys, and the cursor of the rest; `None`: these are the last. The caller has held the lock of
    /// the table since it read the first of them, so no change has come between.
    pub fn copied(&mut self, task: &CopyTask, records: &[u8], next: Option<CopyCursor>) {
        let Some(link) = self.links.get_mut(&task.member).filter(|link| link.stream == task.stream) else { return };
        let is_this = |phase: CopyPhase| phase == CopyPhase::Copying(task.cursor);
        if !link.shares.get(&task.from).is_some_and(|share| share.to == task.to && is_this(share.phase)) {
            return;
        }
        link.queue.extend_from_slice(records);
        if next.is_none() {
            link.push(ReplicaRecord::End { from: task.from });
        }
        let end = link.end();
        if let Some(share) = link.shares.get_mut(&task.from) {
            share.phase = next.map_or(CopyPhase::Ending(end), CopyPhase::Copying);
        }
    }
}
