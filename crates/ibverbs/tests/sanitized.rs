//! Programs built with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer: they run as without, nothing of
//! ours is left at their end, and their own faults are found as without us.

#[path = "support/mod.rs"]
mod support;

use support::{ProgramDir, must_succeed};

#[test]
fn the_device_uses_memory_whatever_a_sanitizer_has_marked_in_it() {
    let place = ProgramDir::new("sanitized");
    let program = place.compile_sanitized("sanitized");
    for (variable, value) in [("LONGARM_LOG", "error"), ("LONGARM_ADOPT", "never"), ("LONGARM_LOCAL", "off")] {
        assert_eq!(must_succeed(place.command(&program).env(variable, value)), "clean\n", "{variable}={value}");
    }
}

#[test]
fn a_sanitized_program_hears_of_its_own_faults() {
    let place = ProgramDir::new("sanitized-faults");
    let program = place.compile_sanitized("sanitized");
    let faults = [
        ("leak", "LeakSanitizer: detected memory leaks"),
        ("wild", "AddressSanitizer: SEGV"),
        ("overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("freed", "AddressSanitizer: heap-use-after-free"),
    ];
    for (fault, report) in faults {
        let output = place.command(&program).arg(fault).output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(report), "{fault}: {text}");
    }
}

/// Compiles and runs each of the programs, two at a time.
fn all_run(programs: &[(&str, &str, &str)]) {
    std::thread::scope(|scope| {
        for half in programs.chunks(programs.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|(name, argument, said)| runs(name, argument, said)));
        }
    });
}

fn runs(name: &str, argument: &str, said: &str) {
    let place = ProgramDir::new(&format!("sanitized-{name}{argument}"));
    let program = place.compile_sanitized(name);
    let mut command = place.command(&program);
    command.args(argument.split_whitespace()).current_dir(place.path());
    assert_eq!(must_succeed(&mut command), format!("{said}\n"), "{name} {argument}");
}

#[test]
fn programs_run_under_sanitizers_and_nothing_of_ours_leaks() {
    all_run(&[
        ("threads", "", "all sent"),
        ("errors_objects", "", "as documented"),
        ("errors_qp", "", "as documented"),
        ("errors_memory", "", "as documented"),
        ("windows", "", "as documented"),
        ("newer", "", "as documented"),
        ("forks", "", "forked"),
        ("cm_events", "", "as documented"),
        ("cm_sync", "", "as documented"),
        ("shm_memory", "", "as ever"),
        ("hazards", "alone", "as on a card"),
        ("hazards", "uring", "as on a card"),
        ("hazards", "direct", "as on a card"),
        ("hazards", "advice", "as on a card"),
    ]);
}
