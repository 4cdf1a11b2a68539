//! `longarm kv revoke`: takes the right to a table back.

use clap::Args;

use super::target::TableTarget;
use crate::error::Error;

/// Take the right to a table from one of its clients, or from all
#[derive(Args, Debug)]
pub(super) struct KvRevokeArgs {
    #[command(flatten)]
    target: TableTarget,
    /// The client's number: `longarm kv cli clients` lists them
    #[arg(long, value_name = "NUMBER", required_unless_present = "all")]
    client: Option<u64>,
    /// All clients but this command
    #[arg(long, conflicts_with = "client")]
    all: bool,
}

/// `longarm kv revoke`
pub(super) fn run(args: &KvRevokeArgs) -> Result<(), Error> {
    let mut table = args.target.open()?;
    match table.revoke(args.client)? {
        0 => Err(Error::Usage("no such client has the right to the table".into())),
        count => {
            println!("{count} revoked");
            Ok(())
        }
    }
}
