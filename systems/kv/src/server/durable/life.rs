//! The file that says whose data a directory has: the life of a member of a cluster.

use std::sync::Arc;

use journal::{Disk, JournalError, SealedReader, SealedWriter};
use serde::{Deserialize, Serialize};

use crate::server::durable::DataError;

const FILE: &str = "member";

/// A member's life as its directory knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberLife {
    /// The name of the member.
    name: String,
    /// The number of the life.
    pub(crate) incarnation: u64,
    /// Processes of this life so far, the present one included.
    pub(crate) processes: u32,
    /// Answered changes may be missing.
    pub(crate) may_lack: bool,
}

impl MemberLife {
    /// Notes one more process of the life that a directory belongs to, or begins a life in an empty directory. `None`: a server that is
    /// no member, whose directory must not belong to one.
    pub(crate) fn begin(disk: &dyn Disk, name: Option<&str>, is_strict: bool) -> Result<Option<MemberLife>, DataError> {
        let mut names = disk.list().map_err(io)?;
        // A power cut during the first start.
        names.retain(|name| *name != torn());
        let kept = if names.iter().any(|name| name == FILE) { Some(read(disk)?) } else { None };
        let refused = |words: String| Err(DataError::Content(words));
        let life = match (kept, name) {
            (None, None) => return Ok(None),
            (Some(kept), None) => {
                let words = "start that member there, or name another directory";
                return refused(format!("the directory belongs to the member {:?} of a cluster: {words}", kept.name));
            }
            (Some(kept), Some(name)) if kept.name != name => {
                return refused(format!("the directory belongs to the member {:?}, not {name:?}", kept.name));
            }
            (Some(kept), Some(_)) => MemberLife { processes: kept.processes.saturating_add(1), ..kept },
            (None, Some(_)) if !names.is_empty() => {
                let words = "a member begins with an empty one, and a client copies the keys";
                return refused(format!("the directory has data of a server that was no member of a cluster: {words}"));
            }
            (None, Some(name)) => {
                let incarnation = getrandom::u64().map_err(|error| DataError::Content(error.to_string()))?;
                MemberLife { name: name.into(), incarnation, processes: 1, may_lack: false }
            }
        };
        // This process may end at any time.
        write(disk, &MemberLife { may_lack: life.may_lack || !is_strict, ..life.clone() })?;
        Ok(Some(life))
    }

    /// Notes that answered changes may be missing, or are all there. (A directory that belongs to no member stays as it is.)
    pub(crate) fn set_may_lack(disk: &dyn Disk, may_lack: bool) -> Result<(), DataError> {
        if !disk.list().map_err(io)?.iter().any(|name| name == FILE) {
            return Ok(());
        }
        let life = read(disk)?;
        if life.may_lack == may_lack { Ok(()) } else { write(disk, &MemberLife { may_lack, ..life }) }
    }
}

fn read(disk: &dyn Disk) -> Result<MemberLife, DataError> {
    let mut words = Vec::new();
    SealedReader::new(disk.open(FILE).map_err(io)?, FILE)?.read(&mut |bytes| {
        words.extend_from_slice(bytes);
        Ok(())
    })?;
    postcard::from_bytes(&words).map_err(|error| DataError::Content(format!("the file {FILE:?}: {error}")))
}

fn write(disk: &dyn Disk, life: &MemberLife) -> Result<(), DataError> {
    let torn = torn();
    let mut out = SealedWriter::new(disk.create(&torn).map_err(io)?, &torn)?;
    out.append(&[&postcard::to_extend(life, Vec::new()).map_err(|error| DataError::Content(error.to_string()))?])?;
    out.finish()?;
    disk.rename(&torn, FILE).map_err(io)?;
    Ok(disk.sync_directory().map_err(io)?)
}

/// The file as long as it is not whole.
fn torn() -> String {
    format!("{FILE}.tmp")
}

fn io(why: std::io::Error) -> JournalError {
    JournalError::Io { file: FILE.into(), why: Arc::new(why) }
}

#[cfg(test)]
mod tests {
    use journal::SimDisk;

    use super::*;

    #[test]
    fn processes_of_a_life_are_counted() {
        let disk = SimDisk::new();
        let first = MemberLife::begin(&disk, Some("a"), true).unwrap().unwrap();
        assert_eq!((first.processes, first.may_lack), (1, false));
        let second = MemberLife::begin(&disk, Some("a"), false).unwrap().unwrap();
        assert_eq!((second.incarnation, second.processes, second.may_lack), (first.incarnation, 2, false));
        // That one did not sync what it answered.
        let third = MemberLife::begin(&disk, Some("a"), true).unwrap().unwrap();
        assert_eq!((third.processes, third.may_lack), (3, true));
        let fourth = MemberLife::begin(&disk, Some("a"), true).unwrap().unwrap();
        assert!(fourth.may_lack, "the third process has not fetched anything");
        MemberLife::set_may_lack(&disk, false).unwrap();
        assert!(!MemberLife::begin(&disk, Some("a"), true).unwrap().unwrap().may_lack);
    }

    #[test]
    fn a_first_start_that_was_cut_short_is_none() {
        let disk = SimDisk::new();
        drop(disk.create(&torn()).unwrap());
        assert_eq!(MemberLife::begin(&disk, Some("a"), true).unwrap().map(|life| life.processes), Some(1));
    }

    #[test]
    fn directories_of_others_are_refused() {
        let disk = SimDisk::new();
        assert_eq!(MemberLife::begin(&disk, None, true).unwrap(), None);
        MemberLife::set_may_lack(&disk, true).unwrap();
        drop(disk.create("snapshot-1").unwrap());
        let words = |outcome: Result<Option<MemberLife>, DataError>| outcome.unwrap_err().to_string();
        assert!(words(MemberLife::begin(&disk, Some("a"), true)).contains("was no member"));
        let disk = SimDisk::new();
        MemberLife::begin(&disk, Some("a"), true).unwrap();
        assert!(words(MemberLife::begin(&disk, Some("b"), true)).contains("belongs to the member \"a\", not \"b\""));
        assert!(words(MemberLife::begin(&disk, None, true)).contains("belongs to the member \"a\" of a cluster"));
        disk.flip(FILE, 300);
        MemberLife::begin(&disk, Some("a"), true).unwrap_err();
    }
}
