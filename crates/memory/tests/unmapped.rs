//! Programs that unmap memory while it is registered, as they may with a network card: the process continues.
//! Other faults still end it, or reach the program's own handler.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use longarm_memory::{Adoption, MrKeys, MrSpec, Registry, Span, survive_unmapping, unmapped_pages};
use transport::{Access, Accessor, AtomicOp, LKey, Memory, MemoryError, PdId, Sge};
use wire::Qpn;

const BYTES: usize = 16 << 12;
const ALL: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// An address range where the system maps nothing by itself: unmapped pages stay unmapped.
static NOWHERE: AtomicUsize = AtomicUsize::new(16 << 40);

#[derive(Clone, Copy)]
struct Mapping(usize);

impl Mapping {
    fn new() -> Mapping {
        Mapping::with(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn of_file(file: &File) -> Mapping {
        Mapping::with(libc::MAP_SHARED, file.as_raw_fd())
    }

    fn with(flags: c_int, fd: c_int) -> Mapping {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_FIXED_NOREPLACE;
        let mapping = Mapping(NOWHERE.fetch_add(2 * BYTES, Relaxed));
        // SAFETY: a new mapping, at an address without one.
        assert_eq!(unsafe { libc::mmap(mapping.ptr().cast(), BYTES, rights, flags, fd, 0) }, mapping.ptr().cast());
        mapping
    }

    fn ptr(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.0)
    }

    fn unmap(self) {
        self.unmap_part(0, BYTES);
    }

    fn unmap_part(self, offset: usize, len_bytes: usize) {
        // SAFETY: a mapping of this test, which only the registry uses.
        assert_eq!(unsafe { libc::munmap(self.ptr().wrapping_add(offset).cast(), len_bytes) }, 0);
    }
}

struct Fixture {
    registry: Registry,
    pd: PdId,
    keys: MrKeys,
    mapping: Mapping,
}

impl Fixture {
    /// Memory filled with sevens.
    fn new(adopt: bool) -> Fixture {
        let mapping = Mapping::new();
        // SAFETY: writes the new mapping, which has this length.
        unsafe { mapping.ptr().write_bytes(7, BYTES) };
        Fixture::of(mapping, adopt)
    }

    fn of(mapping: Mapping, adopt: bool) -> Fixture {
        let registry = Registry::new(7);
        registry.set_adoption(if adopt { Adoption::Always } else { Adoption::Never });
        let pd = registry.alloc_pd();
        // SAFETY: it stays mapped, except for the case under test.
        let keys =
            unsafe { registry.register(&MrSpec::new(pd, mapping.ptr(), BYTES as u64, ALL)) }.expect("registered");
        Fixture { registry, pd, keys, mapping }
    }

    fn who(&self) -> Accessor {
        Accessor { pd: self.pd, qpn: Qpn::new(2) }
    }

    fn all(&self) -> [Sge; 1] {
        [Sge { addr: self.at(0), len_bytes: BYTES as u32, lkey: self.keys.lkey }]
    }

    fn at(&self, offset: usize) -> u64 {
        (self.mapping.0 + offset) as u64
    }

    fn peek(&self, offset: usize) -> u8 {
        let mut byte = [0];
        let sge = Sge { addr: self.at(offset), len_bytes: 1, lkey: self.keys.lkey };
        self.registry.gather(self.pd, &[sge], 0, &mut byte).expect("readable");
        byte[0]
    }
}

/// Installs a handler before the library does, so that the order of the tests does not matter.
fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: installs a handler that only ends the process.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_flags = libc::SA_SIGINFO;
            action.sa_sigaction = own_handler as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut()), 0);
        }
        survive_unmapping().expect("a handler");
        survive_unmapping().expect("and again");
    });
}

static EXPECTED: AtomicUsize = AtomicUsize::new(0);
const OWN_HANDLER: c_int = 41;
const OTHER_ADDRESS: c_int = 42;

extern "C" fn own_handler(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: reads the kernel's structure, and ends the process.
    unsafe {
        let same = signal == libc::SIGSEGV && (*info).si_addr().addr() == EXPECTED.load(Relaxed);
        libc::_exit(if same { OWN_HANDLER } else { OTHER_ADDRESS });
    }
}

/// The exit status of a child process that runs `child`.
fn status_of(child: impl FnOnce()) -> c_int {
    // SAFETY: the child runs the closure and ends by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            child();
            // SAFETY: ends the child without running destructors.
            unsafe { libc::_exit(0) }
        }
        pid => {
            let mut status = -1;
            // SAFETY: waits for the child of this function.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            status
        }
    }
}

fn every_access_goes_on(adopt: bool) {
    begin();
    let fixture = Fixture::new(adopt);
    let Fixture { registry, pd, keys, mapping } = &fixture;
    let (pd, who, before) = (*pd, fixture.who(), unmapped_pages());
    mapping.unmap();
    let mut bytes = vec![9; BYTES];
    registry.gather(pd, &fixture.all(), 0, &mut bytes).expect("zeros");
    assert!(bytes.iter().all(|byte| *byte == 0));
    assert!(unmapped_pages() - before >= (BYTES >> 12) as u64);
    mapping.unmap();
    registry.scatter(pd, &fixture.all(), 0, &[3; BYTES]).expect("written somewhere");
    mapping.unmap();
    registry.remote_write(who, keys.rkey, fixture.at(4090), &[3; 20]).expect("written");
    mapping.unmap();
    registry.remote_read(who, keys.rkey, fixture.at(4090), &mut bytes[..20]).expect("read");
    mapping.unmap();
    let add = AtomicOp::FetchAdd { add: 4 };
    assert_eq!(registry.remote_atomic(who, keys.rkey, fixture.at(8), add), Ok(0));
    assert_eq!(registry.remote_atomic(who, keys.rkey, fixture.at(8), add), Ok(4), "the page stays");
    mapping.unmap();
    registry.scatter_from(pd, &fixture.all(), 0, Span::from_mut(&mut bytes)).expect("written");
    mapping.unmap();
    registry.gather_to(pd, &fixture.all(), 0, Span::from_mut(&mut bytes)).expect("read");
    registry.deregister(keys.id).expect("still ours");
    assert_eq!(registry.remote_write(who, keys.rkey, fixture.at(0), &[1]), Err(MemoryError::BadKey));
}

#[test]
fn accesses_to_unmapped_memory_go_on() {
    every_access_goes_on(false);
}

#[test]
fn accesses_to_adopted_memory_that_was_unmapped_go_on() {
    every_access_goes_on(true);
}

#[test]
fn mapped_pages_keep_their_contents() {
    begin();
    let fixture = Fixture::new(false);
    fixture.mapping.unmap_part(8192, 4096);
    assert_eq!([8191, 8192, 12287, 12288].map(|offset| fixture.peek(offset)), [7, 0, 0, 7]);
}

#[test]
fn accesses_to_a_file_that_was_cut_go_on() {
    begin();
    let name = std::env::temp_dir().join(format!("cut-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&name).expect("a file");
    std::fs::remove_file(&name).expect("only the descriptor remains");
    file.write_all_at(&[7; BYTES], 0).expect("written");
    let fixture = Fixture::of(Mapping::of_file(&file), false);
    let before = unmapped_pages();
    file.set_len(4096).expect("cut");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                assert_eq!([0, 4095, 4096, BYTES - 1].map(|offset| fixture.peek(offset)), [7, 7, 0, 0]);
            });
        }
    });
    assert!(unmapped_pages() - before >= 2);
    let bytes = [3; 20];
    fixture.registry.remote_write(fixture.who(), fixture.keys.rkey, fixture.at(8190), &bytes).expect("written");
    assert_eq!(file.metadata().expect("metadata").len(), 4096, "the file stays as it is");
}

#[test]
fn threads_that_meet_at_an_unmapped_page_go_on() {
    begin();
    for _ in 0..50 {
        let fixture = Fixture::new(false);
        fixture.mapping.unmap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| fixture.registry.scatter(fixture.pd, &fixture.all(), 0, &[1; BYTES]).expect("written"));
            }
        });
        assert_eq!([0, BYTES - 1].map(|offset| fixture.peek(offset)), [1, 1]);
    }
}

#[test]
fn registries_come_and_go_while_accesses_fault() {
    begin();
    std::thread::scope(|scope| {
        let faulting = scope.spawn(|| {
            let fixture = Fixture::new(false);
            for _ in 0..500 {
                fixture.mapping.unmap();
                assert_eq!(fixture.peek(0), 0);
            }
        });
        while !faulting.is_finished() {
            drop(Fixture::new(false));
        }
        faulting.join().expect("no fault");
    });
}

#[test]
fn a_fault_of_the_program_s_own_reaches_its_handler() {
    begin();
    let fixture = Fixture::new(false);
    fixture.mapping.unmap();
    let status = status_of(|| {
        EXPECTED.store(fixture.mapping.0, Relaxed);
        // SAFETY: causes a fault in registered memory that no queue pair is using; it ends this process.
        unsafe { fixture.mapping.ptr().write_volatile(1) };
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == OWN_HANDLER, "{status:x}");
}

#[test]
fn an_access_that_is_not_allowed_is_a_fault() {
    begin();
    let fixture = Fixture::new(false);
    let status = status_of(|| {
        // SAFETY: a mapping of this test.
        assert_eq!(unsafe { libc::mprotect(fixture.mapping.ptr().cast(), BYTES, libc::PROT_READ) }, 0);
        EXPECTED.store(fixture.mapping.0, Relaxed);
        let _ = fixture.registry.remote_write(fixture.who(), fixture.keys.rkey, fixture.at(0), &[1]);
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == OWN_HANDLER, "{status:x}");
}

#[test]
fn keys_are_checked_before_anything_else() {
    begin();
    let fixture = Fixture::new(false);
    fixture.mapping.unmap();
    let sge = Sge { addr: fixture.at(0), len_bytes: 8, lkey: LKey(fixture.keys.lkey.0 ^ 0x100) };
    assert_eq!(fixture.registry.scatter(fixture.pd, &[sge], 0, &[0; 8]), Err(MemoryError::BadKey));
    let mut byte = 0;
    // SAFETY: writes the state of one page to one byte.
    assert_eq!(unsafe { libc::mincore(fixture.mapping.ptr().cast(), 1, &mut byte) }, -1, "nothing is mapped");
}
