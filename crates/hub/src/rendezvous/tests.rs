use super::directory::{BaseDirs, User, choose, fall_back, open_private, outside};
use super::*;
use crate::channel;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A directory of its own for each test, removed at the end.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> TestDir {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        TestDir(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn own() -> User {
    User { here: uid(), outside: uid() }
}

#[test]
fn the_environment_chooses_the_directory() {
    let scratch = TestDir::new("choose");
    let run_user = scratch.join("run");
    let xdg = scratch.join("xdg");
    fs::create_dir(&xdg).unwrap();
    let variable = |name: &str| match name {
        "LONGARM_RUNTIME_DIR" => Some(PathBuf::from("/some/where")),
        _ => Some(xdg.clone()),
    };
    assert_eq!(choose(own(), variable, &run_user).unwrap(), Path::new("/some/where"));
    let only_xdg = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| xdg.clone());
    assert_eq!(choose(own(), only_xdg, &run_user).unwrap(), xdg.join("longarm"));
    let relative = |_: &str| Some(PathBuf::from("relative"));
    assert_eq!(choose(own(), relative, &run_user), None);
    let user = User { here: uid(), outside: 4711 };
    let session = run_user.join("4711");
    fs::create_dir_all(&session).unwrap();
    assert_eq!(choose(user, |_| None, &run_user).unwrap(), session.join("longarm"));
}

#[test]
fn another_user_s_session_directory_does_not_count() {
    let scratch = TestDir::new("stranger");
    let session = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| scratch.0.clone());
    let stranger = User { here: uid() + 1, outside: uid() + 1 };
    assert_eq!(choose(stranger, session, &scratch.join("run")), None);
}

#[test]
fn users_are_known_by_their_number_outside() {
    assert_eq!(outside(0, "         0          0 4294967295\n"), 0);
    assert_eq!(outside(0, "0 1000 1\n"), 1000);
    assert_eq!(outside(7, "0 1000 1\n1 100000 65536\n"), 100_006);
    for nothing in ["", "x", "0 1000", "0 1000 0", "1 2 3", "0 4294967295 4294967295\n"] {
        assert_eq!(outside(65_534, nothing), 65_534, "{nothing:?}");
    }
}

/// A user's directory in `common` when nothing else is there.
fn fallback(scratch: &TestDir, user: User) -> Result<String, RendezvousError> {
    let missing = scratch.join("missing");
    let places = BaseDirs { run_user: &missing, run: &missing, common: &scratch.0 };
    let (path, _) = fall_back(user, &places)?;
    Ok(path.file_name().unwrap().to_str().unwrap().to_owned())
}

#[test]
fn a_user_s_own_directory_goes_before_one_to_be_made() {
    let scratch = TestDir::new("own");
    let user = User { here: uid(), outside: 4711 };
    assert_eq!(fallback(&scratch, user).unwrap(), "longarm-4711");
    assert_eq!(fallback(&scratch, user).unwrap(), "longarm-4711");
    // As if another user had the first name when ours was made, and removed it later.
    fs::rename(scratch.join("longarm-4711"), scratch.join("longarm-4711-3")).unwrap();
    assert_eq!(fallback(&scratch, user).unwrap(), "longarm-4711-3");
}

#[test]
fn names_that_other_users_took_are_left_alone() {
    let scratch = TestDir::new("squatted");
    // The directory that this user makes here is not the other user's.
    let stranger = User { here: uid() + 1, outside: 4711 };
    let error = fallback(&scratch, stranger).unwrap_err().to_string();
    for part in ["longarm-4711 ", &format!("belongs to user {}", uid()), "LONGARM_RUNTIME_DIR"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_system_s_own_directory_goes_before_everybody_s() {
    let scratch = TestDir::new("system");
    let (run, common) = (scratch.join("run"), scratch.join("tmp"));
    fs::create_dir(&run).unwrap();
    fs::create_dir(&common).unwrap();
    let places = BaseDirs { run_user: &common, run: &run, common: &common };
    let (path, _) = fall_back(User { here: uid(), outside: 4711 }, &places).unwrap();
    assert_eq!(path, run.join("longarm"));
    let stranger = fall_back(User { here: uid() + 1, outside: 4711 }, &places).unwrap_err();
    assert!(stranger.to_string().contains("belongs to user"), "{stranger}");
}

#[test]
fn only_a_private_directory_is_used() {
    let scratch = TestDir::new("private");
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
    let scratch = TestDir::new("links");
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
    let scratch = TestDir::new("lock");
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
    let scratch = TestDir::new("removed");
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
fn the_path_may_be_longer_than_a_socket_address() {
    let scratch = TestDir::new("meet");
    let place = scratch.join(&"x".repeat(200));
    let rendezvous = Rendezvous::find(Some(&place)).unwrap();
    assert!(matches!(rendezvous.connect(), Err(HubConnectError::NobodyListens)));
    let listener = rendezvous.listen().unwrap();
    let client = rendezvous.connect().unwrap();
    channel::send(client.as_fd(), b"hello", &[]).unwrap();
    let accepted = rustix::net::accept(&listener).unwrap();
    assert_eq!(channel::receive(accepted.as_fd(), 0).unwrap().bytes, b"hello");
    let peer = own_peer(accepted.as_fd()).unwrap().expect("this user");
    assert_eq!(peer.pid, std::process::id());
    drop(listener);
    assert!(rendezvous.socket_path().exists());
    assert!(matches!(rendezvous.connect(), Err(HubConnectError::NobodyListens)), "a dead hub's socket");
    let again = rendezvous.listen().unwrap();
    assert!(rendezvous.connect().is_ok(), "a new hub replaces it");
    drop(again);
}

#[test]
fn a_busy_hub_is_told_from_a_dead_one() {
    let scratch = TestDir::new("busy");
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
    assert!(matches!(error, HubConnectError::Busy), "{error}");
}
