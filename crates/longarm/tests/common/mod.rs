//! Two devices in a network namespace of their own, with queue pairs between them; or a process with a hub of
//! its own. On hardware: the same tests on the default device of the machine, see [`ADDRESSES`].
#![allow(dead_code, reason = "each test uses part of it")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;

use longarm::service::{Connected, Rc, Uc};
use longarm::{
    Access, Buffer, CompletionQueue, Connection, Device, Failure, Listener, ProtectionDomain, Provider, QpBuilder,
    QueuePair, Unconnected, WorkError,
};
use testkit::{PATIENCE, run_again};

/// Set if the tests are to run on the machine's own device and network: its addresses, that of IPv4 and that of IPv6,
/// with a comma between them. `cargo xtask interop` sets it, in its virtual machine.
const ADDRESSES: &str = "LONGARM_TEST_ADDRESSES";

/// All rights of peers.
pub(crate) const ALL: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

/// One side of a test: a device with a domain and a completion queue.
pub(crate) struct TestSide {
    pub(crate) device: Device,
    pub(crate) domain: ProtectionDomain,
    pub(crate) cq: CompletionQueue,
}

impl TestSide {
    pub(crate) fn new(device: Device) -> TestSide {
        let domain = device.protection_domain().unwrap();
        let cq = device.completion_queue().unwrap();
        TestSide { device, domain, cq }
    }

    pub(crate) fn rc(&self) -> QpBuilder {
        self.domain.rc(&self.cq)
    }

    pub(crate) fn uc(&self) -> QpBuilder<Uc> {
        self.domain.uc(&self.cq)
    }

    pub(crate) fn buffer(&self, contents: &[u8]) -> Buffer {
        self.domain.allocate(contents.len().max(1)).unwrap().with(contents)
    }

    pub(crate) fn empty(&self, len: usize) -> Buffer {
        self.domain.allocate(len).unwrap()
    }
}

/// Whether the tests run on the machine's own device and network.
pub(crate) fn on_hardware() -> bool {
    std::env::var_os(ADDRESSES).is_some()
}

/// The addresses of the device: that of IPv4 and that of IPv6. Loop-back's in a namespace of the test's own.
fn addresses() -> (Ipv4Addr, Ipv6Addr) {
    let Ok(given) = std::env::var(ADDRESSES) else { return (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST) };
    let (v4, v6) = given.split_once(',').expect("two addresses");
    (v4.parse().expect("an address of IPv4"), v6.parse().expect("an address of IPv6"))
}

/// The device's address.
pub(crate) fn here() -> Ipv4Addr {
    addresses().0
}

/// The device's address of IPv6.
pub(crate) fn here_v6() -> Ipv6Addr {
    addresses().1
}

/// A free port at the device's address, to listen at.
pub(crate) fn any_port() -> SocketAddr {
    (here(), 0).into()
}

/// Whether the device has what a test is about. If it does not, the test's output says so; docs/devices.md lists these
/// lines, and `cargo xtask interop` compares them with it.
pub(crate) fn has(there: bool, what: &str) -> bool {
    if !there {
        println!("\nnot there: {what}");
    }
    there
}

/// Abilities that some devices lack, in the words of [`has`].
pub(crate) const AT_ONCE: &str = "READs without a request";
pub(crate) const ATOMICS: &str = "atomic operations";
pub(crate) const CALLS: &str = "calls that the device carries out";
pub(crate) const BY_NUMBER: &str = "connecting by queue pair numbers";
pub(crate) const DATAGRAMS: &str = "datagrams";
pub(crate) const INSTRUMENTS: &str = "faults, captures and counters of packets";
pub(crate) const UNRELIABLE: &str = "unreliable connections";
/// Linux siw only flushes the requests of a connection whose peer has refused one.
pub(crate) const REASONS: &str = "the reason of a failure, in completions";
pub(crate) const IMMEDIATE: &str = "immediate data";

/// Asserts that a request was refused before it was posted, with these words in the error.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Failure>, words: &str) {
    let failure = result.err().expect("it is refused");
    assert!(matches!(failure.error(), WorkError::NotPosted(_)), "{failure}");
    assert!(failure.to_string().contains(words), "{failure}");
}

/// Runs `test` in a network namespace of its own; on hardware in that of the process.
pub(crate) fn in_own_network<F: FnOnce() + Send>(test: F) {
    if on_hardware() { test() } else { udp::testing::in_new_netns(test) }
}

/// Runs `test` with two devices: on the loop-back of a new network namespace, each with an engine of its own. If
/// `LONGARM_PROVIDER` is `verbs`, both are the default device of the system.
pub(crate) fn two_sides(test: impl FnOnce(TestSide, TestSide) + Send) {
    if on_system() {
        let side = || TestSide::new(Device::open_by(Provider::Verbs).unwrap());
        return test(side(), side());
    }
    let group = udp::PortGroup::bind(4).unwrap();
    let side = |slot| TestSide::new(device::testing::open(&group, slot, "lo").into());
    test(side(1), side(2));
}

/// Whether these tests run on a device of the system.
pub(crate) fn on_system() -> bool {
    std::env::var("LONGARM_PROVIDER").is_ok_and(|provider| provider == "verbs")
}

/// A connected queue pair, with its connection if one was needed.
pub(crate) enum TestQp<S: Connected = Rc> {
    Told(QueuePair<S>),
    ByAddress(Connection<S>),
}

impl<S: Connected> Deref for TestQp<S> {
    type Target = QueuePair<S>;

    fn deref(&self) -> &QueuePair<S> {
        match self {
            TestQp::Told(qp) => qp,
            TestQp::ByAddress(connection) => connection,
        }
    }
}

/// Connects two queue pairs: they tell each other their numbers, or where devices allow only that, the first one
/// connects by address.
pub(crate) fn join<S: Connected>(a: Unconnected<S>, b: Unconnected<S>) -> (TestQp<S>, TestQp<S>) {
    if !a.device().capabilities().by_address_only {
        let (to_a, to_b) = (a.connection_info(), b.connection_info());
        return (TestQp::Told(a.connect(&to_b).unwrap()), TestQp::Told(b.connect(&to_a).unwrap()));
    }
    let listener = Listener::<S>::bind_by(Provider::Verbs, any_port()).wait(PATIENCE).unwrap();
    let calling = longarm::connect(listener.local_addr(), a, b"");
    let server = listener.incoming().wait(PATIENCE).unwrap().accept(b, b"").wait(PATIENCE).unwrap();
    (TestQp::ByAddress(calling.wait(PATIENCE).unwrap()), TestQp::ByAddress(server))
}

/// Two connected RC queue pairs.
pub(crate) fn rc_pair(a: &TestSide, b: &TestSide) -> (TestQp, TestQp) {
    join(a.rc().build().unwrap(), b.rc().build().unwrap())
}

/// Bytes that depend on their position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Runs `body` in a new process with its own hub and network namespace, since a process has one
/// connection manager. Only the test function `test` may call this.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    with_hub_and_peer(test, body, |_| panic!("this test has no peer"));
}

/// The same for a test with a peer: processes of [`start_peer`] run `peer` with their word.
pub(crate) fn with_hub_and_peer(test: &str, body: impl FnOnce(), peer: impl FnOnce(&str)) {
    match testkit::role().as_deref() {
        Some("body") => return body(),
        Some(word) => return peer(word),
        None if on_hardware() => return body(),
        None => {}
    }
    let mut command = run_again(test, "body");
    command.env_remove("LONGARM_DEVICE");
    hub::testing::passes_with_hub(test, command);
}

/// Starts the peer of a test.
pub(crate) fn start_peer(test: &str, word: &str) -> std::process::Child {
    run_again(test, word).stdout(std::process::Stdio::null()).spawn().unwrap()
}
