//! Clients from PyPI and npm on one server: plain, and with TLS and a password.

mod support;

use std::sync::Arc;

use longarm_resp::{RespOptions, Users};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use support::{OpenDoor, drivers, drivers_dir, run_driver, with_hub};

const PROGRAMS: [&str; 2] = ["plain.py", "plain.cjs"];

#[test]
fn redis_py_and_ioredis_work() {
    let dir = if testkit::role().is_none() { drivers() } else { drivers_dir() };
    with_hub("redis_py_and_ioredis_work", || {
        let _door = OpenDoor::new(RespOptions::default());
        for program in PROGRAMS {
            run_driver(&dir, program, &["6390", "", ""]);
        }
    });
}

#[test]
fn redis_py_and_ioredis_come_through_tls_with_a_password() {
    let dir = if testkit::role().is_none() { drivers() } else { drivers_dir() };
    with_hub("redis_py_and_ioredis_come_through_tls_with_a_password", || {
        let (authority, place) = (testkit::Authority::default(), testkit::TestDir::new("resp-drivers"));
        let (certificate, key) = authority.write_identity(place.path(), "server.test");
        let chain = CertificateDer::pem_file_iter(&certificate).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from_pem_file(&key).unwrap();
        let mut options = RespOptions::default();
        options.tls = Some(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()));
        options.users = Users::with_password(b"sesame");
        let _door = OpenDoor::new(options);
        for program in PROGRAMS {
            run_driver(&dir, program, &["6390", "sesame", certificate.to_str().unwrap()]);
        }
    });
}
