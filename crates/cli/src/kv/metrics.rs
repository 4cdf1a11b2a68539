//! The figures of a server's tables for Prometheus.

use std::fmt::Write as _;

use longarm_kv::{DataFigures, KvServer, TableFigures};
use longarm_resp::{DoorCounts, RespServer};

/// Name, kind, help, and the figure itself.
type Figure = (&'static str, &'static str, &'static str, fn(&TableFigures) -> u64);

const FIGURES: [Figure; 13] = [
    ("keys", "gauge", "Keys now", |figures| figures.keys),
    ("used_bytes", "gauge", "Memory of keys, values and notes in use", |figures| figures.used_bytes),
    ("max_bytes", "gauge", "The bound of the memory", |figures| figures.max_bytes),
    ("rpc_gets_total", "counter", "GETs by request", |figures| figures.gets),
    ("misses_total", "counter", "GETs by request that found no key", |figures| figures.misses),
    ("ranges_total", "counter", "Answers to requests for ranges", |figures| figures.ranges),
    ("reported_gets_total", "counter", "GETs by READs, as far as clients told", |figures| figures.reported_gets),
    ("puts_total", "counter", "Changes of keys", |figures| figures.puts),
    ("deletes_total", "counter", "Keys that clients deleted", |figures| figures.deletes),
    ("conflicts_total", "counter", "Changes whose condition was not met", |figures| figures.conflicts),
    ("evicted_total", "counter", "Keys that made way for others", |figures| figures.evicted),
    ("expired_total", "counter", "Keys whose time was over", |figures| figures.expired),
    ("refused_full_total", "counter", "Changes that found the memory full", |figures| figures.refused_full),
];

/// The same of the data on disk.
type DiskFigure = (&'static str, &'static str, &'static str, fn(&DataFigures) -> u64);

const DISK_FIGURES: [DiskFigure; 10] = [
    ("log_records_total", "counter", "Changes that went to the log", |figures| figures.log_records),
    ("log_bytes_total", "counter", "Bytes that were written to the log", |figures| figures.log_bytes),
    ("log_syncs_total", "counter", "Syncs of the log", |figures| figures.syncs),
    ("log_unsynced", "gauge", "Changes that are not on disk yet", |figures| figures.unsynced),
    ("log_refused_full_total", "counter", "Changes that found the disk full", |figures| figures.refused_full),
    ("log_failed", "gauge", "1 after a write or a sync failed", |figures| figures.failed),
    ("snapshots_total", "counter", "Snapshots that were written", |figures| figures.snapshots),
    ("snapshots_failed_total", "counter", "Snapshots that failed", |figures| figures.failed_snapshots),
    ("snapshot_seconds", "gauge", "When the last snapshot was done, since 1970", |figures| {
        figures.last_snapshot_unix_s
    }),
    ("snapshot_bytes", "gauge", "The length of the last snapshot", |figures| figures.snapshot_bytes),
];

/// The figures of a server and its door, as Prometheus reads them.
pub(super) fn of(server: &KvServer, door: Option<&RespServer>) -> String {
    let door = door.map(|door| door_text(door.counts())).unwrap_or_default();
    text(&server.figures(), server.data_figures()) + &door
}

/// The same of the door for Redis clients.
type DoorFigure = (&'static str, &'static str, &'static str, fn(&DoorCounts) -> u64);

const DOOR_FIGURES: [DoorFigure; 8] = [
    ("clients", "gauge", "Redis clients now", |counts| counts.clients),
    ("connections_total", "counter", "Connections of Redis clients", |counts| counts.connections),
    ("refused_connections_total", "counter", "Connections of Redis clients that were too many", |counts| {
        counts.refused
    }),
    ("commands_total", "counter", "Commands of Redis clients", |counts| counts.commands),
    ("error_replies_total", "counter", "Commands of Redis clients that were refused", |counts| counts.errors),
    ("protocol_errors_total", "counter", "Connections that were ended because they sent no requests", |counts| {
        counts.broken
    }),
    ("slow_clients_total", "counter", "Connections that were ended because they took no replies", |counts| counts.slow),
    ("lost_messages_total", "counter", "Messages of channels that did not come through between doors", |counts| {
        counts.lost_messages
    }),
];

fn door_text(counts: DoorCounts) -> String {
    let line = |(name, kind, help, figure): DoorFigure| {
        let name = format!("longarm_kv_resp_{name}");
        format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {}\n", figure(&counts))
    };
    DOOR_FIGURES.map(line).concat()
}

fn text(tables: &[(String, TableFigures)], disk: Option<DataFigures>) -> String {
    let mut text = String::new();
    for (name, kind, help, figure) in FIGURES {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP longarm_kv_{name} {help}.\n# TYPE longarm_kv_{name} {kind}\n");
        for (table, figures) in tables {
            let table = table.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(text, "longarm_kv_{name}{{table=\"{table}\"}} {}", figure(figures));
        }
    }
    for (disk, (name, kind, help, figure)) in disk.iter().flat_map(|disk| DISK_FIGURES.map(|figure| (disk, figure))) {
        let name = format!("longarm_kv_{name}");
        let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {}\n", figure(disk));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_a_door_has_its_kind_and_its_value() {
        let page = door_text(DoorCounts { clients: 3, commands: 70_000, ..DoorCounts::default() });
        assert!(page.contains("# TYPE longarm_kv_resp_clients gauge\nlongarm_kv_resp_clients 3\n"), "{page}");
        assert!(page.contains("# TYPE longarm_kv_resp_commands_total counter\nlongarm_kv_resp_commands_total 70000\n"));
        assert_eq!(page.lines().count(), 3 * DOOR_FIGURES.len());
    }
}
