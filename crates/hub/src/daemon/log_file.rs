//! The hub's log: a file of bounded size in the runtime directory.
//!
//! All hubs of a user append to one file, `hub.log`. When it is full it replaces `hub.log.1`.

use crate::rendezvous::Rendezvous;
use log::{LevelFilter, Log, Metadata, Record};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

const NAME: &str = "hub.log";
const OLD_NAME: &str = "hub.log.1";
const MAX_BYTES: u64 = 256 << 10;

/// Sends this process's log messages to the file, and to standard error if `to_stderr`.
/// Does nothing if the process has a logger already.
pub(super) fn install(rendezvous: &Rendezvous, to_stderr: bool) {
    let directory = rendezvous.directory().try_clone_to_owned();
    let Ok(directory) = directory else { return };
    let namespace = rendezvous.namespace();
    let logger = LogFile { directory, namespace, to_stderr, file: Mutex::new(None) };
    // A logger lives as long as the process.
    if log::set_logger(Box::leak(Box::new(logger))).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

struct LogFile {
    directory: OwnedFd,
    namespace: u64,
    to_stderr: bool,
    file: Mutex<Option<File>>,
}

impl Log for LogFile {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (time, pid) = (utc(SystemTime::now()), std::process::id());
        let message = record.args().to_string().replace('\n', " ");
        let line = format!("{time} {} [{}] {pid}: {message}\n", record.level(), self.namespace);
        if self.to_stderr {
            let _ = io::stderr().write_all(line.as_bytes());
        }
        // A hub that cannot write its log continues.
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = append(self.directory.as_fd(), &mut file, line.as_bytes());
    }

    fn flush(&self) {}
}

/// Appends a line to the file in `directory`, and rotates a full file before.
fn append(directory: BorrowedFd<'_>, file: &mut Option<File>, line: &[u8]) -> io::Result<()> {
    if let Some(open) = file
        && rustix::fs::fstat(&*open)?.st_size as u64 + line.len() as u64 > MAX_BYTES
    {
        rotate(directory, open)?;
        *file = None;
    }
    let open = match file {
        Some(open) => open,
        None => file.insert(open_log(directory)?),
    };
    open.write_all(line)
}

/// Renames the full file, unless another hub has done it already.
fn rotate(directory: BorrowedFd<'_>, full: &File) -> io::Result<()> {
    let named = rustix::fs::statat(directory, NAME, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    if named.is_ok_and(|named| rustix::fs::fstat(full).is_ok_and(|full| full.st_ino == named.st_ino)) {
        rustix::fs::renameat(directory, NAME, directory, OLD_NAME)?;
    }
    Ok(())
}

fn open_log(directory: BorrowedFd<'_>) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, NAME, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Date and time in UTC, to the millisecond, as RFC 3339 writes it.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millisecond = since.subsec_millis();
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Year, month and day of a day since 1970 in the Gregorian calendar. Years are counted from
/// March, so that the leap day is the last one, and 400 of them have 146097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 1 March of the year 0
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let text = |second| utc(UNIX_EPOCH + Duration::from_secs(second));
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(1_709_251_199), "2024-02-29T23:59:59.000Z");
        assert_eq!(text(1_735_689_599), "2024-12-31T23:59:59.000Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn the_log_is_bounded() {
        let path = std::env::temp_dir().join(format!("longarm-log-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let directory = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let line = [b'x'; 1000];
        // Two hubs write to the same file.
        let mut files = [None, None];
        for turn in 0..2000 {
            append(directory.as_fd(), &mut files[turn % 2], &line).unwrap();
        }
        let sizes: Vec<u64> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(sizes.len(), 2);
        assert!(sizes.iter().all(|size| *size <= MAX_BYTES), "{sizes:?}");
    }
}
