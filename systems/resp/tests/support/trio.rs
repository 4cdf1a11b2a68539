//! Three servers of one cluster, each with a door.

use longarm_kv::{ClusterConfig, KvServer, TableOptions};
use longarm_resp::{RespOptions, RespServer};

/// Name, address and door of each.
pub(crate) const TRIO: [(&str, &str, &str); 3] = [
    ("a", "127.0.0.1:7481", "127.0.0.1:7001"),
    ("b", "127.0.0.1:7482", "127.0.0.1:7002"),
    ("c", "127.0.0.1:7483", "127.0.0.1:7003"),
];

/// Fields drop in this order.
pub(crate) struct ClusterDoor {
    pub(crate) door: RespServer,
    _server: KvServer,
}

/// Opens all three.
pub(crate) fn open_trio() -> Vec<ClusterDoor> {
    let members = TRIO.map(|(name, address, _)| (name, address));
    let doors: Vec<(String, String)> = TRIO.iter().map(|(name, _, door)| ((*name).into(), (*door).into())).collect();
    let open = |(name, address, door): (&str, &str, &str)| {
        let config = ClusterConfig::fixed(&members).unwrap();
        let server = KvServer::builder().cluster(config, name).table("default", TableOptions::default());
        let server = server.bind(address).unwrap();
        let mut options = RespOptions::default();
        options.doors = doors.clone();
        let table = server.local_table("default").unwrap();
        ClusterDoor { door: RespServer::open(table, door, options).unwrap(), _server: server }
    };
    TRIO.into_iter().map(open).collect()
}
