//! Tests of `longarm rpc` between ends that prove who they are.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use support::{Hosts, Running, first_line};
use testkit::{Authority, must_succeed, said};

/// The address of the servers, which is the name in their certificate.
const SERVER: &str = "127.0.0.1";
const SAY: [&str; 2] = ["demo.Echo/Say", r#"{"text": "ab"}"#];

/// A host with files of an authority, of another one, and of secrets.
struct Vault {
    hosts: Hosts,
    dir: PathBuf,
}

impl Vault {
    fn new(name: &str) -> Vault {
        let hosts = Hosts::one(name);
        let dir = hosts.dir().to_path_buf();
        let (authority, other) = (Authority::default(), Authority::default());
        authority.write(&dir.join("ca.pem"));
        other.write(&dir.join("other.pem"));
        authority.write_identity(&dir, SERVER);
        authority.write_identity(&dir, "client.test");
        other.write_identity(&dir, "stranger.test");
        for (file, secret) in
            [("secret", "0123456789abcdef\n"), ("wrong", "another secret of 31 characters"), ("short", "abc")]
        {
            std::fs::write(dir.join(file), secret).expect("a file");
        }
        Vault { hosts, dir }
    }

    /// Runs `longarm rpc` in the directory with the files.
    fn rpc(&self, words: &str, more: &[&str]) -> Output {
        let mut command = self.hosts.longarm();
        command.arg("rpc").args(words.split_whitespace()).args(more).current_dir(&self.dir);
        command.output().expect("longarm")
    }

    /// Starts a server; returns it with its address.
    fn serve(&self, words: &str) -> (Running, String) {
        let mut command = self.hosts.longarm();
        command.arg("rpc").args(words.split_whitespace()).current_dir(&self.dir).stdout(Stdio::piped());
        let mut server = Running(command.spawn().expect("the server starts"));
        let line = first_line(&mut server.0);
        (server, line.trim().strip_prefix("listening on ").expect("an address").to_string())
    }

    fn must_answer(&self, address: &str, options: &str) {
        let output = self.rpc(&format!("call {address} {options}"), &SAY);
        assert!(output.status.success() && said(&output).contains(r#""text": "ab""#), "{options}: {}", said(&output));
    }

    fn must_fail(&self, words: &str, reason: &str) {
        let output = self.rpc(words, &[]);
        assert!(!output.status.success() && said(&output).contains(reason), "{words}: {}", said(&output));
    }
}

/// The options of an end with the certificate of this name.
fn with(name: &str, authority: &str) -> String {
    format!("--tls-ca {authority} --tls-cert {name}.pem --tls-key {name}.key")
}

#[test]
fn a_server_with_tls_answers_clients_with_certificates() {
    let vault = Vault::new("proof-tls");
    let (_server, address) = vault.serve(&format!("serve {SERVER}:0 {}", with(SERVER, "ca.pem")));
    let good = with("client.test", "ca.pem");
    vault.must_answer(&address, &good);
    for verb in ["list", "describe"] {
        let symbol = if verb == "describe" { "demo.Echo" } else { "" };
        let output = vault.rpc(&format!("{verb} {address} {symbol} {good}"), &[]);
        assert!(output.status.success() && said(&output).contains("Say"), "{verb}: {}", said(&output));
    }
    for (options, reason) in [
        ("".into(), "UNAUTHENTICATED"),
        ("--tls-ca ca.pem".into(), "UNAUTHENTICATED"),
        ("--shared-key secret".into(), "UNAUTHENTICATED"),
        (with("stranger.test", "ca.pem"), "UNAUTHENTICATED"),
        (with("client.test", "other.pem"), "UNAUTHENTICATED"),
        (format!("{good} --tls-name elsewhere.test"), "elsewhere.test"),
    ] {
        vault.must_fail(&format!("list {address} {options}"), reason);
    }
    vault.must_answer(&address, &format!("{good} --tls-name {SERVER}"));
}

#[test]
fn a_server_without_authorities_admits_clients_without_certificates() {
    let vault = Vault::new("proof-plain");
    let server = format!("serve {SERVER}:0 --tls-cert {SERVER}.pem --tls-key {SERVER}.key");
    let (_server, address) = vault.serve(&server);
    vault.must_answer(&address, "--tls-ca ca.pem");
    vault.must_fail(&format!("list {address}"), "UNAUTHENTICATED");
}

#[test]
fn a_server_with_a_shared_key_answers_those_who_have_it() {
    let vault = Vault::new("proof-key");
    let (_server, address) = vault.serve(&format!("serve {SERVER}:0 --shared-key secret"));
    vault.must_answer(&address, "--shared-key secret");
    for options in ["", "--shared-key wrong", "--tls-ca ca.pem"] {
        vault.must_fail(&format!("list {address} {options}"), "UNAUTHENTICATED");
    }
}

#[test]
fn sessions_with_proofs_are_measured() {
    let vault = Vault::new("proof-bench");
    let few = "--way ring,datagram --calls 100 --seconds 5 --json";
    let measured = |output: Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.lines().filter(|line| line.contains(r#""calls":100"#)).count(), 2, "{text}{}", said(&output));
    };
    for proof in [with(SERVER, "ca.pem"), "--shared-key secret".into()] {
        measured(vault.rpc(&format!("bench {few} {proof}"), &[]));
        let (_server, address) = vault.serve(&format!("bench --listen {SERVER}:0 {proof}"));
        measured(vault.rpc(&format!("bench {few} --connect {address} {proof}"), &[]));
        vault.must_fail(&format!("bench --connect {address} --way ring"), "UNAUTHENTICATED");
    }
}

#[test]
fn wrong_files_are_refused_with_a_reason() {
    let vault = Vault::new("proof-files");
    let key_of_other = "--tls-cert client.test.pem --tls-key stranger.test.key";
    for (words, reason) in [
        ("list h:1 --tls-ca absent.pem".into(), "absent.pem: No such file"),
        ("list h:1 --tls-ca secret".into(), "secret: there is no certificate in PEM form"),
        ("list h:1 --tls-cert client.test.pem".into(), "--tls-key"),
        ("list h:1 --tls-cert client.test.pem --tls-key client.test.key".into(), "a client also needs --tls-ca"),
        ("list h:1 --tls-name x".into(), "--tls-ca"),
        ("list h:1 --tls-ca ca.pem --tls-name a/b".into(), "is no name of a server"),
        (format!("list h:1 --tls-ca ca.pem {key_of_other}"), "TLS takes neither the certificate client.test.pem"),
        (format!("list h:1 --tls-ca ca.pem --tls-cert ca.pem --tls-key {SERVER}.pem"), "no private key in PEM form"),
        ("list h:1 --shared-key short".into(), "short: a shared key of 3 bytes"),
        ("list h:1 --shared-key secret --tls-ca ca.pem".into(), "a client gives one proof"),
        ("serve 127.0.0.1:0 --tls-ca ca.pem".into(), "a server also needs --tls-cert"),
        (format!("serve 127.0.0.1:0 {key_of_other}"), "TLS takes neither the certificate"),
        ("bench --shared-key absent".into(), "absent: No such file"),
    ] {
        vault.must_fail(&words, reason);
    }
}

#[test]
fn files_of_openssl_are_read() {
    let vault = Vault::new("proof-openssl");
    let openssl = |words: &str| {
        let mut command = std::process::Command::new("openssl");
        must_succeed(command.args(words.split_whitespace()).current_dir(&vault.dir));
    };
    if !Path::new("/usr/bin/openssl").exists() {
        eprintln!("not tried: openssl is not installed");
        return;
    }
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.pem -subj /CN=x -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE",
    );
    openssl("pkey -in own.key -traditional -out old.key");
    for key in ["own.key", "old.key"] {
        let (_server, address) = vault.serve(&format!("serve {SERVER}:0 --tls-cert own.pem --tls-key {key}"));
        vault.must_answer(&address, "--tls-ca own.pem");
    }
}
