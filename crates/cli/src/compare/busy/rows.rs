//! The goals on a busy machine: pairs of tasks, and the ratio to reach.

use super::task::{BusyJob, BusyTask, Setting};
use crate::baseline::Socket;
use crate::compare::goals::Goal;
use crate::compare::measure::{MessagePath, TestVerb};
use crate::report::{bytes_per_second, count_per_second, nanoseconds_precise};

/// Indices of the figures of a latency test.
const MEDIAN: usize = 0;
const P99: usize = 1;

/// A row of the table.
pub(super) struct BusyRow {
    pub(super) id: &'static str,
    pub(super) what: String,
    pub(super) ours: BusyJob,
    pub(super) theirs: BusyJob,
    /// Index of the compared figure.
    pub(super) place: usize,
    pub(super) unit: Unit,
    pub(super) goal: Goal,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Nanoseconds,
    BytesPerSecond,
    MessagesPerSecond,
}

impl Unit {
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Unit::Nanoseconds => nanoseconds_precise(value),
            Unit::BytesPerSecond => bytes_per_second(value),
            Unit::MessagesPerSecond => count_per_second(value),
        }
    }
}

impl BusyRow {
    pub(super) fn goal_words(&self) -> String {
        match self.goal {
            Goal::AtMost(most) => format!("≤ {most} ×"),
            Goal::AtLeast(least) => format!("≥ {least} ×"),
            Goal::Below(_) | Goal::Shown => String::new(),
        }
    }
}

fn stream(id: &'static str, setting: Setting, ours: BusyTask, what: &str, least: f64) -> BusyRow {
    BusyRow {
        id,
        what: what.into(),
        ours: (setting, ours),
        theirs: (setting, BusyTask::Iperf3),
        place: 0,
        unit: Unit::BytesPerSecond,
        goal: Goal::AtLeast(least),
    }
}

/// Half of the round trip: a row for the median and one for the 99th percentile.
fn latency(id: &'static str, setting: Setting, ours: BusyTask, socket: Socket, most: f64) -> [BusyRow; 2] {
    [(MEDIAN, "median"), (P99, "99 %")].map(|(place, name)| BusyRow {
        id,
        what: format!("SEND 64 B, one way, {name}"),
        ours: (setting, ours),
        theirs: (setting, BusyTask::Blocking(socket)),
        place,
        unit: Unit::Nanoseconds,
        goal: Goal::AtMost(most),
    })
}

/// All rows.
pub(super) fn rows() -> Vec<BusyRow> {
    let mut rows = Vec::new();
    let busy = Setting::Spinners;
    let both = [BusyTask::api_stream, BusyTask::perftest_stream];
    for task in both {
        rows.push(stream("B1", busy, task(MessagePath::Wire, TestVerb::Write), "WRITE 64 KiB", 1.0));
        rows.push(stream("B1", busy, task(MessagePath::Wire, TestVerb::Send), "SEND 64 KiB", 1.0));
    }
    for task in [BusyTask::ApiLatency(MessagePath::Wire), BusyTask::PerftestLatency(MessagePath::Wire)] {
        rows.extend(latency("B2", busy, task, Socket::Tcp, 1.5));
    }
    for task in both {
        rows.push(stream("B3", busy, task(MessagePath::Host, TestVerb::Send), "SEND 64 KiB", 2.0));
    }
    for task in [BusyTask::ApiLatency(MessagePath::Host), BusyTask::PerftestLatency(MessagePath::Host)] {
        rows.extend(latency("B3", busy, task, Socket::Unix, 1.0));
    }
    for message_path in [MessagePath::Wire, MessagePath::Host] {
        rows.push(BusyRow {
            id: "B4",
            what: "SEND 4 KiB, all to all, in sum".into(),
            ours: (Setting::Alone, BusyTask::Mesh(message_path, 16)),
            theirs: (Setting::Alone, BusyTask::Mesh(message_path, 2)),
            place: 0,
            unit: Unit::MessagesPerSecond,
            goal: Goal::AtLeast(0.5),
        });
    }
    let one = Setting::OneCore;
    for message_path in [MessagePath::Wire, MessagePath::Host] {
        rows.extend(latency("B5", one, BusyTask::ApiLatency(message_path), Socket::Tcp, 2.0));
        rows.extend(latency("B5", one, BusyTask::PerftestLatency(message_path), Socket::Tcp, 2.0));
        rows.push(stream("B5", one, BusyTask::api_stream(message_path, TestVerb::Send), "SEND 64 KiB", 0.5));
    }
    rows
}
