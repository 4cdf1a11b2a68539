use super::directory::{choose, open_private};
use super::*;
use crate::channel;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory of its own for each test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn the_environment_chooses_the_directory() {
    let scratch = Scratch::new("choose");
    let run_user = scratch.join("run");
    let xdg = scratch.join("xdg");
    fs::create_dir(&xdg).unwrap();
    let variable = |name: &str| match name {
        "LONGARM_RUNTIME_DIR" => Some(PathBuf::from("/some/where")),
        _ => Some(xdg.clone()),
    };
    assert_eq!(choose(uid(), variable, &run_user), Path::new("/some/where"));
    let only_xdg = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| xdg.clone());
    assert_eq!(choose(uid(), only_xdg, &run_user), xdg.join("longarm"));
    let relative = |_: &str| Some(PathBuf::from("relative"));
    let fallback = PathBuf::from(format!("/tmp/longarm-{}", uid()));
    assert_eq!(choose(uid(), relative, &run_user), fallback);
    let own = run_user.join(uid().to_string());
    fs::create_dir_all(&own).unwrap();
    assert_eq!(choose(uid(), |_| None, &run_user), own.join("longarm"));
}

#[test]
fn another_user_s_session_directory_does_not_count() {
    let scratch = Scratch::new("stranger");
    let session = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| scratch.0.clone());
    let stranger = uid() + 1;
    let chosen = choose(stranger, session, &scratch.join("run"));
    assert_eq!(chosen, PathBuf::from(format!("/tmp/longarm-{stranger}")));
}

#[test]
fn only_a_private_directory_is_used() {
    let scratch = Scratch::new("private");
    let place = scratch.join("place");
    assert!(Rendezvous::find(Some(&place)).is_ok());
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    for mode in [0o701, 0o770, 0o755, 0o777, 0o500] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        let error = Rendezvous::find(Some(&place)).unwrap_err();
        assert!(error.to_string().contains(&format!("its mode is {mode:03o}")), "{error}");
    }
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    let error = open_private(&place, uid() + 1).unwrap_err();
    assert!(error.to_string().contains("it belongs to user"), "{error}");
}

#[test]
fn links_and_files_are_not_used() {
    let scratch = Scratch::new("links");
    let place = scratch.join("place");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&place, scratch.join("link")).unwrap();
    fs::write(scratch.join("file"), "").unwrap();
    for name in ["link", "file"] {
        let error = Rendezvous::find(Some(&scratch.join(name))).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
    }
    let error = Rendezvous::find(Some(&scratch.join("missing/place"))).unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
}

#[test]
fn one_process_has_the_lock() {
    let scratch = Scratch::new("lock");
    let place = scratch.join("place");
    let first = Rendezvous::find(Some(&place)).unwrap();
    let second = Rendezvous::find(Some(&place)).unwrap();
    let lock = first.lock().unwrap().expect("nobody else has it");
    assert!(second.lock().unwrap().is_none());
    first.leave(lock);
    let lock = second.lock().unwrap().expect("it was released");
    assert!(first.lock().unwrap().is_none());
    second.leave(lock);
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "the files are removed");
}

#[test]
fn a_lock_on_a_removed_file_does_not_count() {
    let scratch = Scratch::new("removed");
    let place = scratch.join("place");
    let rendezvous = Rendezvous::find(Some(&place)).unwrap();
    let old = rendezvous.lock().unwrap().unwrap();
    rendezvous.unlink("lock");
    let new = rendezvous.lock().unwrap().expect("a new file, a new lock");
    assert!(rendezvous.lock().unwrap().is_none());
    drop(old);
    assert!(rendezvous.lock().unwrap().is_none());
    drop(new);
}

#[test]
fn hub_and_client_meet_however_long_the_path_is() {
    let scratch = Scratch::new("meet");
    let place = scratch.join(&"x".repeat(200));
    let rendezvous = Rendezvous::find(Some(&place)).unwrap();
    assert!(matches!(rendezvous.connect(), Err(ConnectError::NobodyListens)));
    let listener = rendezvous.listen().unwrap();
    let client = rendezvous.connect().unwrap();
    channel::send(client.as_fd(), b"hello", &[]).unwrap();
    let accepted = rustix::net::accept(&listener).unwrap();
    assert_eq!(channel::receive(accepted.as_fd(), 0).unwrap().bytes, b"hello");
    let peer = own_peer(accepted.as_fd()).unwrap().expect("this user");
    assert_eq!(peer.pid, std::process::id());
    drop(listener);
    assert!(rendezvous.socket_path().exists());
    assert!(matches!(rendezvous.connect(), Err(ConnectError::NobodyListens)), "a dead hub's socket");
    let again = rendezvous.listen().unwrap();
    assert!(rendezvous.connect().is_ok(), "a new hub replaces it");
    drop(again);
}

#[test]
fn a_busy_hub_is_told_from_a_dead_one() {
    let scratch = Scratch::new("busy");
    let rendezvous = Rendezvous::find(Some(&scratch.join("place"))).unwrap();
    let _listener = rendezvous.listen().unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match rendezvous.connect() {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
        assert!(waiting.len() < 1000);
    };
    assert!(matches!(error, ConnectError::Busy), "{error}");
}
