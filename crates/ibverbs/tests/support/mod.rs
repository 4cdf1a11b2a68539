//! Support for tests of the library: C programs compiled against the system's header, a directory
//! with our library under its installed names, and a network namespace with its own hub.
#![allow(dead_code)] // Each test file uses its own part.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::TestDir;

/// A directory for the programs of one test. It goes with this value.
pub(crate) struct ProgramDir(TestDir);

impl ProgramDir {
    /// A directory with `libibverbs.so.1` and `librdmacm.so.1`, which are one file.
    pub(crate) fn new(test: &str) -> ProgramDir {
        let place = ProgramDir(TestDir::new(&format!("ibverbs-{test}")));
        std::fs::create_dir(place.libraries()).expect("a directory for the libraries");
        for name in ["libibverbs.so.1", "libibverbs.so", "librdmacm.so.1", "librdmacm.so"] {
            std::os::unix::fs::symlink(library(), place.libraries().join(name)).expect("a link to the library");
        }
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn libraries(&self) -> PathBuf {
        self.path().join("lib")
    }

    /// Compiles `c/NAME.c` against the system's headers and its libraries, which ours replaces
    /// when the program runs. Functions of the program take the place of the C library's.
    pub(crate) fn compile(&self, name: &str) -> PathBuf {
        self.compile_with(name, LIBRARIES)
    }

    /// The same with AddressSanitizer and UndefinedBehaviorSanitizer.
    pub(crate) fn compile_sanitized(&self, name: &str) -> PathBuf {
        let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"];
        self.compile_with(name, &[&sanitizers, LIBRARIES].concat())
    }

    /// The same with these arguments at the end of the compiler's command line.
    pub(crate) fn compile_with(&self, name: &str, tail: &[&str]) -> PathBuf {
        let program = self.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        compiler.arg(sources.join(format!("{name}.c"))).args(tail);
        must_succeed(&mut compiler);
        program
    }

    /// A command in a new network namespace with loop-back only, where a hub that it starts is
    /// its own, and where `libibverbs.so.1` is ours.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = testkit::in_new_netns();
        command.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(program);
        command.env("LD_LIBRARY_PATH", self.libraries()).env("LONGARM_RUNTIME_DIR", self.0.runtime_dir());
        // Programs start the hub from the library, not one that is installed on this machine.
        command.env_remove("LONGARM_HUB").env_remove("LONGARM_DEVICES").env("PATH", SYSTEM_PATH);
        command.stdin(Stdio::null());
        command
    }
}

const LIBRARIES: &[&str] = &["-rdynamic", "-Wl,--as-needed", "-lrdmacm", "-libverbs", "-lpthread", "-ldl"];
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The shared library under test. Cargo puts it beside the test.
pub(crate) fn library() -> PathBuf {
    beside_the_test("libibverbs.so")
}

/// The static library under test.
pub(crate) fn static_library() -> PathBuf {
    beside_the_test("libibverbs.a")
}

fn beside_the_test(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    let path = test.with_file_name(name);
    assert!(path.exists(), "{} is not there", path.display());
    path
}

/// Compiles and runs `c/NAME.c`, which prints failed checks and then ends with an error.
pub(crate) fn run_program(name: &str) -> String {
    let place = ProgramDir::new(name);
    let program = place.compile(name);
    must_succeed(&mut place.command(&program))
}

/// Runs to the end. Returns the program's output; panics with it if the program fails.
#[track_caller]
pub(crate) fn must_succeed(command: &mut Command) -> String {
    String::from_utf8_lossy(&testkit::must_succeed(command).stdout).into_owned()
}
