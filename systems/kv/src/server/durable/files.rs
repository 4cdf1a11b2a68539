//! Directories without their servers: checks, repair, backup and restore.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::{Disk, FsDisk, JournalError, JournalReport, SealedReader, SealedWriter};

use crate::server::durable::directory::{snapshot_name, snapshots};
use crate::server::durable::record::{DataRecord, bound, put_head};
use crate::server::durable::{DataError, MemberLife};

/// Attempts to read files that a server replaces meanwhile.
const ATTEMPTS: usize = 20;
/// The pause between two of them.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of a directory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DataReport {
    /// The number of the newest snapshot, if there is one.
    pub snapshot: Option<u64>,
    /// Records in it.
    pub snapshot_records: u64,
    /// The damage of the snapshot. Nothing repairs it but a backup.
    pub snapshot_damage: Option<JournalError>,
    /// The state of the log.
    pub log: JournalReport,
    /// Changes that the snapshot may have are missing in the log, up to this number.
    pub missing_until: Option<u64>,
}

impl DataReport {
    /// True if a server can be started.
    pub fn is_whole(&self) -> bool {
        self.snapshot_damage.is_none() && self.log.damage.is_none() && self.missing_until.is_none()
    }
}

/// Reads a directory whose server has ended, and changes nothing.
///
/// # Errors
/// If the system refuses, or a server uses the directory. Damage is in the report.
pub fn check_data(path: &Path) -> Result<DataReport, DataError> {
    look(&existing(path)?)
}

/// Cuts the log of a directory at its first damage. All changes behind it are lost, also acknowledged ones.
///
/// # Errors
/// If the system refuses, a server uses the directory, or the snapshot is damaged: then only a backup helps.
pub fn repair_data(path: &Path) -> Result<DataReport, DataError> {
    let disk = existing(path)?;
    let report = look(&disk)?;
    if let Some(damage) = report.snapshot_damage {
        return Err(damage.into());
    }
    if let Some(until) = report.missing_until.filter(|_| report.log.damage.is_none()) {
        let words = format!("changes up to {until} are missing behind the snapshot: only a backup helps");
        return Err(DataError::Content(words));
    }
    MemberLife::set_may_lack(&disk, true)?;
    journal::repair(&disk, report.snapshot.unwrap_or_default())?;
    look(&disk)
}

/// Writes a backup of a directory to a file, also while its server works. It has all changes up to some moment during the call,
/// and all that were acknowledged before it, if the server syncs always. Returns its length in bytes.
///
/// # Errors
/// If the system refuses, the file exists, or the directory is damaged.
pub fn backup_data(path: &Path, file: &Path) -> Result<u64, DataError> {
    let disk = FsDisk::beside(path);
    let name = file.display().to_string();
    for attempt in 1.. {
        let out = FsDisk::create_new(file)?;
        match write_backup(&disk, SealedWriter::new(out, &name)?) {
            Ok(bytes) => return Ok(bytes),
            Err(error) => {
                std::fs::remove_file(file).map_err(|error| DataError::Content(format!("{name}: {error}")))?;
                // The server may have replaced files meanwhile, or may be writing this very record.
                if attempt == ATTEMPTS {
                    return Err(error);
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
    Err(DataError::Content("no attempt to read the directory".into()))
}

/// Makes a directory for a server from a backup. Nothing may be in it.
///
/// # Errors
/// If the backup is damaged, the directory is not empty, or the system refuses.
pub fn restore_data(file: &Path, path: &Path) -> Result<(), DataError> {
    let name = file.display().to_string();
    let bounds = bounds_of(&SealedReader::new(FsDisk::open_file(file)?, &name)?)?;
    let disk = FsDisk::open(path)?;
    if !disk.list().map_err(io("directory"))?.is_empty() {
        return Err(DataError::Content(format!("{} is not empty", path.display())));
    }
    let number = bounds.1;
    let mut out = SealedWriter::new(disk.create(&snapshot_name(number)).map_err(io("snapshot"))?, "snapshot")?;
    out.append(&[&bound(true, number)])?;
    SealedReader::new(FsDisk::open_file(file)?, &name)?.read(&mut |bytes| match bytes.first() {
        Some(4 | 5) => Ok(()),
        _ => out.append(&[bytes]),
    })?;
    out.append(&[&bound(false, number)])?;
    out.finish()?;
    Ok(journal::begin(&disk, number)?)
}

fn existing(path: &Path) -> Result<FsDisk, DataError> {
    match path.is_dir() {
        true => Ok(FsDisk::open(path)?),
        false => Err(DataError::Content(format!("{} is no directory", path.display()))),
    }
}

fn look(disk: &dyn Disk) -> Result<DataReport, DataError> {
    let snapshot = snapshots(disk)?.0.last().copied();
    let mut report = DataReport { snapshot, ..DataReport::default() };
    let mut until = 0;
    if let Some(number) = snapshot {
        let read = open_snapshot(disk, number).and_then(|reader| {
            reader.read(&mut |bytes| {
                report.snapshot_records += 1;
                if let Ok(DataRecord::End { number }) = DataRecord::parse(bytes) {
                    until = number;
                }
                Ok(())
            })
        });
        match read {
            Err(damage @ JournalError::Damaged { .. }) => report.snapshot_damage = Some(damage),
            other => other?,
        }
    }
    report.log = journal::check(disk, snapshot.unwrap_or_default())?;
    report.missing_until = Some(until).filter(|until| report.log.last < *until);
    Ok(report)
}

fn open_snapshot(disk: &dyn Disk, number: u64) -> Result<SealedReader, JournalError> {
    let name = snapshot_name(number);
    SealedReader::new(disk.open(&name).map_err(io(&name))?, &name)
}

/// The first and the last record's number of a file that is whole.
fn bounds_of(reader: &SealedReader) -> Result<(u64, u64), DataError> {
    let mut bounds = (None, None);
    reader.read(&mut |bytes| {
        match DataRecord::parse(bytes) {
            Ok(DataRecord::Begin { number }) => bounds.0 = Some(number),
            Ok(DataRecord::End { number }) => bounds.1 = Some(number),
            _ => {}
        }
        Ok(())
    })?;
    bounds.0.zip(bounds.1).ok_or_else(|| DataError::Content("the file is no backup".into()))
}

fn write_backup(disk: &dyn Disk, mut out: SealedWriter) -> Result<u64, DataError> {
    let (snapshot, mut until) = (snapshots(disk)?.0.last().copied(), 0);
    out.append(&[&bound(true, snapshot.unwrap_or_default())])?;
    if let Some(number) = snapshot {
        open_snapshot(disk, number)?.read(&mut |bytes| match DataRecord::parse(bytes) {
            Ok(DataRecord::Begin { .. }) => Ok(()),
            Ok(DataRecord::End { number }) => {
                until = number;
                Ok(())
            }
            _ => out.append(&[bytes]),
        })?;
    }
    let last = journal::read(disk, snapshot.unwrap_or_default(), &mut |number, bytes| {
        match DataRecord::parse(bytes) {
            // In a file without numbers each value says its own.
            Ok(DataRecord::Put { id, expires_unix_ns, stamp: 0, key, value }) => {
                out.append(&[&put_head(id, expires_unix_ns, number, key), key, value])
            }
            _ => out.append(&[bytes]),
        }
    })?;
    if last < until {
        return Err(DataError::Content(format!("the log ends at {last}, before the snapshot's end at {until}")));
    }
    out.append(&[&bound(false, last)])?;
    Ok(out.finish()?)
}

fn io(name: &str) -> impl FnOnce(std::io::Error) -> JournalError {
    let file = name.to_owned();
    move |why| JournalError::Io { file, why: Arc::new(why) }
}
