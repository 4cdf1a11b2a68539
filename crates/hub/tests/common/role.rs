//! A client process from within.

use super::{Raw, kill, sharing};
use longarm_hub::client::{AttachOptions, RequestedBy, Session, SessionEvent, ShmOffer, attach};
use longarm_hub::{CounterPage, RUNTIME_DIR_VARIABLE};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit};
use std::env;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// For the test named `role`: does nothing unless this process is a client process.
pub fn play_role_if_asked() {
    match testkit::role().as_deref() {
        Some("client") => client(None),
        Some("sharer") => client(Some(sharing::offer(&std::process::id().to_string()))),
        Some("manager") => super::manager_role::play(say),
        Some("outcome") => outcome(),
        Some("childless") => childless(),
        Some("without stdio") => without_stdio(),
        Some("crowded") => crowded(),
        Some(other) => panic!("no role {other}"),
        None => {}
    }
}

fn options() -> AttachOptions {
    let runtime_dir = env::var_os(RUNTIME_DIR_VARIABLE).map(Into::into);
    AttachOptions { runtime_dir, ..AttachOptions::default() }
}

fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "@{line}").unwrap();
    stdout.flush().unwrap();
}

/// Attaches and prints the outcome.
fn outcome() {
    match attach(&options()) {
        Ok(session) => {
            say(&format!("attached {}", session.slot()));
            // Stays until the test has seen enough.
            let _ = std::io::stdin().lines().next();
        }
        Err(error) => say(&format!("error {error}")),
    }
}

static CHILD_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_child_signal(_signal: libc::c_int) {
    CHILD_SIGNALS.fetch_add(1, Relaxed);
}

/// Starts a hub, and prints whether the process noticed a child.
fn childless() {
    let handler: extern "C" fn(libc::c_int) = count_child_signal;
    // SAFETY: the handler only adds to an atomic, which is safe in a signal handler.
    unsafe { libc::signal(libc::SIGCHLD, handler as libc::sighandler_t) };
    let _session = attach(&options()).unwrap();
    let wait = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
    say(&format!("signals {} wait {:?}", CHILD_SIGNALS.load(Relaxed), wait.unwrap_err()));
}

/// Attaches as a user with more descriptors in unread messages than the limit, like the
/// keepers of other hubs; then obeys commands.
fn crowded() {
    // Root may exceed the limit, so this becomes another user, if permitted.
    let _ = rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65534));
    let null = std::fs::File::open("/dev/null").unwrap();
    let many = [null.as_fd(); 253];
    let mut unread = Vec::new();
    for _ in 0..3 {
        let (keeper, sender) = std::os::unix::net::UnixDatagram::pair().unwrap();
        Raw { socket: sender.into() }.send(b"x", &many).unwrap();
        unread.push(keeper);
    }
    let limit = Rlimit { current: Some(400), ..rustix::process::getrlimit(Resource::Nofile) };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let (_keeper, sender) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let refused = Raw { socket: sender.into() }.send(b"x", &many[..1]);
    assert_eq!(refused, Err(rustix::io::Errno::TOOMANYREFS), "the limit counts");
    client(None);
    assert_eq!(rustix::process::getrlimit(Resource::Nofile), limit, "the limit is as it was");
    say("done");
}

/// Starts a hub while standard input and error are closed, so that new descriptors get their
/// numbers.
fn without_stdio() {
    // SAFETY: no code of this process uses descriptors 0 and 2 from now on.
    unsafe {
        libc::close(0);
        libc::close(2);
    }
    match attach(&options()) {
        Ok(session) => say(&format!("attached {}", session.slot())),
        Err(error) => say(&format!("error {error}")),
    }
}

/// Attaches, and then obeys commands.
fn client(shm: Option<ShmOffer>) {
    let page = Arc::new(CounterPage::create(&["packets", "commands"]).unwrap());
    let session = attach(&AttachOptions { counters: Some(page.clone()), shm, ..options() });
    let mut session = session.unwrap();
    say(&format!("attached {}", session.slot()));
    let commands = commands();
    loop {
        serve(&mut session);
        match commands.try_recv() {
            Ok(command) => {
                page.cell(1).fetch_add(1, Relaxed);
                if !obey(&command, &mut session, &page) {
                    return;
                }
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

fn commands() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// One round of a device's background thread, with a short wait.
fn serve(session: &mut Session) {
    let now = Instant::now();
    let most = Duration::from_millis(5);
    let wait = session.maintain(now).map_or(most, |wake| (wake - now).min(most));
    while let Some(event) = session.next_event() {
        say(&match event {
            SessionEvent::HubLost => "hub lost".into(),
            SessionEvent::Reattached => format!("reattached {}", session.slot()),
            SessionEvent::DevicesChanged(devices) => {
                let names: Vec<_> = devices.iter().map(|d| format!("{}:{}", d.name, d.gids.len())).collect();
                format!("devices {}", names.join(" "))
            }
            SessionEvent::Introduced(other) => match other.requested_by {
                RequestedBy::ThisProcess => format!("introduced to {} {}", other.slot, sharing::text(&other.export)),
                RequestedBy::Peer(offer) => {
                    // The peer may have ended.
                    let _ = rustix::io::write(&offer.socket, b"hello");
                    format!("introduced by {} {}", other.slot, sharing::text(&other.export))
                }
            },
            SessionEvent::NotIntroduced { slot, reason } => format!("not introduced to {slot}: {reason:?}"),
            SessionEvent::Detached { reason } => format!("detached {reason}"),
        });
    }
    let mut fds = [PollFd::from_borrowed_fd(session.poll_fd(), PollFlags::IN)];
    let timeout = Timespec::try_from(wait).unwrap();
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap();
}

/// Returns whether to continue.
fn obey(command: &str, session: &mut Session, page: &CounterPage) -> bool {
    let (verb, argument) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "receive" => {
            let (slot, mark) = receive(session);
            page.cell(0).fetch_add(1, Relaxed);
            say(&format!("packet {slot} {mark}"));
        }
        "more" => match session.more_slots(argument.parse().unwrap()) {
            Ok(slots) => {
                let numbers: Vec<_> = slots.iter().map(|slot| slot.number.to_string()).collect();
                say(&format!("more {}", numbers.join(" ")));
            }
            Err(error) => say(&format!("error {error}")),
        },
        "release" => match session.release_slot(argument.parse().unwrap()) {
            Ok(()) => say("released"),
            Err(error) => say(&format!("error {error}")),
        },
        "introduce" => introduce_limited(session, argument.strip_prefix("limited ").unwrap().parse().unwrap()),
        "unlimited" => limit_descriptors(rustix::process::getrlimit(Resource::Nofile).maximum),
        "fork" => say(&format!("forked {}", fork_sleeper())),
        "clone" => say(&format!("cloned {}", sleep_in_child(bare_clone()))),
        "kill" => kill(longarm_hub::client::status(options().runtime_dir.as_deref()).unwrap().pid),
        "quit" => return false,
        other => panic!("unknown command {other}"),
    }
    true
}

/// Asks for an introduction without room for its descriptors.
fn introduce_limited(session: &mut Session, slot: u8) {
    let (offer, _socket) = sharing::link("role");
    limit_descriptors(Some(3));
    session.introduce(slot, offer).unwrap();
}

fn limit_descriptors(current: Option<u64>) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

/// Waits for a packet on any of the slots. Returns the slot that it is for and its mark.
fn receive(session: &Session) -> (u8, u8) {
    loop {
        for slot in session.slots() {
            let mut bytes = [0; 64];
            let flags = rustix::net::RecvFlags::DONTWAIT;
            if let Ok((20, _)) = rustix::net::recv(slot.socket.as_fd(), &mut bytes, flags) {
                assert_eq!(bytes[5], slot.number, "a packet for another slot");
                return (bytes[5], bytes[12]);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A child with copies of all descriptors that executes nothing. Returns its number.
pub(super) fn fork_sleeper() -> i32 {
    // SAFETY: the child allocates nothing and uses no lock.
    sleep_in_child(unsafe { libc::fork() })
}

/// As `fork`, without the handlers that the C library calls.
fn bare_clone() -> i32 {
    // SAFETY: without a new stack the child has a copy of this one, as after `fork`. It allocates nothing and uses no lock.
    unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 }
}

/// In a child: sleeps until it is killed. In the parent: the child's number.
fn sleep_in_child(child: i32) -> i32 {
    if child != 0 {
        return child;
    }
    loop {
        // SAFETY: it takes no arguments, and only suspends the process.
        unsafe { libc::pause() };
    }
}
