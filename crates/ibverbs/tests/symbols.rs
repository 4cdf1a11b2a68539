//! Every symbol of `exports.txt` is found under its version. A distribution's libraries that are
//! linked against libibverbs load with ours in its place.

#[path = "support/mod.rs"]
mod support;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use support::{ProgramDir, library, must_succeed};

/// Version node, name, whether it is the default version.
fn exports() -> Vec<(&'static str, &'static str, bool)> {
    let lines = include_str!("../exports.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [node, name, kind] => (node, name, kind == "@@"),
            _ => panic!("{line:?} has not three words"),
        })
        .collect()
}

/// Our library, loaded into this process; it stays.
struct Loaded(*mut c_void);

impl Loaded {
    fn new() -> Loaded {
        let path = CString::new(library().as_os_str().as_bytes()).expect("no nul in a path");
        // SAFETY: the library's constructors only read the environment.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{}", last_error());
        Loaded(handle)
    }

    fn versioned(&self, name: &str, version: &str) -> *mut c_void {
        let [name, version] = [name, version].map(|text| CString::new(text).expect("no nul in a name"));
        // SAFETY: a loaded library and two strings.
        unsafe { dlvsym(self.0, name.as_ptr(), version.as_ptr()) }
    }

    fn default(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("no nul in a name");
        // SAFETY: a loaded library and a string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

fn last_error() -> String {
    // SAFETY: a string of this thread's, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and it ends with a nul.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[test]
fn every_symbol_is_found_under_its_version() {
    let loaded = Loaded::new();
    let exports = exports();
    assert!(exports.len() > 150, "{} symbols", exports.len());
    let missing: Vec<_> = exports.iter().filter(|(node, name, _)| loaded.versioned(name, node).is_null()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_symbol_of_the_distributions_library_for_connections_is_there() {
    let said =
        must_succeed(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(system_library("librdmacm.so.1")));
    let theirs = said.lines().filter_map(|line| line.split_whitespace().nth(7)?.split_once("@@RDMACM_"));
    let exports = exports();
    let missing: Vec<_> = theirs
        .clone()
        .filter(|(name, version)| !exports.contains(&(format!("RDMACM_{version}").as_str(), name, true)))
        .collect();
    assert!(theirs.count() > 60 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_default_version_is_what_programs_without_versions_find() {
    let loaded = Loaded::new();
    for (node, name, default) in exports() {
        if default {
            assert_eq!(loaded.default(name), loaded.versioned(name, node), "{name}@@{node}");
        }
    }
}

#[test]
fn versions_that_never_were_are_not_found() {
    let loaded = Loaded::new();
    for (name, version) in
        [("ibv_open_device", "IBVERBS_1.12"), ("ibv_open_device", "IBVERBS_9.9"), ("x", "IBVERBS_1.1")]
    {
        assert!(loaded.versioned(name, version).is_null(), "{name}@{version}");
    }
}

#[test]
fn functions_of_the_provider_interface_say_that_they_are_not_supported() {
    let loaded = Loaded::new();
    let symbol = loaded.versioned("ibv_cmd_create_qp", "IBVERBS_PRIVATE_34");
    assert!(!symbol.is_null());
    // SAFETY: it takes nothing, whatever the header says.
    let answer = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol)() };
    assert_eq!(answer, libc::EOPNOTSUPP);
}

#[test]
fn the_file_has_the_name_that_programs_ask_for() {
    let said = must_succeed(Command::new("readelf").arg("--dynamic").arg(library()));
    let soname = said.lines().find(|line| line.contains("SONAME")).expect("a soname");
    assert!(soname.contains("[libibverbs.so.1]"), "{soname}");
    assert!(said.contains("NODELETE"), "{said}");
}

#[test]
fn libraries_of_a_distribution_find_all_that_they_need() {
    let place = ProgramDir::new("resolve");
    for name in ["libmlx5.so.1", "libefa.so.1", "librdmacm.so.1"] {
        let path = system_library(name);
        let said = must_succeed(Command::new("ldd").arg("-r").arg(&path).env("LD_LIBRARY_PATH", place.libraries()));
        assert!(said.contains(place.libraries().to_str().expect("a path in UTF-8")), "{name} uses ours: {said}");
        // The loader complains about each symbol on standard error, and about versions.
        let complaints = Command::new("ldd").args(["-r", &path]).env("LD_LIBRARY_PATH", place.libraries()).output();
        let complaints = complaints.expect("ldd starts");
        let text = String::from_utf8_lossy(&complaints.stdout) + String::from_utf8_lossy(&complaints.stderr);
        assert!(!text.contains("undefined symbol") && !text.contains("no version information"), "{name}: {text}");
        assert!(!text.contains("not found"), "{name}: {text}");
    }
}

#[test]
fn libraries_of_a_distribution_load_and_work_with_ours() {
    assert_eq!(support::run_program("loads"), "loaded\n");
}

/// The path by which the loader finds a library of the system.
fn system_library(name: &str) -> String {
    let cache = must_succeed(Command::new("/sbin/ldconfig").arg("-p"));
    let line = cache.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("{name} is not installed"));
    line.rsplit("=> ").next().expect("a path").to_owned()
}
