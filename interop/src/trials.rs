//! Tests that are not exchanges of two programs: consumers in the guest's kernel, and ends that die.

use std::time::{Duration, Instant};

use crate::case::{Case, IpFamily, Role};
use crate::connections::{example, rping};
use crate::exchange::Wire;
use crate::guest::GuestJob;
use crate::lab;
use crate::local::LocalProgram;
use crate::options::InteropOptions;
use crate::ready::Listens;
use crate::tally::RunTally;

/// A test with its required outcome.
pub(crate) struct Trial {
    pub(crate) name: &'static str,
    pub(crate) outcome: &'static str,
    perform: fn(&mut Wire) -> Result<TrialResult, String>,
    short: bool,
}

/// The problem, if there is one.
type TrialResult = Result<(), String>;

/// All trials, in this order; the guest does not survive the last ones.
pub(crate) const TRIALS: [Trial; 9] = [
    Trial {
        name: "calls of the connection manager on one host: a second resolution, a child of fork",
        outcome: "the same results as with rdma-core on rxe",
        perform: calls_say_the_same,
        short: true,
    },
    Trial {
        name: "nvme connect (kernel) to a port without a listener",
        outcome: "refused at once: invalid service id",
        perform: nvme_is_refused,
        short: true,
    },
    Trial {
        name: "rstream to nvmet (kernel), whose private data differs",
        outcome: "rejected: connection refused",
        perform: nvmet_refuses,
        short: false,
    },
    Trial {
        name: "our client is killed while it sends",
        outcome: "the guest's server notices and ends",
        perform: |wire| ours_is_killed(wire, Role::Client),
        short: false,
    },
    Trial {
        name: "our server is killed while it sends",
        outcome: "the guest's client notices and ends",
        perform: |wire| ours_is_killed(wire, Role::Server),
        short: false,
    },
    Trial {
        name: "our hub is killed during a connection",
        outcome: "the connection goes on, ends well, and new ones are made",
        perform: hub_is_killed,
        short: false,
    },
    Trial {
        name: "the guest's server is killed while it sends",
        outcome: "our client notices and ends",
        perform: theirs_is_killed,
        short: false,
    },
    Trial {
        name: "the guest dies while it sends",
        outcome: "our client ends with an error after its last repetition",
        perform: guest_dies,
        short: false,
    },
    Trial {
        name: "a connection to a guest that is not there",
        outcome: "unreachable, the program ends",
        perform: guest_is_dead,
        short: false,
    },
];

/// The longest time until a peer's death is noticed.
const DETECTION: Duration = Duration::from_secs(15);
/// Longer than eight ACK timeouts of 2.1 s.
const ALL_REPETITIONS: Duration = Duration::from_secs(60);
/// The time after which a connection is well under way.
const WARM_UP: Duration = Duration::from_secs(2);
/// Pings until it is stopped.
const ENDLESS: Case = rping("-v");

/// Runs the trials that the options select.
pub(crate) fn all(wire: &mut Wire, options: &InteropOptions, tally: &mut RunTally) -> Result<(), String> {
    let chosen = TRIALS.iter().filter(|trial| trial.short || !options.short);
    for trial in chosen.filter(|trial| format!("trial {}", trial.name).contains(&options.only)) {
        let start = Instant::now();
        tally.count += 1;
        let verdict = (trial.perform)(wire)?;
        let said = verdict.as_ref().err().map_or(trial.outcome, |problem| problem.lines().next().unwrap_or_default());
        println!("{:5.1} s  {}: {said}", start.elapsed().as_secs_f32(), trial.name);
        tally.failures.extend(verdict.err().map(|problem| format!("{}: {problem}", trial.name)));
    }
    Ok(())
}

/// Runs one test program on each side, on the side's own address, and compares the output.
fn calls_say_the_same(wire: &mut Wire) -> Result<TrialResult, String> {
    // The guest shares that directory.
    wire.local.compile(&format!("{}/calls.c", lab::SCRIPTS), "lab/calls")?;
    let ours = wire.local.run(&format!("lab/calls {}", wire.ours.address(IpFamily::V4)))?;
    let theirs = wire.guest.run(&format!("/lab/calls {}", wire.theirs.address(IpFamily::V4)))?;
    Ok(if ours == theirs { Ok(()) } else { Err(format!("other lines; ours:\n{ours}\ntheirs:\n{theirs}")) })
}

fn nvme_is_refused(wire: &mut Wire) -> Result<TrialResult, String> {
    let listener = wire.local.start("ucmatose", None)?;
    if !Listens::Rdma.wait(&wire.local) {
        return Ok(Err(format!("ucmatose does not listen: {}", listener.output())));
    }
    wire.guest.run("modprobe nvme-rdma; dmesg -C")?;
    for family in [IpFamily::V4, IpFamily::V6] {
        let connect = format!("nvme connect -t rdma -a {} -s 4420 -n nothing", wire.ours.address(family));
        let job = wire.guest.start(&connect, DETECTION)?;
        let status = wire.guest.wait(job, DETECTION * 2)?;
        if !matches!(status, Some(1..=123)) {
            return Ok(Err(format!("{connect}: {status:?}\n{}", wire.guest.output(job))));
        }
    }
    let log = wire.guest.run("dmesg")?;
    let refusals = log.matches("rejected: status 8 (invalid service ID)").count();
    Ok(if refusals == 2 { Ok(()) } else { Err(format!("{refusals} refusals\n{log}")) })
}

fn nvmet_refuses(wire: &mut Wire) -> Result<TrialResult, String> {
    wire.guest.run(
        "modprobe nvmet-rdma; mount -t configfs configfs /sys/kernel/config; cd /sys/kernel/config/nvmet; mkdir -p ports/1 subsystems/lab; \
         echo ipv4 > ports/1/addr_adrfam; echo rdma > ports/1/addr_trtype; echo 10.77.0.11 > ports/1/addr_traddr; \
         echo 4420 > ports/1/addr_trsvcid; ln -s /sys/kernel/config/nvmet/subsystems/lab ports/1/subsystems/lab",
    )?;
    let mut program = wire.local.start("rstream -s 10.77.0.11 -p 4420 -I 1 -C 1 -T b", None)?;
    let status = program.wait(DETECTION);
    wire.guest.run("rm /sys/kernel/config/nvmet/ports/1/subsystems/lab")?;
    let said = program.output();
    let rejected = said.contains("Connection refused") && status.is_some_and(|status| status != 0);
    Ok(if rejected { Ok(()) } else { Err(format!("{status:?}\n{said}")) })
}

fn ours_is_killed(wire: &mut Wire, role: Role) -> Result<TrialResult, String> {
    let (mut ours, theirs) = under_way(wire, &ENDLESS, role)?;
    ours.kill();
    theirs_ends(wire, theirs)
}

fn theirs_is_killed(wire: &mut Wire) -> Result<TrialResult, String> {
    let (mut ours, theirs) = under_way(wire, &ENDLESS, Role::Client)?;
    wire.guest.run("busybox killall -9 rping")?;
    wire.guest.wait(theirs, DETECTION)?;
    Ok(match ours.wait(DETECTION) {
        Some(_) if ours.output().contains("client DISCONNECT EVENT") => Ok(()),
        status => Err(format!("{status:?}\n{}", ours.output())),
    })
}

fn hub_is_killed(wire: &mut Wire) -> Result<TrialResult, String> {
    const LONG: Case = rping("-v -V -C 1000");
    let (mut ours, theirs) = under_way(wire, &LONG, Role::Client)?;
    if ours.wait(Duration::ZERO).is_some() {
        return Ok(Err(format!("it ended too early:\n{}", ours.output())));
    }
    wire.local.kill_hub()?;
    let statuses = (ours.wait(ALL_REPETITIONS), wire.guest.wait(theirs, DETECTION)?);
    let pings = ours.output().matches("ping data: rdma-ping-").count();
    if statuses != (Some(0), Some(0)) || pings != 1000 {
        return Ok(Err(format!("{statuses:?}, {pings} pings")));
    }
    const NEXT: Case = example("ucmatose", "");
    for role in [Role::Client, Role::Server] {
        let outcome = wire.perform(&NEXT.exchange(&wire.ours, &wire.theirs, role, IpFamily::V4))?;
        if let Some(problem) = outcome.problem().or_else(|| NEXT.problem(&outcome.client.1, &outcome.server.1)) {
            return Ok(Err(format!("ucmatose afterwards: {problem}\n{outcome}")));
        }
    }
    Ok(Ok(()))
}

fn guest_dies(wire: &mut Wire) -> Result<TrialResult, String> {
    const ALWAYS_SENDING: Case = Case::perf_connects("ib_write_bw", "-R -D 100 -s 4096").listens_late();
    let mut said = String::new();
    for _ in 0..ALWAYS_SENDING.attempts {
        let (mut ours, theirs) = under_way(wire, &ALWAYS_SENDING, Role::Client)?;
        if ours.wait(Duration::ZERO).is_none() {
            wire.guest.kill();
            return Ok(fails(&mut ours, ALL_REPETITIONS));
        }
        wire.guest.stop(theirs)?;
        said = ours.output();
    }
    Ok(Err(format!("it ended too early:\n{said}")))
}

fn guest_is_dead(wire: &mut Wire) -> Result<TrialResult, String> {
    wire.guest.kill();
    let mut ours = wire.local.start("rping -c -a 10.77.0.11 -C 1", None)?;
    Ok(fails(&mut ours, DETECTION))
}

/// Starts a case that runs for long.
fn under_way(wire: &mut Wire, case: &Case, role: Role) -> Result<(LocalProgram, GuestJob), String> {
    let exchange = case.exchange(&wire.ours, &wire.theirs, role, IpFamily::V4);
    let both = wire.begin(&exchange)?;
    std::thread::sleep(WARM_UP);
    Ok(both)
}

/// The guest's program must end by itself.
fn theirs_ends(wire: &mut Wire, theirs: GuestJob) -> Result<TrialResult, String> {
    let status = wire.guest.wait(theirs, DETECTION)?;
    if status.is_some() {
        return Ok(Ok(()));
    }
    wire.guest.stop(theirs)?;
    Ok(Err(format!("the guest's program goes on\n{}", wire.guest.output(theirs))))
}

/// Longarm's program must end with an error.
fn fails(ours: &mut LocalProgram, patience: Duration) -> TrialResult {
    match ours.wait(patience) {
        Some(status) if status != 0 => Ok(()),
        status => Err(format!("{status:?}\n{}", ours.output())),
    }
}
