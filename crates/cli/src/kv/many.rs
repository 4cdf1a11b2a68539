//! The table of a command: on one server, or on the servers of a cluster.

use longarm_kv::{KvCluster, KvError, KvTable};

use super::shell;
use super::target::TableTarget;
use crate::error::Error;

/// A table on one server or several.
pub(super) enum ShellTable {
    One(Box<KvTable>),
    Many(Box<KvCluster>),
}

impl ShellTable {
    /// Opens it: on several servers if the target names several.
    pub(super) fn open(target: &TableTarget) -> Result<ShellTable, Error> {
        if !target.server.contains(',') {
            return Ok(ShellTable::One(Box::new(target.open()?)));
        }
        let servers: Vec<&str> = target.server.split(',').collect();
        Ok(ShellTable::Many(Box::new(KvCluster::open(&servers, &target.table, target.options()?)?)))
    }

    /// Executes one command, and prints its result.
    pub(super) fn execute(&mut self, words: &[&str]) -> Result<(), Error> {
        let cluster = match self {
            ShellTable::One(table) => return shell::execute(table, words),
            ShellTable::Many(cluster) => cluster,
        };
        let command = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        match (command.as_str(), &words[words.len().min(1)..]) {
            ("mget", keys @ [_, ..]) => keys.iter().try_for_each(|key| at_key(cluster, key, &["get", key])),
            ("del", keys @ [_, ..]) => {
                let deleted = keys.iter().map(|key| cluster.with(key.as_bytes(), |table| table.delete(key.as_bytes())));
                let deleted: Result<Vec<bool>, KvError> = deleted.collect();
                crate::output::line(format_args!("{}", deleted?.iter().filter(|was_there| **was_there).count()));
                Ok(())
            }
            ("range", _) => Err(Error::Usage("a cluster keeps no order, so it has no ranges".into())),
            ("scan" | "figures" | "clients", _) => {
                let mut outcome = Ok(());
                cluster.on_each(|table| {
                    outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| shell::execute(table, words));
                    Ok(())
                })?;
                outcome
            }
            (_, [key, ..]) => at_key(cluster, key, words),
            // Help, or no command: any server does.
            _ => at_key(cluster, "", words),
        }
    }
}

/// Executes a command on the server that has a key.
fn at_key(cluster: &mut KvCluster, key: &str, words: &[&str]) -> Result<(), Error> {
    cluster.with(key.as_bytes(), |table| match shell::execute(table, words) {
        Err(Error::Kv(error)) => Err(error),
        done => Ok(done),
    })?
}
