//! Adopted memory and `fork`: child and parent have separate copies.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use longarm_memory::{Adoption, MrKeys, MrSpec, Registry};
use transport::{Access, Memory, Sge};

const WORDS: usize = 1 << 16;

struct Fixture {
    registry: Registry,
    keys: MrKeys,
    memory: Vec<AtomicU64>,
    sge: Sge,
    pd: transport::PdId,
}

impl Fixture {
    /// Adopted memory whose words are their numbers.
    fn new() -> Fixture {
        let registry = Registry::new(1);
        registry.set_adoption(Adoption::Always);
        let pd = registry.alloc_pd();
        let memory: Vec<AtomicU64> = (0..WORDS as u64).map(AtomicU64::new).collect();
        let start = memory.as_ptr().cast_mut().cast();
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let spec = MrSpec::new(pd, start, 8 * WORDS as u64, access);
        // SAFETY: the vector outlives the registration.
        let keys = unsafe { registry.register(&spec) }.expect("registered");
        let sge = Sge { addr: spec.iova + 4096, len_bytes: 8, lkey: keys.lkey };
        Fixture { registry, keys, memory, sge, pd }
    }

    fn is_adopted(&self) -> bool {
        self.registry.locate(self.pd, &self.sge).expect("readable").is_some()
    }
}

/// A fork ends adoption for the whole process. So each test runs in its own process: this executable once
/// more. Returns true in there.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "LONGARM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("a test knows its file");
    let output = Command::new(own).args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Forks, runs `child` in the child and `parent` in the parent. Returns the result of `child`.
fn forked(child: impl FnOnce() -> bool, parent: impl FnOnce()) -> bool {
    // SAFETY: the child calls nothing that needs another thread, and ends by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            let code = if child() { 0 } else { 1 };
            // SAFETY: ends this process without running destructors.
            unsafe { libc::_exit(code) }
        }
        pid => {
            parent();
            let mut status = -1;
            // SAFETY: waits for the child of this function.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            status == 0
        }
    }
}

/// Two words that both processes share.
fn shared_flags() -> &'static [AtomicU64; 2] {
    // SAFETY: a new page of zeros that is never unmapped.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(core::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast()
    }
}

fn wait_for(flag: &AtomicU64) {
    while flag.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn after_a_fork_each_has_its_own() {
    if !is_alone("after_a_fork_each_has_its_own") {
        return;
    }
    let fixture = Fixture::new();
    assert!(fixture.is_adopted());
    let [parent_wrote, child_wrote] = shared_flags();
    let memory = &fixture.memory;
    let child = || {
        wait_for(parent_wrote);
        let as_it_was = memory.iter().zip(0..).all(|(word, number)| word.load(Relaxed) == number);
        memory.iter().for_each(|word| word.store(7, Relaxed));
        child_wrote.store(1, Relaxed);
        as_it_was
    };
    let parent = || {
        memory.iter().for_each(|word| word.store(5, Relaxed));
        parent_wrote.store(1, Relaxed);
        wait_for(child_wrote);
        assert!(memory.iter().all(|word| word.load(Relaxed) == 5));
    };
    assert!(forked(child, parent), "the child saw what was there at the fork");
    assert!(!fixture.is_adopted(), "given up at the fork");
    fixture.registry.deregister(fixture.keys.id).expect("alive");
    assert!(fixture.memory.iter().all(|word| word.load(Relaxed) == 5));
}

#[test]
fn a_child_may_end_the_registration_and_fork_again() {
    if !is_alone("a_child_may_end_the_registration_and_fork_again") {
        return;
    }
    let fixture = Fixture::new();
    let memory = &fixture.memory;
    let child = || {
        memory[600].store(1, Relaxed);
        fixture.registry.deregister(fixture.keys.id).is_ok()
            && memory[600].load(Relaxed) == 1
            && memory[601].load(Relaxed) == 601
            && forked(|| memory[600].load(Relaxed) == 1, || ())
    };
    assert!(forked(child, || ()));
    assert_eq!(memory[600].load(Relaxed), 600);
    fixture.registry.deregister(fixture.keys.id).expect("alive in the parent");
    assert_eq!(memory[601].load(Relaxed), 601);
}

/// Makes userfaultfd(2) fail in this process from this call on, as some containers do.
fn refuse_userfaultfd() -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let (load, compare, answer) =
        (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::BPF_RET);
    let mut filter = [
        // The system call's number comes first.
        statement(load, 0),
        libc::sock_filter { jf: 1, ..statement(compare, libc::SYS_userfaultfd as u32) },
        statement(answer, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(answer, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the filter during the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    }
}

#[test]
fn without_userfaultfd_memory_is_adopted_only_if_nobody_else_is_there() {
    if !is_alone("without_userfaultfd_memory_is_adopted_only_if_nobody_else_is_there") {
        return;
    }
    let child = || {
        // The child of a fork has one thread.
        let alone = refuse_userfaultfd() && Fixture::new().is_adopted();
        let kept = {
            let fixture = Fixture::new();
            fixture.registry.deregister(fixture.keys.id).is_ok()
                && fixture.memory.iter().zip(0..).all(|(word, number)| word.load(Relaxed) == number)
        };
        let stop = AtomicBool::new(false);
        let not_alone = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    std::thread::yield_now();
                }
            });
            let stranger = !Fixture::new().is_adopted();
            stop.store(true, Relaxed);
            stranger
        });
        alone && kept && not_alone
    };
    assert!(forked(child, || ()));
}

#[test]
fn forks_while_others_write_and_register() {
    if !is_alone("forks_while_others_write_and_register") {
        return;
    }
    let fixture = Fixture::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                let before = fixture.memory[900].swap(round, Relaxed);
                assert_eq!(before, if round == 1 { 900 } else { round - 1 });
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            let mut other = vec![1u8; 1 << 18];
            let spec = MrSpec::new(fixture.pd, other.as_mut_ptr(), 1 << 18, Access::LOCAL_WRITE);
            while !stop.load(Relaxed) {
                // SAFETY: the vector outlives the registration.
                let keys = unsafe { fixture.registry.register(&spec) }.expect("registered");
                fixture.registry.deregister(keys.id).expect("alive");
            }
        });
        for round in 0..50u64 {
            fixture.memory[5000].store(round, Relaxed);
            assert!(forked(|| fixture.memory[5000].load(Relaxed) == round, || ()));
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn the_engine_writes_to_adopted_memory_through_its_key() {
    if !is_alone("the_engine_writes_to_adopted_memory_through_its_key") {
        return;
    }
    let fixture = Fixture::new();
    let data = 9u64.to_ne_bytes();
    fixture.registry.scatter(fixture.pd, &[fixture.sge], 0, &data).expect("writable");
    assert_eq!(fixture.memory[512].load(Relaxed), 9);
    fixture.registry.deregister(fixture.keys.id).expect("alive");
    assert_eq!(fixture.memory[512].load(Relaxed), 9);
}
