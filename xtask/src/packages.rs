//! Installs the Debian packages that tests need, if a program of theirs is missing.

use crate::run::{exists, root, run, run_with};

/// A program or a file, and the package that contains it.
const NEEDED: [(&str, &str); 31] = [
    ("tshark", "tshark"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ethtool", "ethtool"),
    ("ibv_rc_pingpong", "ibverbs-utils"),
    ("ib_send_bw", "perftest"),
    ("qperf", "qperf"),
    ("ucx_perftest", "ucx-utils"),
    ("rping", "rdmacm-utils"),
    ("fi_pingpong", "libfabric-bin"),
    ("fio", "fio"),
    ("valgrind", "valgrind"),
    ("iperf3", "iperf3"),
    ("curl", "curl"),
    ("redis-server", "redis-server"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("etcd", "etcd-server"),
    ("openssl", "openssl"),
    ("mpirun", "openmpi-bin"),
    ("mpicc", "libopenmpi-dev"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-io", "qemu-utils"),
    ("/usr/share/doc/qemu-block-extra", "qemu-block-extra"),
    ("tgtd", "tgt"),
    ("/usr/include/librpma.h", "librpma-dev"),
    ("mpirun.mpich", "mpich"),
    ("mpicc.mpich", "libmpich-dev"),
    ("/usr/share/doc/rdma-core/tests", "python3-pyverbs"),
    ("/usr/include/infiniband/verbs.h", "libibverbs-dev"),
    ("/usr/include/rdma/rdma_cma.h", "librdmacm-dev"),
];

/// The same for the programs that take long to install.
const HEAVY: [(&str, &str); 4] = [
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("rados", "ceph-common"),
    ("/usr/share/doc/python3-venv", "python3-venv"),
];

/// The same for making packages.
const PACKAGING: [(&str, &str); 5] = [
    ("objdump", "binutils"),
    ("strip", "binutils"),
    ("dpkg-deb", "dpkg"),
    ("python3", "python3-venv"),
    ("gzip", "gzip"),
];

/// The same for trying packages on a clean system.
const TRIALS: [(&str, &str); 2] = [("debootstrap", "debootstrap"), ("buildah", "buildah")];

/// Installs the missing packages; an ordinary user needs sudo.
pub(crate) fn install() -> Result<(), String> {
    install_of(&NEEDED)?;
    install_venv()?;
    // Redis clients of other makes, from PyPI and npm: the tests would fetch them otherwise.
    let clients = root().join("target/redis-clients");
    run("sh", &["systems/resp/tests/drivers/install.sh", clients.to_str().ok_or("the path is no text")?])
}

/// The same for the programs that take long to install.
pub(crate) fn install_heavy() -> Result<(), String> {
    install()?;
    install_of(&HEAVY)
}

/// The same for making packages.
pub(crate) fn install_packaging() -> Result<(), String> {
    install_of(&PACKAGING)
}

/// Makes sure that Python can make environments.
pub(crate) fn install_venv() -> Result<(), String> {
    let python = std::process::Command::new("python3").args(["-c", "import venv, ensurepip"]).status();
    if python.is_ok_and(|status| status.success()) { Ok(()) } else { apt_install(&["python3-venv"]) }
}

/// The same for trying packages on a clean system.
pub(crate) fn install_trials() -> Result<(), String> {
    install_of(&TRIALS)
}

/// Installs what is missing. A package of another release may have to make room for one of these, and is then missing
/// itself: so there is a second look.
fn install_of(needed: &[(&str, &'static str)]) -> Result<(), String> {
    for _ in 0..2 {
        match missing(needed) {
            packages if packages.is_empty() => return Ok(()),
            packages => apt_install(&packages)?,
        }
    }
    match missing(needed) {
        packages if packages.is_empty() => Ok(()),
        packages => Err(format!("apt-get installed {}, and something else removed it", packages.join(", "))),
    }
}

/// The packages whose programs or files are not there.
fn missing(needed: &[(&str, &'static str)]) -> Vec<&'static str> {
    let mut missing: Vec<_> =
        needed.iter().filter(|(needed, _)| !is_there(needed)).map(|(_, package)| *package).collect();
    missing.dedup();
    missing
}

fn apt_install(packages: &[&str]) -> Result<(), String> {
    if !exists("apt-get") {
        return Err(format!("please install {}: there is no apt-get here to do it", packages.join(", ")));
    }
    let root = std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap_or(false);
    let mut command: Vec<&str> = if root { vec![] } else { vec!["sudo"] };
    command.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    let (program, prefix) = (command[0], command[1..].to_vec());
    run(program, &[&prefix[..], &["update", "-qq"]].concat())?;
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    run_with(program, &[&prefix[..], &install, packages].concat(), &[])
}

/// Whether a program is on the path, or a file exists.
fn is_there(needed: &str) -> bool {
    if needed.starts_with('/') { std::path::Path::new(needed).exists() } else { exists(needed) }
}
