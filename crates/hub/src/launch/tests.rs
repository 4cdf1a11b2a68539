use super::*;
use std::fs;
use testkit::wait_for;

/// Runs a shell script as a detached process and waits for its end.
fn script(text: &str) -> LaunchProgress {
    let environment: Vec<CString> = vec![c"PATH=/usr/bin:/bin".into(), c"GREETING=hello".into()];
    let text = CString::new(text).unwrap();
    let pipe = execute(Path::new("/bin/sh"), &[c"sh", c"-c", &text], &environment).unwrap();
    wait(&mut Launch { pipe, report: Vec::new() })
}

fn wait(launch: &mut Launch) -> LaunchProgress {
    wait_for("the end of the launch", || match launch.progress() {
        LaunchProgress::Pending => None,
        progress => Some(progress),
    })
}

fn said(progress: LaunchProgress) -> String {
    match progress {
        LaunchProgress::Failed(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_reason_of_a_failure_is_reported() {
    assert_eq!(said(script("echo the port is taken >&2; exit 1")), "the port is taken");
    assert_eq!(said(script("exit 0")), "it ended without a message");
    let long = said(script("head -c 100000 /dev/zero | tr '\\0' x >&2"));
    assert_eq!(long.len(), MAX_REPORT_BYTES);
}

#[test]
fn readiness_is_a_line_of_its_own() {
    let ready = READY.trim_end();
    assert_eq!(script(&format!("echo warning >&2; echo '{ready}' >&2; sleep 60")), LaunchProgress::Ready);
    assert!(matches!(script(&format!("echo 'not {ready}' >&2")), LaunchProgress::Failed(_)));
}

#[test]
fn the_program_inherits_nothing() {
    // A descriptor that is not closed on exec.
    let file = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let facts = said(script(
        "cd .; echo $GREETING $PWD >&2
         for fd in /proc/$$/fd/*; do [ -e $fd ] && echo fd ${fd##*/} >&2; done
         read -r pid comm state parent group session rest < /proc/$$/stat
         echo leader $((session == pid)) >&2
         while read -r name value; do case $name in Sig*) echo $name $value >&2; esac; done < /proc/$$/status",
    ));
    assert!(facts.starts_with("hello /\n"), "{facts}");
    let descriptors: Vec<&str> = facts.lines().filter(|line| line.starts_with("fd ")).collect();
    assert_eq!(descriptors, ["fd 0", "fd 1", "fd 2"], "{facts}");
    assert!(facts.contains("leader 0"), "{facts}");
    assert!(facts.contains("SigBlk: 0000000000000000"), "{facts}");
    // The C library keeps signals 32 and 33 (bits 31 and 32) for itself.
    let ignored = facts.lines().find_map(|line| line.strip_prefix("SigIgn: ")).unwrap();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & !(3 << 31), 0, "{facts}");
}

#[test]
fn the_program_runs_wherever_it_may() {
    let allowed = |facts: &str| {
        let mask = facts.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap();
        let digits = mask.trim().replace(',', "");
        // The first 128 processors are enough.
        u128::from_str_radix(&digits[digits.len().saturating_sub(32)..], 16).unwrap()
    };
    let before = allowed(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let mut one = rustix::thread::CpuSet::new();
    one.set(before.trailing_zeros() as usize);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let facts = said(script("umask >&2; while read -r line; do echo \"$line\" >&2; done < /proc/$$/status"));
    assert_eq!(allowed(&facts) & before, before, "not only where this thread may run");
    assert!(facts.starts_with("0077\n"), "{facts}");
}

#[test]
fn this_process_has_no_child() {
    assert_eq!(said(script("true")), "it ended without a message");
    // The parent of a detached process is init or a subreaper, never this process.
    let facts = said(script(
        "read -r pid comm state parent rest < /proc/$$/stat; sleep 0.05; read -r pid comm state parent rest < /proc/$$/stat; echo parent $parent >&2",
    ));
    assert_ne!(facts, format!("parent {}", std::process::id()));
}

#[test]
fn executing_a_missing_program_is_an_error() {
    let error = |path: &str| execute(Path::new(path), &ARGUMENTS, &[]).unwrap_err().kind();
    assert_eq!(error("/no/such/program"), io::ErrorKind::NotFound);
    assert_eq!(error("/proc/self/maps"), io::ErrorKind::PermissionDenied);
    assert_eq!(error("nul\0byte"), io::ErrorKind::InvalidInput);
}

#[test]
fn the_environment_tells_the_program_to_be_the_hub() {
    let environment = variables(Path::new("/run/somewhere"), Some(Duration::from_secs(2)));
    let count = |prefix: &str| environment.iter().filter(|v| v.to_bytes().starts_with(prefix.as_bytes())).count();
    assert_eq!(count("LONGARM_BECOME_HUB="), 1);
    assert_eq!(count("LONGARM_RUNTIME_DIR="), 1);
    assert!(environment.iter().any(|v| v.as_c_str() == c"LONGARM_BECOME_HUB=idle_timeout_ms=2000"));
    assert!(environment.iter().any(|v| v.as_c_str() == c"LONGARM_RUNTIME_DIR=/run/somewhere"));
}
