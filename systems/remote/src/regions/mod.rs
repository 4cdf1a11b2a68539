//! Memory servers: large memory of one process, in named regions, for many clients (LITE, SOSP 2017; NAM-DB, VLDB 2017).
//!
//! ```text
//!  client     regions as a program uses them: READ, WRITE and atomics with checked bounds
//!  server     requests, windows, leases        sessions   clients, their rights and windows
//!  store      tenants, regions, pieces         protocol   the messages between both ends
//! ```
//!
//! Names, rights and allocation go by RPC. Data goes by READ, WRITE and atomics, without the server's program.

mod client;
mod protocol;
mod server;
mod sessions;
mod store;

pub use client::{MemoryClient, MemoryClientOptions, RegionError, RemoteRegion};
pub use protocol::{NamedRegionInfo, PieceLife, RegionRole};
pub use server::{MemoryServer, MemoryServerBuilder, MemoryServerFigures, MemoryServerOptions};
pub use store::TenantOptions;

use crate::proof::ProofSecret;

impl ProofSecret {
    /// The secret of a region's readers or writers, which its owner gives to them. It follows from the owner's.
    ///
    /// ```
    /// use longarm_remote::{ProofSecret, RegionRole};
    ///
    /// let owner = ProofSecret::new(*b"an owner's secret, at random")?;
    /// let readers = owner.of_region("tenant", "region", RegionRole::Reader);
    /// # Ok::<(), longarm_remote::ShortSecret>(())
    /// ```
    pub fn of_region(&self, tenant: &str, region: &str, role: RegionRole) -> ProofSecret {
        self.derive(&protocol::subject(tenant, region, role))
    }
}
