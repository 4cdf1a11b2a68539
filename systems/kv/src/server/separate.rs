//! Tables whose memory another process exposes, so that clients read on over packets while this one is stopped or was killed.

use std::process::Command;
use std::sync::Arc;

use longarm_rpc::Status;
use remote::{MemoryProcess, MemoryProcessOptions, OpenWindow, ProcessWindow, end_left_memory};

use crate::protocol::GrantKey;
use crate::server::error::KvServerError;
use crate::server::served::ServedTable;

/// The number of a client's window. It has one.
const WINDOW: u32 = 0;

/// The process that exposes the memory of all tables.
pub(crate) struct SeparateMemory {
    process: MemoryProcess,
    regions: Vec<(Arc<ServedTable>, u32)>,
}

/// A client's right to connect to that process. Dropping it takes the right away.
pub(crate) struct SeparateRight {
    memory: Arc<SeparateMemory>,
    key: GrantKey,
}

/// The name of the memory process of the server at a port. `None` if the system chooses the port: then no client of an
/// earlier life comes back.
fn name_of(address: &str) -> Option<String> {
    let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
    (port != 0).then(|| format!("kv-{port}"))
}

/// Ends the process that an earlier server at this port has left to its clients. They must not read what it had beside
/// what the new one has.
pub(crate) fn end_left(address: &str) -> Result<(), KvServerError> {
    let ended = name_of(address).map_or(Ok(false), |name| end_left_memory(&name));
    ended.map(drop).map_err(|error| KvServerError::Start(error.to_string()))
}

impl SeparateMemory {
    /// Starts the process, by a command whose program calls [`serve_memory`](crate::serve_memory), and lets it expose the tables.
    pub(crate) fn start(
        command: Command,
        address: &str,
        tables: &[Arc<ServedTable>],
    ) -> Result<SeparateMemory, KvServerError> {
        if let Some(table) = tables.iter().find(|table| table.options.writable) {
            let why = "clients cannot write into memory that another process exposes".into();
            return Err(KvServerError::Table { table: table.name.clone(), why });
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let options =
            MemoryProcessOptions { host: host.into(), name: name_of(address), ..MemoryProcessOptions::default() };
        let process =
            MemoryProcess::start(command, options).map_err(|error| KvServerError::Start(error.to_string()))?;
        let expose = |table: &Arc<ServedTable>| {
            let memory = table.exposed.as_ref().map(|exposed| &exposed.memory);
            let number = memory
                .map_or(Err(remote::ExposureError::Refused("it has no memory for readers".into())), |memory| {
                    process.expose(memory.region())
                });
            let refused = |error: remote::ExposureError| KvServerError::Table {
                table: table.name.clone(),
                why: error.to_string(),
            };
            Ok((Arc::clone(table), number.map_err(refused)?))
        };
        let regions: Result<_, KvServerError> = tables.iter().map(expose).collect();
        Ok(SeparateMemory { regions: regions?, process })
    }

    /// The port at which clients connect.
    pub(crate) fn port(&self) -> u16 {
        self.process.port()
    }

    /// Lets a client connect with its grant, and read the table.
    pub(crate) fn allow(
        self: &Arc<SeparateMemory>,
        key: GrantKey,
        table: &Arc<ServedTable>,
    ) -> Result<SeparateRight, Status> {
        let region = self.regions.iter().find(|(other, _)| Arc::ptr_eq(other, table)).map(|(_, region)| *region);
        let region = region.ok_or_else(|| Status::internal("the table's memory is not exposed"))?;
        let exposed = table.exposed.as_ref().ok_or_else(|| Status::internal("the table has no memory for readers"))?;
        let range = 0..exposed.memory.region().len_bytes();
        let window = ProcessWindow { region, range, access: exposed.client_access(false) };
        let allowed = self.process.allow(key, &[(WINDOW, window)]);
        allowed.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(SeparateRight { memory: Arc::clone(self), key })
    }

    /// Starts another process if this one has ended.
    pub(crate) fn tend(&self) {
        // The next call tries it again; meanwhile clients are told that the table's memory cannot be reached.
        let _ = self.process.tend();
    }
}

impl SeparateRight {
    /// The client's window, if its connection stands.
    pub(crate) fn window(&self) -> Option<OpenWindow> {
        self.memory.process.find(&self.key, WINDOW).ok().flatten()
    }
}

impl Drop for SeparateRight {
    fn drop(&mut self) {
        self.memory.process.revoke(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_at_a_port_of_their_own_have_a_name() {
        assert_eq!(name_of("127.0.0.1:7480").as_deref(), Some("kv-7480"));
        assert_eq!(name_of("[::1]:7480").as_deref(), Some("kv-7480"));
        assert_eq!((name_of("127.0.0.1:0"), name_of("host"), name_of("host:x")), (None, None, None));
    }
}
