//! From the segments of a directory to their records.
//!
//! Only the last segment may have a torn end: before the next one begins, a segment is synced. In it, bytes that are no frame
//! are the torn end if no frame behind them was written when they were durable already. Otherwise they are damage: then
//! records that were acknowledged are lost, and the caller has to decide.

use crate::disk::Disk;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RecordFrame};
use crate::segment::{self, SEGMENT_BYTES, SegmentHead};

/// Bits of a number that count records of one opening of the log. The upper ones count openings.
pub(crate) const COUNT_BITS: u32 = 40;
/// Openings that another log may have had.
const SKIPPED: u64 = 1 << 20;

/// Takes the number of a record and its bytes.
pub type EachRecord<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), JournalError>;

/// An end that was written when the power went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// Where the torn bytes begin.
    pub offset: u64,
}

/// The outcome of [`check`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalReport {
    /// Files.
    pub segments: usize,
    /// Records that can be read, from the begin on.
    pub records: u64,
    /// The number of the last of them.
    pub last: u64,
    /// A torn end, which is cut off when the log is opened.
    pub torn: Option<TornTail>,
    /// The first damage: nothing behind it can be read.
    pub damage: Option<JournalError>,
}

/// The findings of a recovery.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) last: u64,
    /// The highest number of a segment's first record.
    pub(crate) newest: u64,
    records: u64,
    segments: usize,
    torn: Option<TornTail>,
}

/// Reads a log for its records above `after`, and cuts a torn end off.
pub(crate) fn recover(disk: &dyn Disk, after: u64, each: EachRecord<'_>) -> Result<Recovered, JournalError> {
    let mut recovered = Recovered::default();
    walk(disk, after, each, &mut recovered)?;
    if let Some(torn) = &recovered.torn {
        log::warn!("{} ends in a write that a crash tore: cut at byte {}", torn.file, torn.offset);
        cut(disk, &torn.file, torn.offset)?;
    }
    Ok(recovered)
}

/// Reads the log of a directory and changes nothing. `after`: as for [`Journal::open`](crate::Journal::open).
///
/// # Errors
/// If the system refuses. Damage is in the report.
pub fn check(disk: &dyn Disk, after: u64) -> Result<JournalReport, JournalError> {
    let mut recovered = Recovered::default();
    let damage = match walk(disk, after, &mut |_, _| Ok(()), &mut recovered) {
        Ok(()) => None,
        Err(damage @ JournalError::Damaged { .. }) => Some(damage),
        Err(error) => return Err(error),
    };
    let Recovered { last, records, segments, torn, .. } = recovered;
    Ok(JournalReport { segments, records, last, torn, damage })
}

/// Reads a log that its owner may be writing, as far as it is whole, and changes nothing. Returns the number of the last record.
///
/// # Errors
/// If the system refuses, records are damaged, or `each` has an error. The owner may have removed a file meanwhile, or may be in the
/// middle of a write, so the caller tries again.
pub fn read(disk: &dyn Disk, after: u64, each: EachRecord<'_>) -> Result<u64, JournalError> {
    let mut recovered = Recovered::default();
    walk(disk, after, each, &mut recovered)?;
    Ok(recovered.last)
}

/// Makes an empty log that follows a record with this number. Records get much higher numbers, so that none comes again that
/// another log may have given after that record.
///
/// # Errors
/// If the system refuses.
pub fn begin(disk: &dyn Disk, after: u64) -> Result<(), JournalError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| JournalError::io("log")(std::io::Error::other(error)))?;
    let skipped = u64::from_le_bytes(random) % SKIPPED + 1;
    let first = ((after >> COUNT_BITS) + skipped) << COUNT_BITS;
    segment::create(disk, first, after, SEGMENT_BYTES as u64).map(drop)
}

/// Cuts the log at its first damage. Files behind it get names that begin with `lost-`. The caller has explained the loss to
/// somebody who wants it.
///
/// # Errors
/// If the system refuses.
pub fn repair(disk: &dyn Disk, after: u64) -> Result<JournalReport, JournalError> {
    let report = check(disk, after)?;
    let Some(JournalError::Damaged { file, offset, .. }) = &report.damage else { return Ok(report) };
    let damaged = segment::first_of(file).unwrap_or_default();
    for first in
        segment::list(disk)?.into_iter().filter(|first| *first > damaged || (*first == damaged && *offset == 0))
    {
        let name = segment::name_of(first);
        disk.rename(&name, &format!("lost-{name}")).map_err(JournalError::io(&name))?;
    }
    if *offset > 0 {
        cut(disk, file, *offset)?;
    }
    disk.sync_directory().map_err(JournalError::io("directory"))?;
    Ok(report)
}

fn cut(disk: &dyn Disk, name: &str, offset: u64) -> Result<(), JournalError> {
    let done = match offset {
        0 => disk.remove(name),
        _ => disk.open(name).and_then(|file| file.set_len(offset).and_then(|()| file.sync())),
    };
    done.and_then(|()| disk.sync_directory()).map_err(JournalError::io(name))
}

fn walk(disk: &dyn Disk, after: u64, each: EachRecord<'_>, recovered: &mut Recovered) -> Result<(), JournalError> {
    let segments = segment::list(disk)?;
    for (at, first) in segments.iter().enumerate() {
        let (name, is_last) = (segment::name_of(*first), at + 1 == segments.len());
        let bytes = read_all(disk, &name)?;
        recovered.newest = recovered.newest.max(*first);
        let Some(head) = SegmentHead::parse(&bytes).filter(|head| head.first == *first) else {
            // A file is synced with its header before it gets frames.
            if is_last && bytes.iter().skip(SEGMENT_BYTES).all(|byte| *byte == 0) {
                recovered.torn = Some(TornTail { file: name, offset: 0 });
                return Ok(());
            }
            return Err(JournalError::damaged(&name, 0, "its header is wrong"));
        };
        check_chain(&name, head, (at == 0).then_some(after), recovered.last)?;
        recovered.last = head.previous;
        recovered.segments += 1;
        walk_frames((&name, &bytes), head, (after, is_last), each, recovered)?;
    }
    match segments.is_empty() && after > 0 {
        true => Err(JournalError::damaged("log", 0, format!("there is none, though records up to {after} were known"))),
        false => Ok(()),
    }
}

/// Refuses a segment that does not follow the one before. `after`: it is the first, and others were removed.
fn check_chain(name: &str, head: SegmentHead, after: Option<u64>, last: u64) -> Result<(), JournalError> {
    let known = after.unwrap_or(last);
    let follows = if after.is_some() { head.previous <= known } else { head.previous == known };
    if follows && head.previous < head.first {
        return Ok(());
    }
    let words =
        format!("it follows record {}, but the last one before it is {known}: a file is missing", head.previous);
    Err(JournalError::damaged(name, 0, words))
}

fn walk_frames(
    (name, bytes): (&str, &[u8]),
    head: SegmentHead,
    (after, is_last): (u64, bool),
    each: EachRecord<'_>,
    recovered: &mut Recovered,
) -> Result<(), JournalError> {
    let (mut at, mut next) = (SEGMENT_BYTES, head.first);
    while let Some(found) = frame::parse(&bytes[at..], head.salt).filter(|found| found.first == next) {
        let body = &bytes[at + FRAME_BYTES..][..found.body_bytes];
        for (number, record) in (found.first..).zip(frame::records(body)) {
            if number > after {
                each(number, record)?;
            }
            recovered.records += 1;
            recovered.last = number;
        }
        next = found.next();
        at = (at + found.frame_bytes()).min(bytes.len());
    }
    if bytes[at..].iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    if is_last && !frames_after(&bytes[at..], head.salt).any(|later| later.durable >= next || later.first <= next) {
        recovered.torn = Some(TornTail { file: name.into(), offset: at as u64 });
        return Ok(());
    }
    let words = format!("record {next} should be here. It was on disk, and records behind it are");
    Err(JournalError::damaged(name, at as u64, words))
}

/// Whole frames somewhere behind bytes that are none. Frames begin at multiples of 8.
fn frames_after(bytes: &[u8], salt: u64) -> impl Iterator<Item = RecordFrame> {
    (8..bytes.len()).step_by(8).filter_map(move |at| frame::parse(&bytes[at..], salt))
}

fn read_all(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, JournalError> {
    let read = || {
        let file = disk.open(name)?;
        let mut bytes = vec![0; file.len_bytes()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    read().map_err(JournalError::io(name))
}
