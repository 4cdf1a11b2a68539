//! Reads the libraries and paths that an executable or shared library asks the loader for.
//!
//! The module reads the program headers and the dynamic section of a 64-bit little-endian
//! ELF file (System V ABI, chapters 4 and 5). It trusts nothing in a file: the read that
//! uses an offset checks it, and every count has a bound.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The loader's view of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The target machine (`EM_…`).
    pub(crate) machine: u16,
    /// The loader that it names; `None` for static executables and most libraries.
    pub(crate) interpreter: Option<PathBuf>,
    /// The library's name, which other files use in their list of needed libraries.
    pub(crate) soname: Option<String>,
    /// Names of the needed libraries.
    pub(crate) needed: Vec<String>,
    /// Directories that the loader searches before `LD_LIBRARY_PATH`, separated by colons. The loader
    /// ignores them if there is a [`Elf::runpath`].
    pub(crate) rpath: Option<String>,
    /// Directories that the loader searches after `LD_LIBRARY_PATH`, separated by colons.
    pub(crate) runpath: Option<String>,
}

/// The largest string table that is searched.
const MAX_NAMES_BYTES: usize = 4 << 20;
const MAX_HEADERS: usize = 128;
const MAX_DYNAMIC: usize = 4096;
const MAX_NAME_BYTES: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Reads a file; `None` if it is not a 64-bit little-endian ELF file.
///
/// # Errors
/// The system's error; `UnexpectedEof` for a truncated file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Elf>> {
    ElfTables::read(path)?.map(|parts| parts.elf()).transpose()
}

/// Whether a library defines (or uses) a symbol.
pub(crate) fn names_symbol(path: &Path, symbol: &str) -> bool {
    let names = ElfTables::read(path).ok().flatten().and_then(|parts| parts.names().ok());
    let wanted = [&[0], symbol.as_bytes(), &[0]].concat();
    names.is_some_and(|names| names.windows(wanted.len()).any(|window| window == wanted))
}

/// The tables of an open file.
struct ElfTables {
    file: File,
    machine: u16,
    headers: Vec<ProgramHeader>,
    dynamic: Vec<(u64, u64)>,
}

/// A program header.
struct ProgramHeader {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl ElfTables {
    fn read(path: &Path) -> io::Result<Option<ElfTables>> {
        let file = File::open(path)?;
        let mut head = [0; 64];
        match file.read_exact_at(&mut head, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        // Magic number, 64 bits, little-endian.
        if head[..6] != *b"\x7fELF\x02\x01" {
            return Ok(None);
        }
        let headers = program_headers(&file, &head)?;
        let dynamic = match headers.iter().find(|header| header.kind == PT_DYNAMIC) {
            Some(section) => dynamic(&file, section)?,
            None => Vec::new(),
        };
        Ok(Some(ElfTables { machine: u16_at(&head, 18), file, headers, dynamic }))
    }

    fn elf(&self) -> io::Result<Elf> {
        let interpreter = self.headers.iter().find(|header| header.kind == PT_INTERP);
        let runpath = self.text(DT_RUNPATH)?;
        Ok(Elf {
            machine: self.machine,
            interpreter: interpreter.map(|header| name_at(&self.file, header.offset)).transpose()?.map(PathBuf::from),
            soname: self.text(DT_SONAME)?,
            needed: self.values(DT_NEEDED).map(|value| self.name(value)).collect::<io::Result<_>>()?,
            rpath: if runpath.is_none() { self.text(DT_RPATH)? } else { None },
            runpath,
        })
    }

    /// The values of the dynamic section with one tag.
    fn values(&self, tag: u64) -> impl Iterator<Item = u64> + '_ {
        self.dynamic.iter().filter(move |entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// The text of a tag that occurs at most once.
    fn text(&self, tag: u64) -> io::Result<Option<String>> {
        self.values(tag).next().map(|value| self.name(value)).transpose()
    }

    /// A name by its offset in the string table.
    fn name(&self, place: u64) -> io::Result<String> {
        name_at(&self.file, self.string_table()?.saturating_add(place))
    }

    /// The file offset of the string table. The dynamic section has only its address in memory.
    fn string_table(&self) -> io::Result<u64> {
        let address = self.values(DT_STRTAB).next().ok_or(io::ErrorKind::InvalidData)?;
        let within =
            |h: &&ProgramHeader| h.kind == PT_LOAD && (h.address..h.address.saturating_add(h.size)).contains(&address);
        let segment = self.headers.iter().find(within).ok_or(io::ErrorKind::InvalidData)?;
        Ok(segment.offset.saturating_add(address - segment.address))
    }

    /// The whole string table.
    fn names(&self) -> io::Result<Vec<u8>> {
        let size = self.values(DT_STRSZ).next().unwrap_or(0);
        let mut names = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(MAX_NAMES_BYTES)];
        self.file.read_exact_at(&mut names, self.string_table()?)?;
        Ok(names)
    }
}

fn program_headers(file: &File, head: &[u8; 64]) -> io::Result<Vec<ProgramHeader>> {
    let (offset, size, count) = (u64_at(head, 32), usize::from(u16_at(head, 54)), usize::from(u16_at(head, 56)));
    if size < 56 {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; size * count.min(MAX_HEADERS)];
    file.read_exact_at(&mut bytes, offset)?;
    let header = |h: &[u8]| ProgramHeader {
        kind: u32_at(h, 0),
        offset: u64_at(h, 8),
        address: u64_at(h, 16),
        size: u64_at(h, 32),
    };
    Ok(bytes.chunks_exact(size).map(header).collect())
}

/// Tags and values of the entries before the end mark.
fn dynamic(file: &File, section: &ProgramHeader) -> io::Result<Vec<(u64, u64)>> {
    let count = usize::try_from(section.size / 16).unwrap_or(usize::MAX).min(MAX_DYNAMIC);
    let mut bytes = vec![0; count * 16];
    file.read_exact_at(&mut bytes, section.offset)?;
    let entries = bytes.chunks_exact(16).map(|entry| (u64_at(entry, 0), u64_at(entry, 8)));
    Ok(entries.take_while(|(tag, _)| *tag != 0).collect())
}

/// A zero-terminated text.
fn name_at(file: &File, offset: u64) -> io::Result<String> {
    let mut bytes = vec![0; MAX_NAME_BYTES];
    let len = file.read_at(&mut bytes, offset)?;
    let end = bytes[..len].iter().position(|byte| *byte == 0).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    #[test]
    fn this_test_is_a_dynamic_executable() {
        let elf = read(&own()).unwrap().expect("an ELF file");
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
        assert!(elf.interpreter.as_ref().is_some_and(|loader| loader.exists()), "{elf:?}");
        assert_eq!((elf.rpath, elf.soname), (None, None));
    }

    #[test]
    fn symbols_are_found_by_their_whole_name() {
        assert!(names_symbol(&own(), "__libc_start_main"));
        assert!(!names_symbol(&own(), "libc_start_main"));
    }

    #[test]
    fn other_files_are_none() {
        assert_eq!(read(Path::new(file!()).file_name().unwrap().as_ref()).ok().flatten(), None);
        assert_eq!(read(Path::new("/proc/self/cmdline")).unwrap(), None);
    }

    /// A file that is truncated or has a changed byte gives an error or another value, never a panic.
    #[test]
    fn broken_files_do_no_harm() {
        let whole = std::fs::read(own()).unwrap();
        let path = std::env::temp_dir().join(format!("longarm-elf-{}", std::process::id()));
        for len in (0..2048).step_by(61) {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(read(&path).map_or(true, |elf| elf.is_none_or(|elf| elf.needed.is_empty())), "{len} bytes");
        }
        for at in 16..64 + 56 * 12 {
            let mut spoiled = whole[..4096].to_vec();
            spoiled[at] ^= 0xff;
            std::fs::write(&path, &spoiled).unwrap();
            let _ = (read(&path), names_symbol(&path, "main"));
        }
        assert!(read(&path).is_err(), "4 KiB of an executable lack its names");
        std::fs::remove_file(&path).unwrap();
    }
}
