//! The door for Redis clients: options of `longarm kv serve`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use longarm_kv::KvServer;
use longarm_resp::{RespOptions, RespServer, Users};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// A door for Redis clients.
#[derive(Args, Debug)]
#[command(next_help_heading = "Redis clients")]
pub(super) struct DoorArgs {
    /// Address and port at which Redis clients find a table, such as 127.0.0.1:6379
    #[arg(long, value_name = "HOST:PORT")]
    resp: Option<String>,
    /// The table that they find
    #[arg(long, value_name = "NAME", default_value = "default", requires = "resp")]
    resp_table: String,
    /// File of the password that they need. A line break at its end does not count
    #[arg(long, value_name = "FILE", requires = "resp", conflicts_with = "resp_users")]
    resp_password_file: Option<PathBuf>,
    /// File of users, in lines as Redis' ACL files have them: user alice on >PASSWORD ~* &* +@all
    #[arg(long, value_name = "FILE", requires = "resp")]
    resp_users: Option<PathBuf>,
    /// They use TLS: the server's certificates, in PEM
    #[arg(long, value_name = "FILE", requires = "resp_tls_key", requires = "resp")]
    resp_tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "resp_tls_cert")]
    resp_tls_key: Option<PathBuf>,
    /// They see a cluster of one node. With --cluster or --etcd they see all its servers
    #[arg(long, requires = "resp")]
    resp_cluster: bool,
    /// With --cluster or --etcd: the doors of servers that are not at this server's --resp port of the server's host
    #[arg(long, value_name = "NAME=HOST:PORT,…", requires = "resp", requires = "name")]
    resp_doors: Option<String>,
    /// Address and port at which they connect by Valkey's RDMA protocol as well
    #[arg(long, value_name = "HOST:PORT", requires = "resp", conflicts_with = "resp_tls_cert")]
    valkey_rdma: Option<String>,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value = "10000", requires = "resp")]
    resp_max_clients: usize,
    /// The core of the thread that serves them
    #[arg(long, value_name = "CORE", requires = "resp")]
    resp_core: Option<usize>,
}

impl DoorArgs {
    /// Opens the door, if it is wanted.
    pub(super) fn open(&self, server: &KvServer) -> Result<Option<RespServer>, Error> {
        let Some(address) = &self.resp else { return Ok(None) };
        let table = server.local_table(&self.resp_table).ok_or_else(|| {
            Error::Usage(format!("--resp-table: there is no table {:?} that only the server writes", self.resp_table))
        })?;
        let mut options = RespOptions::default();
        options.users = self.users()?;
        options.tls = self.tls()?;
        options.max_clients = self.resp_max_clients;
        options.is_cluster = self.resp_cluster;
        options.doors = self.doors()?;
        options.valkey_rdma = self.valkey_rdma.clone();
        if let Some(core) = self.resp_core {
            // This thread only waits from here on; the door's thread inherits the core.
            crate::baseline::pin_to_core(core);
        }
        allow_descriptors(self.resp_max_clients);
        let door = RespServer::open(table, address, options)?;
        println!("Redis clients at {}", door.local_addr());
        if let Some(address) = door.valkey_addr() {
            println!("Valkey clients by RDMA at {address}");
        }
        Ok(Some(door))
    }

    fn doors(&self) -> Result<Vec<(String, String)>, Error> {
        let parts = self.resp_doors.iter().flat_map(|text| text.split(','));
        let door = |part: &str| part.split_once('=').map(|(name, place)| (name.into(), place.into()));
        parts
            .map(|part| door(part).ok_or_else(|| Error::Usage(format!("--resp-doors: {part:?} is not NAME=HOST:PORT"))))
            .collect()
    }

    fn users(&self) -> Result<Users, Error> {
        if let Some(file) = &self.resp_password_file {
            let bytes = read(file)?;
            let password = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            return match password.strip_suffix(b"\r").unwrap_or(password) {
                b"" => Err(Error::Usage(format!("{}: the password is empty", file.display()))),
                password => Ok(Users::with_password(password)),
            };
        }
        let Some(file) = &self.resp_users else { return Ok(Users::default()) };
        let text = String::from_utf8(read(file)?).map_err(|_| Error::Usage(format!("{}: no text", file.display())))?;
        Users::parse(&text).map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
    }

    fn tls(&self) -> Result<Option<Arc<ServerConfig>>, Error> {
        let (Some(certificates), Some(key)) = (&self.resp_tls_cert, &self.resp_tls_key) else { return Ok(None) };
        let refused = |file: &Path, why: String| Error::Usage(format!("{}: {why}", file.display()));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificates)?).collect();
        let chain = chain.map_err(|error| refused(certificates, error.to_string()))?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| refused(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
        config.map(|config| Some(Arc::new(config))).map_err(|error| refused(certificates, error.to_string()))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|error| Error::File(file.display().to_string(), error))
}

/// Raises the number of descriptors, as far as the system allows, for so many clients.
fn allow_descriptors(clients: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = clients as u64 + 256;
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        // Where it is refused, fewer clients can come.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
