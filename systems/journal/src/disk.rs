//! Files of one directory, behind traits: a simulated disk takes their place in tests.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::JournalError;

/// The name of the file whose lock keeps other servers out.
const LOCK: &str = "lock";

/// One directory with files, none of which has a directory in its name.
pub trait Disk: Send + Sync {
    /// Names of all files.
    ///
    /// # Errors
    /// As the system has them. So for all other methods.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes an empty file, or empties the one of that name.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Removes a file.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, and replaces the one of the new name.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes creations, removals and new names survive a power cut.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn sync_directory(&self) -> io::Result<()>;
}

/// One open file.
pub trait DiskFile: Send {
    /// Its length in bytes.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn len_bytes(&self) -> io::Result<u64>;
    /// Fills `out` with bytes from `offset` on.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes at `offset`.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Changes the length.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;
    /// Reserves room for so many bytes from the file's begin on. They read as zeros.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn allocate(&self, len_bytes: u64) -> io::Result<()>;
    /// Makes bytes that were written, and the length, survive a power cut: `fdatasync`.
    #[allow(clippy::missing_errors_doc, reason = "as the system has them")]
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the system. While the value lives, no other process has one for the same directory.
#[derive(Debug)]
pub struct FsDisk {
    path: PathBuf,
    _lock: Option<File>,
}

impl FsDisk {
    /// Opens a directory, and makes it if it is not there (its parent must be).
    ///
    /// # Errors
    /// If the system refuses, or another process has it.
    pub fn open(path: &Path) -> Result<FsDisk, JournalError> {
        let shown = path.display().to_string();
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(JournalError::io(&shown)(error)),
            _ => {}
        }
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK));
        let lock = lock.map_err(JournalError::io(&shown))?;
        match lock.try_lock() {
            Ok(()) => Ok(FsDisk { path: path.into(), _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => Err(JournalError::InUse(shown)),
            Err(TryLockError::Error(error)) => Err(JournalError::io(&shown)(error)),
        }
    }
}

impl FsDisk {
    /// A directory that another process may have, for reading what it writes.
    pub fn beside(path: &Path) -> FsDisk {
        FsDisk { path: path.into(), _lock: None }
    }

    /// A file anywhere, for reading.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open_file(path: &Path) -> Result<Box<dyn DiskFile>, JournalError> {
        let file = File::open(path).map_err(JournalError::io(&path.display().to_string()))?;
        Ok(Box::new(FsFile(file)))
    }

    /// A new file anywhere.
    ///
    /// # Errors
    /// If the system refuses, or there is a file.
    pub fn create_new(path: &Path) -> Result<Box<dyn DiskFile>, JournalError> {
        let file = File::options().create_new(true).read(true).write(true).open(path);
        Ok(Box::new(FsFile(file.map_err(JournalError::io(&path.display().to_string()))?)))
    }
}

impl Disk for FsDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // Nothing of ours has another name.
            names.extend(entry?.file_name().into_string().ok().filter(|name| name != LOCK));
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = File::options().create(true).truncate(true).read(true).write(true).open(self.path.join(name))?;
        Ok(Box::new(FsFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FsFile(File::options().read(true).write(true).open(self.path.join(name))?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl<D: Disk + ?Sized> Disk for Arc<D> {
    fn list(&self) -> io::Result<Vec<String>> {
        (**self).list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        (**self).create(name)
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        (**self).open(name)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        (**self).remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (**self).rename(from, to)
    }
    fn sync_directory(&self) -> io::Result<()> {
        (**self).sync_directory()
    }
}

struct FsFile(File);

impl DiskFile for FsFile {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.0.set_len(len_bytes)
    }

    fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        let done = rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len_bytes);
        match done {
            // The file system reserves nothing: then writes find out that it is full.
            Err(rustix::io::Errno::OPNOTSUPP) => self.0.set_len(len_bytes),
            other => Ok(other?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
