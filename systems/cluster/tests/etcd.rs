//! Members on a real etcd, which is killed and comes back; clients that ask servers.
#![cfg(feature = "etcd")]

mod support;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longarm_cluster::{
    ClusterClient, Coordinator, EtcdCoordinator, LocalCoordinator, MemberHandle, MemberOptions, ServingRight,
    cluster_methods,
};
use longarm_rpc::{ClientOptions, Server};

const URL: &str = "etcd://127.0.0.1:2379";
const PATIENCE: Duration = Duration::from_secs(60);

/// Debian's etcd, on its usual port in the namespace of the test. Dropping it kills it.
struct EtcdServer(Child);

impl EtcdServer {
    fn start(dir: &testkit::TestDir) -> EtcdServer {
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(dir.path().join("etcd")).args(["--log-level", "error", "--unsafe-no-fsync"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = EtcdServer(command.spawn().expect("etcd starts: `cargo xtask packages` installs it"));
        testkit::wait_until("etcd answers", || EtcdCoordinator::new(URL).unwrap().look(Duration::from_secs(1)).is_ok());
        started
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `body` with a hub, a namespace and a directory. To be called from the test function of that name itself.
fn with_namespace(test: &str, body: impl FnOnce(&testkit::TestDir)) {
    match testkit::role().as_deref() {
        None => hub::testing::passes_with_hub(&format!("cluster-{test}"), testkit::run_again(test, "body")),
        Some(_) => body(&testkit::TestDir::new(&format!("cluster-{test}"))),
    }
}

fn coordinator() -> EtcdCoordinator {
    EtcdCoordinator::new(URL).unwrap()
}

#[test]
fn members_come_and_go_on_etcd() {
    with_namespace("members_come_and_go_on_etcd", |dir| {
        let _etcd = EtcdServer::start(dir);
        support::members_come_and_go(coordinator);
        // Another prefix is another cluster.
        let mut other = EtcdCoordinator::new("etcd://127.0.0.1:2379/other").unwrap();
        assert_eq!(other.look(PATIENCE).unwrap().config, None);
        assert!(coordinator().look(PATIENCE).unwrap().config.is_some());
    });
}

/// Without etcd nobody serves for longer than a term; when it returns, all serve what they have served, in the same epoch.
#[test]
fn etcd_goes_and_returns() {
    with_namespace("etcd_goes_and_returns", |dir| {
        let etcd = EtcdServer::start(dir);
        let [a, b, c] = support::start_three(coordinator);
        let members = [&a, &b, &c];
        support::all_served(&members);
        let config = a.right().config().unwrap();
        etcd.kill();
        support::none_served(&members);
        std::thread::sleep(support::TERM * 2);
        let _etcd = EtcdServer::start(dir);
        support::all_served(&members);
        assert_eq!(a.right().config().unwrap(), config);
    });
}

/// Bytes in etcd that are no configuration and no beat: members go on not serving, and say why.
#[test]
fn junk_in_etcd_harms_nobody() {
    with_namespace("junk_in_etcd_harms_nobody", |dir| {
        let _etcd = EtcdServer::start(dir);
        // Base 64 of "/longarm/members/x/1" and "junk", and of "/longarm/config".
        put("L2xvbmdhcm0vbWVtYmVycy94LzE=", "anVuaw==");
        assert_eq!(coordinator().look(PATIENCE).unwrap().beats, []);
        let [a, b, c] = support::start_three(coordinator);
        support::all_served(&[&a, &b, &c]);
        put("L2xvbmdhcm0vY29uZmln", "anVuaw==");
        support::none_served(&[&a, &b, &c]);
        let error = coordinator().look(PATIENCE).unwrap_err().to_string();
        assert!(error.contains("the configuration of the cluster is wrong"), "{error}");
    });
}

/// Writes a pair by etcd's HTTP interface; both in base 64.
fn put(key: &str, value: &str) {
    let body = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}");
    let mut curl = Command::new("curl");
    testkit::must_succeed(curl.args(["-sSf", "http://127.0.0.1:2379/v3/kv/put", "-d", &body]));
}

/// A server that tells the configuration of a member.
fn tell(right: &ServingRight) -> Server {
    Server::builder().add_service(cluster_methods(right)).unwrap().bind("127.0.0.1:0").unwrap()
}

#[test]
fn clients_follow_by_any_server() {
    with_namespace("clients_follow_by_any_server", |dir| {
        let _etcd = EtcdServer::start(dir);
        let [a, b, c] = support::start_three(coordinator);
        support::all_served(&[&a, &b, &c]);
        let (of_a, of_b) = (tell(a.right()), tell(b.right()));
        let options = ClientOptions { connect_timeout: Duration::from_secs(1), ..ClientOptions::default() };
        let seeds = [of_a.local_addr().to_string(), of_b.local_addr().to_string()];
        let mut client = ClusterClient::new(seeds, options.clone());
        assert_eq!((client.epoch(), client.address_of(support::slot(0))), (0, None));
        assert!(client.refresh(PATIENCE).unwrap());
        assert_eq!((client.epoch(), client.address_of(support::slot(0))), (1, Some("a:7480")));

        // A server that knows nothing later is not the last that the client asks.
        a.abandon();
        testkit::wait_until("b follows a", || b.right().check(support::slot(0)).is_ok());
        testkit::wait_until("the client follows", || client.refresh(PATIENCE).unwrap() || client.epoch() > 1);
        assert_eq!(client.address_of(support::slot(0)), Some("b:7480"));

        let mut nobody = ClusterClient::new(["127.0.0.1:9"], options);
        assert!(nobody.refresh(Duration::from_secs(2)).is_err());
    });
}

/// A server that cannot move slots says so to each order, and the configuration stays. One that can takes the order.
#[test]
fn orders_are_refused_by_servers_that_do_not_move_slots() {
    with_namespace("orders_are_refused_by_servers_that_do_not_move_slots", |_| {
        let shared = LocalCoordinator::default();
        let start = |name: &str, moves_slots| {
            let address = format!("{name}:7480");
            let options = MemberOptions { name: name.into(), address, form_with: 2, moves_slots, ..Default::default() };
            MemberHandle::start(options, shared.clone()).unwrap()
        };
        let (fixed, mobile) = (start("a", false), start("b", true));
        support::all_served(&[&fixed, &mobile]);
        let (of_fixed, of_mobile) = (tell(fixed.right()), tell(mobile.right()));
        let client = |server: &Server| ClusterClient::new([server.local_addr().to_string()], ClientOptions::default());
        let mut refused = client(&of_fixed);
        for refusal in [
            refused.rebalance(PATIENCE),
            refused.drain("a", false, PATIENCE),
            refused.drain("a", true, PATIENCE),
            refused.drain("nobody", false, PATIENCE),
        ] {
            let error = refusal.unwrap_err().to_string();
            assert!(error.contains("this server does not move slots"), "{error}");
        }
        assert_eq!(support::epoch(&fixed), 1);
        client(&of_mobile).drain("a", false, PATIENCE).unwrap();
        testkit::wait_until("a is drained", || fixed.right().config().is_some_and(|config| config.draining == ["a"]));
    });
}

#[test]
fn urls_that_cannot_be_are_refused() {
    for url in
        ["", "etcd://", "etcd://host", "etcd://host:x", "etcds://h:1", "etcd://u:p@h:1", "http://h:1", "etcd://h:1/ä"]
    {
        assert!(EtcdCoordinator::new(url).is_err(), "{url}");
    }
    for url in ["etcd://h:1", "etcd://h:1/", "etcd://h:1,i:2/shop/eu"] {
        assert!(EtcdCoordinator::new(url).is_ok(), "{url}");
    }
}
