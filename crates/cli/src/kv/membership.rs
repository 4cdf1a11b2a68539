//! A member of a cluster: options of `longarm kv serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use longarm_kv::{EtcdCoordinator, KvServerBuilder, MemberOptions, MembershipOptions};

use super::target;
use crate::error::Error;
use crate::sizes;

/// A member of a cluster with backups.
#[derive(Args, Debug)]
#[command(next_help_heading = "Clusters with backups")]
pub(super) struct MembershipArgs {
    /// Be a member of the cluster that this etcd coordinates, `http://HOST:PORT,HOST:PORT/PREFIX`: one address is enough, and the
    /// prefix may be absent
    #[arg(long, value_name = "URL", requires = "name", conflicts_with_all = ["cluster", "separate_memory"])]
    etcd: Option<String>,
    /// Backups of each key, if this member forms the cluster
    #[arg(long, value_name = "N", default_value = "1", requires = "etcd")]
    replicas: u8,
    /// Form the cluster when so many members are there
    #[arg(long, value_name = "N", default_value = "1", requires = "etcd")]
    form_with: usize,
    /// A member that is silent for so long loses its slots to its backups
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = sizes::seconds, requires = "etcd")]
    term: Duration,
    /// The address at which clients and other members reach this one, if it is not the one to listen on
    #[arg(long, value_name = "HOST:PORT", requires = "etcd")]
    advertise: Option<String>,
    /// File of a secret that members prove to each other: 16 random bytes or more, the same at all members
    #[arg(long, value_name = "FILE", requires = "etcd")]
    cluster_secret_file: Option<PathBuf>,
}

impl MembershipArgs {
    /// True if the server shall be a member.
    pub(super) fn is_wanted(&self) -> bool {
        self.etcd.is_some()
    }

    /// Makes the server a member, if that is wanted.
    pub(super) fn apply(
        &self,
        builder: KvServerBuilder,
        name: Option<&str>,
        listen: &str,
    ) -> Result<KvServerBuilder, Error> {
        let Some((url, name)) = self.etcd.as_ref().zip(name) else { return Ok(builder) };
        let url = format!("etcd://{}", url.strip_prefix("http://").or(url.strip_prefix("etcd://")).unwrap_or(url));
        let coordinator = EtcdCoordinator::new(&url).map_err(|error| Error::Usage(format!("--etcd {url}: {error}")))?;
        let address = self.advertise.clone().unwrap_or_else(|| listen.into());
        if let Some(why) = is_no_address(&address) {
            return Err(Error::Usage(format!("{address} {why}: give --advertise HOST:PORT")));
        }
        let secret = self.cluster_secret_file.as_deref().map(target::read_secret).transpose()?;
        let member = MemberOptions {
            name: name.into(),
            address,
            term: self.term,
            replicas: self.replicas,
            form_with: self.form_with,
            ..MemberOptions::default()
        };
        Ok(builder.member(MembershipOptions { member, secret, ..MembershipOptions::default() }, coordinator))
    }
}

/// The reason why others cannot reach a server at an address.
fn is_no_address(address: &str) -> Option<&'static str> {
    let (host, port) = address.rsplit_once(':')?;
    match (host, port) {
        ("0.0.0.0" | "[::]" | "", _) => Some("is no address that others reach"),
        (_, "0") => Some("has no port"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_must_reach_a_member() {
        for wrong in ["0.0.0.0:7480", "[::]:7480", ":7480", "host:0"] {
            assert!(is_no_address(wrong).is_some(), "{wrong}");
        }
        assert_eq!((is_no_address("host:7480"), is_no_address("127.0.0.1:1")), (None, None));
    }
}
