//! `longarm kv check`, `backup` and `restore`: directories with tables on disk.

use std::path::PathBuf;

use clap::Args;
use longarm_kv::{DataReport, KvServerError, backup_data, check_data, repair_data, restore_data};

use crate::error::Error;

/// Explain the state of a directory with tables on disk, whose server has ended
#[derive(Args, Debug)]
pub(super) struct KvCheckArgs {
    /// The directory: --data of its server
    directory: PathBuf,
    /// Cut the log at its first damage. All changes behind it are lost. Files behind it get names that begin with lost-
    #[arg(long)]
    repair: bool,
}

/// Write a backup of a directory with tables on disk, also while its server works
#[derive(Args, Debug)]
pub(super) struct KvBackupArgs {
    /// The directory: --data of its server
    directory: PathBuf,
    /// The file to write
    file: PathBuf,
}

/// Make a directory for a server from a backup
#[derive(Args, Debug)]
pub(super) struct KvRestoreArgs {
    /// The backup
    file: PathBuf,
    /// The directory, which must be empty or absent
    directory: PathBuf,
}

/// `longarm kv check`
pub(super) fn check(args: &KvCheckArgs) -> Result<(), Error> {
    let report = check_data(&args.directory).map_err(KvServerError::from)?;
    print(&report);
    if report.is_whole() {
        println!("a server can be started");
    } else if args.repair {
        let repaired = repair_data(&args.directory).map_err(KvServerError::from)?;
        println!("repaired: the log ends at record {} now", repaired.log.last);
    } else {
        return Err(Error::Usage("the directory is damaged: --repair cuts its log, a backup has more".into()));
    }
    Ok(())
}

fn print(report: &DataReport) {
    match report.snapshot {
        Some(number) => println!("snapshot {number}: {} records", report.snapshot_records),
        None => println!("no snapshot"),
    }
    let log = &report.log;
    println!("log: {} records in {} files, up to record {}", log.records, log.segments, log.last);
    if let Some(torn) = &log.torn {
        println!("{} ends at byte {} in a write that a crash tore: the next server cuts it", torn.file, torn.offset);
    }
    for damage in report.snapshot_damage.iter().chain(&log.damage) {
        println!("damage: {damage}");
    }
    if let Some(until) = report.missing_until {
        println!("damage: the snapshot needs the log up to record {until}");
    }
}

/// `longarm kv backup`
pub(super) fn backup(args: &KvBackupArgs) -> Result<(), Error> {
    let bytes = backup_data(&args.directory, &args.file).map_err(KvServerError::from)?;
    println!("{}: {bytes} bytes", args.file.display());
    Ok(())
}

/// `longarm kv restore`
pub(super) fn restore(args: &KvRestoreArgs) -> Result<(), Error> {
    Ok(restore_data(&args.file, &args.directory).map_err(KvServerError::from)?)
}
