//! Measures speed: perftest's programs in the guest alone, on the kernel's drivers and on Longarm in
//! turn, two processes on its two processors.
//!
//! The output of clients goes to files `DRIVER-PROGRAM-BYTES-ROUND`; `longarm compare --guest` reads them.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::options::InteropOptions;
use crate::{lab, namespace};

/// A driver, or a path of Longarm (wire or shm).
struct GuestDriver {
    /// The name in the files' names.
    name: &'static str,
    /// The command that makes its device and removes those of other drivers.
    device: &'static str,
    /// Goes before the program on the command line.
    prefix: &'static str,
    /// Options of every program, the client's address last.
    options: &'static str,
    address: &'static str,
    /// The command that succeeds when a server listens.
    listens: &'static str,
}

const LISTENS_TCP: &str = "grep -q ':4A38 .* 0A ' /proc/net/tcp /proc/net/tcp6";
const LISTENS_THERE: &str = "ip netns exec la grep -q ':4A38 .* 0A ' /proc/net/tcp /proc/net/tcp6";
// Longarm runs in a network namespace of its own: rxe holds RoCEv2's port in the initial one.
const LONGARM: &str = "ip netns exec la /tmp/longarm run -- ";

/// In the order in which they run.
const DRIVERS: [GuestDriver; 4] = [
    GuestDriver {
        name: "longarm",
        device: "true",
        prefix: LONGARM,
        options: "-d la_lo",
        address: "127.0.0.1",
        listens: LISTENS_THERE,
    },
    GuestDriver {
        name: "rxe",
        device: "rdma link delete siw0 2>/dev/null; rdma link add rxe0 type rxe netdev eth0 2>/dev/null; true",
        prefix: "",
        options: "-d rxe0",
        address: "10.77.0.11",
        listens: LISTENS_TCP,
    },
    GuestDriver {
        name: "longarm_wire",
        device: "true",
        prefix: "env LONGARM_LOCAL=off ip netns exec la /tmp/longarm run -- ",
        options: "-d la_lo",
        address: "127.0.0.1",
        listens: LISTENS_THERE,
    },
    // iWARP only has connections of the connection manager, which uses the only device.
    GuestDriver {
        name: "siw",
        device: "rdma link delete rxe0 2>/dev/null; rdma link add siw0 type siw netdev eth0",
        prefix: "",
        options: "-R",
        address: "10.77.0.11",
        listens: "rdma resource show cm_id | grep -q LISTEN",
    },
];

/// A program, its message size in bytes, and the number of messages of a run.
const WORK: [(&str, u32, u32); 7] = [
    ("ib_send_lat", 64, 1000),
    ("ib_write_lat", 64, 1000),
    ("ib_read_lat", 64, 1000),
    ("ib_send_bw", 64, 20_000),
    ("ib_send_bw", 65_536, 1000),
    ("ib_write_bw", 65_536, 1000),
    ("ib_read_bw", 65_536, 1000),
];

/// The time limit of one run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Boots the guest and measures everything `options.repeat` times; files go to `to`.
pub(crate) fn all(options: &InteropOptions, to: &Path, run: &Path) -> Result<(), String> {
    let start = Instant::now();
    namespace::set_up()?;
    std::fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    let has_siw = copy_to_share(run, &options.kernel)?;
    let mut guest = Guest::boot(&options.kernel, namespace::LINK, run)?;
    println!("interop: Linux {} is up after {:.1} s", guest.release, start.elapsed().as_secs_f32());
    guest.run("cp /lab/longarm /lab/libibverbs.so /tmp && ip link set eth0 mtu 4200")?;
    guest.run("ip netns add la && ip -n la link set lo up && ip netns exec la /tmp/longarm devices")?;
    if has_siw {
        guest.run("modprobe -a libcrc32c iw_cm && insmod /lab/siw.ko")?;
    }
    for round in 1..=options.repeat.max(1) {
        for (program, bytes, count) in WORK {
            for driver in DRIVERS.iter().filter(|driver| has_siw || driver.name != "siw") {
                let name = format!("{}-{program}-{bytes}-{round}", driver.name);
                let said = once(&mut guest, driver, program, bytes, count)?;
                println!("{name}: {}", said.lines().rfind(|line| !line.starts_with('-')).unwrap_or("nothing").trim());
                std::fs::write(to.join(&name), said).map_err(|e| format!("{name}: {e}"))?;
            }
        }
    }
    Ok(())
}

/// Copies Longarm, and siw if it is built, to the guest's share. Returns whether siw is there.
fn copy_to_share(run: &Path, kernel: &str) -> Result<bool, String> {
    let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let share = run.join("lab");
    std::fs::create_dir_all(&share).map_err(|e| format!("{}: {e}", share.display()))?;
    // Cargo puts the library into `deps`.
    for (file, name) in [("longarm", "longarm"), ("deps/libibverbs.so", "libibverbs.so")] {
        std::fs::copy(this.with_file_name(file), share.join(name)).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(std::fs::copy(lab::directory().join(kernel).join("siw.ko"), share.join("siw.ko")).is_ok())
}

/// One run: returns the client's output; the error says that it failed.
fn once(guest: &mut Guest, driver: &GuestDriver, program: &str, bytes: u32, count: u32) -> Result<String, String> {
    let GuestDriver { device, prefix, address, listens, .. } = driver;
    let results = if program.ends_with("_lat") { "-H" } else { "-N --report_gbits" };
    let line = format!("{prefix}{program} -F -p 19000 -s {bytes} -n {count} {results} {}", driver.options);
    let command = format!(
        "{device}; taskset -c 1 {line} > /tmp/server 2>&1 & server=$!; \
         for i in $(seq 200); do {listens} && break; sleep 0.05; done; sleep 0.2; \
         taskset -c 0 {line} {address}; status=$?; kill $server 2>/dev/null; wait $server; exit $status"
    );
    let job = guest.start(&command, PATIENCE)?;
    let status = guest.wait(job, PATIENCE * 2)?;
    let said = guest.output(job);
    Ok(if status == Some(0) { said } else { format!("{said}\nthe client's status: {status:?}\n") })
}
