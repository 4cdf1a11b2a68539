//! Other users, and broken hubs.

mod common;

use common::{Raw, TestHub, listen, socket_path};
use longarm_hub::client::{AttachError, AttachOptions, attach};
use longarm_hub::message::ErrorCode;
use std::fs::{self, Permissions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;
use udp::testing::in_new_netns;

/// The number of a user other than root.
const NOBODY: u32 = 65534;

/// Runs something as another user; returns `None` if this user may not do that.
fn as_nobody<R: Send>(body: impl FnOnce() -> R + Send) -> Option<R> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::process::geteuid().is_root().then_some(())?;
            rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(NOBODY)).ok()?;
            Some(body())
        });
        let result = thread.join().unwrap();
        if result.is_none() {
            println!("left out: only root can act as another user");
        }
        result
    })
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_user_s_process_is_refused() {
    if as_nobody(|| ()).is_none() {
        return;
    }
    in_new_netns(|| {
        let place = TestHub::new("refused");
        let _session = attach(&place.options()).unwrap();
        // As if its owner had opened the directory to all users.
        set_mode(&place.dir(), 0o755);
        set_mode(place.dir().parent().unwrap(), 0o755);
        set_mode(&socket_path(&place), 0o777);
        let words = as_nobody(|| {
            let raw = Raw::connect(&place);
            // A raw client does not wait for the welcome.
            let _ = raw.try_send(br#"{"request":"hello","version":3,"pid":1,"program":"x"}"#);
            (raw.hear().unwrap(), raw.hear())
        });
        set_mode(&place.dir(), 0o700);
        let (first, second) = words.unwrap();
        assert!(first.contains("wrong_user") && first.contains("65534"), "{first}");
        assert_eq!(second, None);
        let status = place.status();
        assert_eq!(status.counters.refused_users, 1);
        assert_eq!(status.clients.len(), 1);
    });
}

#[test]
fn another_user_s_hub_is_refused() {
    if as_nobody(|| ()).is_none() {
        return;
    }
    in_new_netns(|| {
        let place = TestHub::new("impostor");
        fs::create_dir(place.dir()).unwrap();
        set_mode(place.dir().parent().unwrap(), 0o755);
        set_mode(&place.dir(), 0o777);
        let listener = as_nobody(|| listen(&place));
        set_mode(&place.dir(), 0o700);
        let _listener = listener.unwrap();
        let error = attach(&place.options()).unwrap_err();
        assert!(matches!(error, AttachError::WrongUser { uid: NOBODY, .. }), "{error}");
    });
}

/// The error of attaching to a hub that sends `replies` and then closes the connection.
fn outcome(name: &str, replies: &[(&str, &[BorrowedFd<'_>])]) -> AttachError {
    let place = TestHub::new(name);
    fs::create_dir(place.dir()).unwrap();
    set_mode(&place.dir(), 0o700);
    let listener = listen(&place);
    let options = AttachOptions { start_hub: false, timeout: Duration::from_millis(300), ..place.options() };
    thread::scope(|scope| {
        scope.spawn(|| {
            // An attempt may be repeated. The listener is shut down when the client gave up.
            while let Ok(socket) = rustix::net::accept(&listener) {
                let raw = Raw { socket };
                for (text, fds) in replies {
                    let _ = raw.send(text.as_bytes(), fds);
                }
            }
        });
        let error = attach(&options).unwrap_err();
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        error
    })
}

const WELCOME: (&str, &[BorrowedFd<'_>]) = (r#"{"reply":"welcome","version":3,"pid":7}"#, &[]);

#[test]
fn a_hub_of_another_version_is_told_from_a_broken_one() {
    in_new_netns(|| {
        let error = outcome("version", &[(r#"{"reply":"welcome","version":4,"pid":7}"#, &[])]);
        assert!(matches!(error, AttachError::Version { hub: 4, ours: 3 }), "{error}");
        assert!(error.to_string().contains("longarm down"), "{error}");
    });
}

#[test]
fn nonsense_from_a_hub_is_an_error() {
    in_new_netns(|| {
        let null: OwnedFd = fs::File::open("/dev/null").unwrap().into();
        let (reader, _writer) = std::io::pipe().unwrap();
        let attached = r#"{"reply":"attached","slots":[1],"devices":[]}"#;
        let long = "x".repeat((64 << 10) + 1);
        let scripts: &[&[(&str, &[BorrowedFd<'_>])]] = &[
            &[("\u{0}\u{1}", &[])],
            &[(attached, &[])],
            &[(&long, &[])],
            &[WELCOME, WELCOME],
            &[WELCOME, ("{}", &[])],
            &[WELCOME, (attached, &[])],
            &[WELCOME, (attached, &[null.as_fd()])],
            &[WELCOME, (attached, &[null.as_fd(), null.as_fd(), null.as_fd()])],
            &[WELCOME, (r#"{"reply":"attached","slots":[],"devices":[]}"#, &[null.as_fd(), null.as_fd()])],
            &[WELCOME, (r#"{"reply":"done"}"#, &[])],
            &[WELCOME, (r#"{"reply":"in_file"}"#, &[])],
            &[WELCOME, (r#"{"reply":"in_file"}"#, &[reader.as_fd()])],
        ];
        for (number, script) in scripts.iter().enumerate() {
            let error = outcome("nonsense", script);
            assert!(matches!(error, AttachError::Protocol { .. }), "script {number}: {error}");
        }
    });
}

#[test]
fn a_hub_s_refusal_is_passed_on() {
    in_new_netns(|| {
        let refusal = r#"{"reply":"error","code":"too_many_connections","reason":"too many, sorry"}"#;
        let error = outcome("refusal", &[(refusal, &[])]);
        assert!(matches!(error, AttachError::Refused { code: ErrorCode::TooManyConnections, .. }), "{error}");
        let no_port = r#"{"reply":"error","code":"no_port","reason":"the port is taken"}"#;
        let error = outcome("no-port", &[WELCOME, (no_port, &[])]);
        assert_eq!(error.to_string(), "the Longarm hub could not be started: the port is taken");
    });
}

#[test]
fn a_silent_hub_does_not_stop_the_program() {
    in_new_netns(|| {
        let error = outcome("silent", &[]);
        assert!(matches!(error, AttachError::TimedOut { .. }), "{error}");
    });
}
