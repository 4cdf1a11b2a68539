//! The table that a command uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use longarm_kv::{GetWay, KvOptions, KvTable, TableSecret};

use crate::error::Error;
use crate::sizes;

/// The way by which a command GETs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WayArg {
    /// The client reads the server's memory alone
    OneSided,
    /// The client asks the server
    Rpc,
    /// The server's device answers without the server's program
    Device,
    /// The faster of both, as the client measures them
    Choose,
}

impl WayArg {
    pub(super) fn way(self) -> GetWay {
        match self {
            WayArg::OneSided => GetWay::OneSided,
            WayArg::Rpc => GetWay::Rpc,
            WayArg::Device => GetWay::Device,
            WayArg::Choose => GetWay::Choose,
        }
    }
}

/// A server and one of its tables.
#[derive(Args, Clone, Debug)]
pub(super) struct TableTarget {
    /// Address and port of the server; for `kv cli`, those of servers of a cluster, with commas between
    #[arg(short, long, value_name = "HOST:PORT", default_value = "127.0.0.1:7480")]
    pub(super) server: String,
    /// The table
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(super) table: String,
    /// File of the table's secret: 16 random bytes or more. A line break at its end does not count
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// The way of GETs and ranges
    #[arg(long, value_enum, default_value = "one-sided")]
    pub(super) get: WayArg,
    /// The time that an operation may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = sizes::seconds)]
    pub(super) timeout: Duration,
}

impl TableTarget {
    /// Settings of a client.
    pub(super) fn options(&self) -> Result<KvOptions, Error> {
        let secret = self.secret_file.as_deref().map(read_secret).transpose()?;
        Ok(KvOptions { secret, get: self.get.way(), timeout: self.timeout, ..KvOptions::default() })
    }

    /// Opens the table.
    pub(super) fn open(&self) -> Result<KvTable, Error> {
        Ok(KvTable::open(&self.server, &self.table, self.options()?)?)
    }
}

/// The secret in a file.
pub(super) fn read_secret(file: &Path) -> Result<TableSecret, Error> {
    let bytes = std::fs::read(file).map_err(|error| Error::File(file.display().to_string(), error))?;
    let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let secret = TableSecret::new(secret.strip_suffix(b"\r").unwrap_or(secret));
    secret.map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
}
