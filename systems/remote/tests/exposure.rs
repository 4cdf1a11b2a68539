//! Memory that another process exposes: its owner is stopped, is killed and starts again, and the other one is killed, too.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use longarm::{Access, Connection, Listener, MemoryRegion, RemoteKey, Route};
use longarm_remote::{
    ExposureError, MemoryProcess, MemoryProcessOptions, ProcessWindow, connection_data, end_left_memory, serve_memory,
};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

const PATIENCE: Duration = Duration::from_secs(60);
const NAME: &str = "exposure";
const PAGE: u64 = 4096;
const READER: [u8; 16] = [1; 16];
const WRITER: [u8; 16] = [2; 16];

/// Runs `body` with a hub and a namespace, over packets: a stopped process answers nothing there.
fn with_hub(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => {
            let mut body = testkit::run_again(test, "body");
            body.env("LONGARM_LOCAL", "off");
            hub::testing::passes_with_hub(&format!("exposure-{test}"), body);
        }
        Some("body") => body(),
        Some("memory") => serve_memory().unwrap(),
        Some(_) => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            program(test);
        }
    }
}

fn note(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("LONGARM_RUNTIME_DIR").unwrap()).join(name)
}

fn tell(name: &str, text: &str) {
    std::fs::write(note("new"), text).unwrap();
    std::fs::rename(note("new"), note(name)).unwrap();
}

fn told(name: &str) -> String {
    let text = testkit::wait_for(name, || std::fs::read_to_string(note(name)).ok());
    std::fs::remove_file(note(name)).unwrap();
    text
}

fn region() -> MemoryRegion {
    let listener = Listener::bind("127.0.0.1:0").wait(PATIENCE).unwrap();
    let domain = listener.open_device().unwrap().protection_domain().unwrap();
    domain.expose(1 << 20, Access::REMOTE_READ).unwrap()
}

fn memory_process(test: &str, name: Option<&str>) -> Result<MemoryProcess, ExposureError> {
    let options = MemoryProcessOptions { name: name.map(str::to_owned), ..MemoryProcessOptions::default() };
    MemoryProcess::start(testkit::run_again(test, "memory"), options)
}

/// The program: it counts in the first word, gives two rights, and takes the reader's when it is told to.
fn program(test: &str) {
    let (region, memory) = (region(), memory_process(test, Some(NAME)).unwrap());
    let number = memory.expose(&region).unwrap();
    let all = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let window = |range, access| (7, ProcessWindow { region: number, range, access });
    memory.allow(READER, &[window(0..PAGE, Access::REMOTE_READ)]).unwrap();
    memory.allow(WRITER, &[window(PAGE..2 * PAGE, all)]).unwrap();
    tell("port", &memory.port().to_string());
    for count in 1.. {
        region.store(0, count).unwrap();
        memory.tend().unwrap();
        for token in [READER, WRITER] {
            if let Some(window) = memory.find(&token, 7).unwrap()
                && std::fs::remove_file(note(&format!("ask {}", token[0]))).is_ok()
            {
                let key = window.key.to_bytes().map(|byte| format!("{byte:02x}")).concat();
                tell("key", &format!("{} {key} {}", window.attempt, memory.id().unwrap()));
            }
        }
        if std::fs::remove_file(note("revoke")).is_ok() {
            memory.revoke(&READER);
            tell("revoked", &region.load(PAGE).unwrap().to_string());
        }
    }
}

/// A process of the test. Dropping it kills it.
struct Program(Child);

impl Program {
    fn start() -> Program {
        let test = std::thread::current().name().expect("the thread of a test").to_owned();
        Program(testkit::run_again(&test, "program").spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn try_connect(port: &str, data: &[u8]) -> Option<Connection> {
    let address = format!("127.0.0.1:{port}");
    let device = Route::to(address.as_str()).wait(PATIENCE).ok()?.open_device().ok()?;
    let (domain, queue) = (device.protection_domain().ok()?, device.completion_queue().ok()?);
    longarm::connect(address.as_str(), domain.rc(&queue), data).wait(PATIENCE).ok()
}

/// A peer: its connection, its key, and the number of the memory process.
fn peer(port: &str, token: [u8; 16], attempt: u64) -> (Connection, RemoteKey, i32) {
    let connection = testkit::wait_for("a connection", || try_connect(port, &connection_data(&token, attempt)));
    loop {
        tell(&format!("ask {}", token[0]), "");
        let text = told("key");
        let [known, key, id] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        if known == attempt.to_string() {
            let key: Vec<u8> =
                (0..key.len() / 2).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap()).collect();
            return (connection, RemoteKey::from_bytes(&key).unwrap(), id.parse().unwrap());
        }
    }
}

fn count(connection: &Connection, key: &RemoteKey) -> Option<u64> {
    let buffer = connection.protection_domain().allocate(8).unwrap();
    let read = connection.read(buffer, &key.word(0).unwrap()).wait(PATIENCE).ok()?;
    Some(u64::from_ne_bytes(read[..].try_into().unwrap()))
}

#[test]
fn peers_read_while_the_program_is_stopped_and_after_it_was_killed() {
    with_hub("peers_read_while_the_program_is_stopped_and_after_it_was_killed", || {
        let program = Program::start();
        let port = told("port");
        let (reader, key, id) = peer(&port, READER, 1);
        let first = count(&reader, &key).unwrap();
        testkit::wait_until("the program counts", || count(&reader, &key).unwrap() > first);
        program.signal(Signal::STOP);
        testkit::wait_until("the program stands", || {
            let before = count(&reader, &key).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            before == count(&reader, &key).unwrap()
        });
        program.signal(Signal::CONT);
        let stood = count(&reader, &key).unwrap();
        testkit::wait_until("the program goes on", || count(&reader, &key).unwrap() > stood);
        drop(program);
        let last = count(&reader, &key).unwrap();
        assert!((0..1000).all(|_| count(&reader, &key) == Some(last)));
        // The program's next life ends what the last one has left, before it does anything.
        let program = Program::start();
        let port = told("port");
        testkit::wait_until("the old keys are dead", || count(&reader, &key).is_none());
        let (reader, key, next) = peer(&port, READER, 2);
        assert!(next != id && count(&reader, &key).is_some());
        // Without peers nobody stays.
        drop((reader, program));
        let gone = || rustix::process::test_kill_process(Pid::from_raw(next).unwrap()).is_err();
        testkit::wait_until("the memory process ends", gone);
        assert!(!end_left_memory(NAME).unwrap());
    });
}

#[test]
fn a_memory_process_that_was_killed_has_a_successor_with_all_rights() {
    with_hub("a_memory_process_that_was_killed_has_a_successor_with_all_rights", || {
        let _program = Program::start();
        let port = told("port");
        for attempt in 1..4 {
            let (reader, key, id) = peer(&port, READER, attempt);
            let (writer, place, _) = peer(&port, WRITER, attempt);
            assert!(count(&reader, &key).is_some());
            let before = writer.fetch_add(&place.word(0).unwrap(), 1).wait(PATIENCE).unwrap();
            assert_eq!(before, attempt - 1, "the memory is the program's, and stays");
            // A process that stands is as good as dead for a program that has to take a right away.
            kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
            testkit::wait_until("the connection ends", || count(&reader, &key).is_none());
        }
    });
}

#[test]
fn rights_are_bounded_and_end_when_they_are_taken_away() {
    with_hub("rights_are_bounded_and_end_when_they_are_taken_away", || {
        let _program = Program::start();
        let port = told("port");
        let (reader, key, id) = peer(&port, READER, 1);
        let (writer, place, _) = peer(&port, WRITER, 1);
        assert_eq!((key.len_bytes(), place.len_bytes()), (PAGE, PAGE));
        // Without a right, with a part of one, or with a guess, nobody gets a connection.
        for data in [&b""[..], &READER[..15], &[9; 24]] {
            assert!(try_connect(&port, data).is_none());
        }
        // A key is for one connection, and for its own part of the memory.
        let other = testkit::wait_for("a connection", || try_connect(&port, &connection_data(&WRITER, 2)));
        assert!(count(&other, &place).is_none(), "the key of the connection before");
        drop((writer, other));
        let (writer, place, _) = peer(&port, WRITER, 3);
        writer.write_inline(&5_u64.to_ne_bytes(), &place.word(0).unwrap()).wait(PATIENCE).unwrap();
        let beside = RemoteKey::from_parts(place.addr() + PAGE, place.rkey(), 8);
        assert!(count(&writer, &beside).is_none());
        // The process stands when the right is taken away: so it is ended, and another one does not know the right.
        kill_process(Pid::from_raw(id).unwrap(), Signal::STOP).unwrap();
        tell("revoke", "");
        assert_eq!(told("revoked"), "5");
        assert!(count(&reader, &key).is_none() && try_connect(&port, &connection_data(&READER, 9)).is_none());
        let (writer, place, next) = peer(&port, WRITER, 4);
        assert!(next != id && count(&writer, &place) == Some(5));
    });
}

#[test]
fn two_programs_that_live_cannot_have_one_name() {
    let test = "two_programs_that_live_cannot_have_one_name";
    with_hub(test, || {
        let first = memory_process(test, Some("one")).unwrap();
        assert!(matches!(memory_process(test, Some("one")), Err(ExposureError::NameTaken(_))));
        assert!(!end_left_memory("one").unwrap(), "its program lives");
        assert_eq!(first.started(), 1);
        first.tend().unwrap();
        assert_eq!(first.started(), 1);
        drop(first);
        drop(memory_process(test, Some("one")).unwrap());
        assert!(memory_process(test, Some(&"x".repeat(99))).is_err());
        let none = std::process::Command::new("/bin/false");
        let refused = MemoryProcess::start(none, MemoryProcessOptions::default());
        assert!(matches!(refused, Err(ExposureError::Process(_))), "{refused:?}");
    });
}
