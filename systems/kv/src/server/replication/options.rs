//! Settings of a member.

use std::time::Duration;

use cluster::{Coordinator, MemberOptions};

use crate::proof::TableSecret;
use crate::server::KvServerError;
use crate::server::layout::KvLayout;
use crate::server::served::ServedTable;

/// Settings of a server that is a member of a cluster.
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// Its name, its address for clients and other members, its term, and the form of the cluster.
    pub member: MemberOptions,
    /// Members prove to each other that they have it. All have the same. Needed if a table has a secret: members send
    /// each other the values of all tables.
    pub secret: Option<TableSecret>,
    /// A backup that keeps answers waiting for so long is left out, and has to fetch the data anew: 0.5 s.
    pub patience: Duration,
}

impl Default for MembershipOptions {
    fn default() -> MembershipOptions {
        MembershipOptions { member: MemberOptions::default(), secret: None, patience: Duration::from_millis(500) }
    }
}

/// A membership to be.
pub(crate) struct Membership {
    pub(crate) options: MembershipOptions,
    pub(crate) coordinator: Box<dyn Coordinator>,
}

impl Membership {
    /// Refuses tables whose changes backups would miss.
    pub(crate) fn check(&self, tables: &[std::sync::Arc<ServedTable>]) -> Result<(), KvServerError> {
        for table in tables {
            let why = if table.options.writable {
                "clients write into it alone, and backups would miss that"
            } else if table.options.layout == KvLayout::Tree {
                "trees have no backups yet"
            } else if table.options.secret.is_some() && self.options.secret.is_none() {
                "it has a secret, so the members of the cluster need one, too: they send each other its values"
            } else {
                continue;
            };
            return Err(KvServerError::Table { table: table.name.clone(), why: why.into() });
        }
        Ok(())
    }
}
