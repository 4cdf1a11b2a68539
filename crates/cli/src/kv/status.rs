//! `longarm kv status`: the members of a cluster, their shares, and how far backups are behind.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use longarm_kv::{AskedMember, ClusterConfig, KvCluster, KvOptions};

use crate::error::Error;
use crate::sizes;

/// Show the members of a cluster, their slots, and how far backups are behind
#[derive(Args, Debug)]
pub(super) struct KvStatusArgs {
    /// Servers of the cluster: one that answers is enough
    #[arg(short, long, value_name = "HOST:PORT,…", default_value = "127.0.0.1:7480")]
    server: String,
    /// The time that asking for the configuration may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = sizes::seconds)]
    timeout: Duration,
}

/// `longarm kv status`
pub(super) fn run(args: &KvStatusArgs) -> Result<(), Error> {
    let servers: Vec<&str> = args.server.split(',').collect();
    let mut cluster = KvCluster::open(&servers, "", KvOptions { timeout: args.timeout, ..KvOptions::default() })?;
    let members = cluster.member_status()?;
    let config = cluster.config().ok_or_else(|| Error::Usage("the servers belong to no cluster".into()))?;
    crate::output::line(format_args!("{}", text(config, &members).trim_end()));
    Ok(())
}

fn text(config: &ClusterConfig, members: &[AskedMember]) -> String {
    let mut text = format!("epoch {}, {} backups for each slot\n", config.epoch, config.replicas);
    for (member, status) in members {
        let _ = match status {
            Ok(status) => writeln!(
                text,
                "{}  {}  epoch {}  term {:.1} s  {} changes wait for backups",
                member.id.name,
                member.address,
                status.epoch,
                Duration::from_nanos(status.term_left_ns).as_secs_f64(),
                status.last.saturating_sub(status.settled),
            ),
            Err(error) => writeln!(text, "{}  {}  {error}", member.id.name, member.address),
        };
    }
    for share in &config.shares {
        let primary = share.primary.as_deref().unwrap_or("nobody: the members that have its keys are gone");
        let _ = write!(text, "slots {}-{}  {primary}", share.from, share.to);
        let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let _ = write!(text, "  backups: {}", names(&share.backups));
        if !share.joining.is_empty() {
            let _ = write!(text, "  joining: {}", names(&share.joining));
        }
        let of_share = members.iter().filter_map(|(_, status)| status.as_ref().ok()).flat_map(|status| &status.lags);
        for lag in of_share.filter(|lag| lag.from == share.from && lag.bytes > 0) {
            let _ = write!(text, "  {} is {} bytes behind", lag.name, lag.bytes);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use longarm_kv::KvError;

    use super::*;

    #[test]
    fn shares_and_members_have_lines() {
        let mut config = ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap();
        config.shares[0].backups = vec!["b".into()];
        config.shares[1].primary = None;
        let gone = KvError::Cluster("gone".into());
        let shown = text(&config, &[(config.members[0].clone(), Err(gone))]);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        for words in ["a  h:1  the cluster: gone", "slots 0-8191  a  backups: b", "slots 8192-16383  nobody"] {
            assert!(shown.contains(words), "{shown}");
        }
    }
}
