//! `longarm kv status`: a table on one server; or the members of a cluster, the table on each, and how far backups are behind.

use std::fmt::Write as _;

use clap::Args;
use longarm_kv::{AskedMember, ClusterConfig, KvCluster, KvError, KvOptions, KvTable, ShareMove, TableFigures};

use super::target::TableTarget;
use crate::error::Error;
use crate::report::size_rounded;

/// Show a table on each server of its cluster, or on its one server: slots, keys, memory, and how far backups are behind.
/// Fails if a server does not answer
#[derive(Args, Debug)]
pub(super) struct KvStatusArgs {
    #[command(flatten)]
    target: TableTarget,
}

/// `longarm kv status`
pub(super) fn run(args: &KvStatusArgs) -> Result<(), Error> {
    let (target, options) = (&args.target, args.target.options()?);
    let servers: Vec<&str> = target.server.split(',').collect();
    let figures_of = |server: &str| figures(server, &target.table, options.clone());
    let mut cluster = match KvCluster::open(&servers, &target.table, options.clone()) {
        Ok(cluster) => cluster,
        Err(KvError::NoCluster(server)) => {
            crate::output::line(format_args!("{server}: all slots, {}", line(&figures_of(&server)?)));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let members = cluster.member_status()?;
    let config = cluster.config().ok_or_else(|| KvError::Cluster("no configuration".into()))?;
    let members: Vec<_> = members.into_iter().map(|asked| (figures_of(&asked.0.address), asked)).collect();
    crate::output::line(format_args!("{}", text(config, &members).trim_end()));
    let silent: Vec<&str> =
        members.iter().filter(|(figures, _)| figures.is_err()).map(|(_, (member, _))| &*member.id.name).collect();
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!("no answer from {}", silent.join(", ")))),
    }
}

/// A member of a cluster, and the table on it.
type Shown = (Result<TableFigures, KvError>, AskedMember);

fn figures(server: &str, table: &str, options: KvOptions) -> Result<TableFigures, KvError> {
    KvTable::open(server, table, KvOptions { get: longarm_kv::GetWay::Rpc, ..options })?.figures()
}

fn text(config: &ClusterConfig, members: &[Shown]) -> String {
    let mut text = format!(
        "epoch {}, {} servers, {} backups for each slot\n",
        config.epoch,
        config.members.len(),
        config.replicas
    );
    for shown in members {
        let _ = writeln!(text, "{}", member_line(config, shown));
    }
    if config.replicas > 0 || config.shares.iter().any(|share| share.primary.is_none()) {
        shares(&mut text, config, members);
    }
    text
}

fn member_line(config: &ClusterConfig, (figures, (member, status)): &Shown) -> String {
    let slots: Vec<String> = config.shares_of(&member.id).map(|share| format!("{}-{}", share.from, share.to)).collect();
    let slots = if slots.is_empty() { "no slots".into() } else { format!("slots {}", slots.join(",")) };
    let mut text = format!("{} {}: {slots}, ", member.id.name, member.address);
    match figures {
        Ok(figures) => text.push_str(&line(figures)),
        Err(error) => _ = write!(text, "{error}"),
    }
    // Servers whose slots are fixed have neither a term nor backups.
    if let Ok(status) = status {
        let term = std::time::Duration::from_nanos(status.term_left_ns).as_secs_f64();
        let waiting = status.last.saturating_sub(status.settled);
        let _ = write!(text, ", epoch {}, term {term:.1} s, {waiting} changes wait for backups", status.epoch);
    }
    text
}

/// The shares, and how far their backups are behind.
fn shares(text: &mut String, config: &ClusterConfig, members: &[Shown]) {
    let statuses: Vec<_> = members.iter().filter_map(|(_, (_, status))| status.as_ref().ok()).collect();
    for share in &config.shares {
        let primary = share.primary.as_deref().unwrap_or("nobody: the members that have its keys are gone");
        let names = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let _ = write!(text, "slots {}-{}  {primary}  backups: {}", share.from, share.to, names(&share.backups));
        if !share.joining.is_empty() {
            let _ = write!(text, "  joining: {}", names(&share.joining));
        }
        match &share.moving {
            None => {}
            Some(ShareMove::Copy { to }) => _ = write!(text, "  moves to {to}: it fetches the keys"),
            Some(ShareMove::Close { to }) => _ = write!(text, "  moves to {to}: readers of memory end"),
            Some(ShareMove::HandOver { former, .. }) => _ = write!(text, "  comes from {former}"),
        }
        let lags = statuses.iter().flat_map(|status| &status.lags);
        for lag in lags.filter(|lag| lag.from == share.from && lag.bytes > 0) {
            let _ = write!(text, "  {} is {} bytes behind", lag.name, lag.bytes);
        }
        text.push('\n');
    }
}

fn line(figures: &TableFigures) -> String {
    let TableFigures { keys, used_bytes, max_bytes, clients, evicted, expired, refused_full, .. } = figures;
    format!(
        "{keys} keys, {} of {}, {clients} clients, {evicted} evicted, {expired} expired, {refused_full} refused as the \
         memory was full",
        size_rounded(*used_bytes),
        size_rounded(*max_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_members_have_lines() {
        let mut config = ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap();
        config.shares[0].backups = vec!["b".into()];
        config.shares[1].primary = None;
        let gone = || KvError::Cluster("gone".into());
        let shown = text(&config, &[(Err(gone()), (config.members[0].clone(), Err(gone())))]);
        assert_eq!(shown.lines().count(), 4, "{shown}");
        for words in
            ["a h:1: slots 0-8191, the cluster: gone", "slots 0-8191  a  backups: b", "slots 8192-16383  nobody"]
        {
            assert!(shown.contains(words), "{shown}");
        }
    }
}
