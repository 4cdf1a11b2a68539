//! Figures, as lines between the processes and as a table.

use std::fmt;
use std::str::FromStr;

/// A figure.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) transport: String,
    pub(crate) what: String,
    pub(crate) value: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}", self.transport, self.what, self.value)
    }
}

impl FromStr for Row {
    type Err = ();

    fn from_str(line: &str) -> Result<Row, ()> {
        let mut fields = line.split('\t');
        let (Some(transport), Some(what), Some(value)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(());
        };
        Ok(Row { transport: transport.into(), what: what.into(), value: value.parse().map_err(drop)? })
    }
}

/// The medians, a line for each question and a column for each transport.
pub(crate) fn table(rows: &[Row]) -> String {
    let (mut questions, mut transports) = (Vec::new(), Vec::new());
    for row in rows {
        if !questions.contains(&&row.what) {
            questions.push(&row.what);
        }
        if !transports.contains(&&row.transport) {
            transports.push(&row.transport);
        }
    }
    let mut out = format!("| |{}\n|---|", transports.iter().map(|name| format!(" {name} |")).collect::<String>());
    out += &"---|".repeat(transports.len());
    for what in questions {
        out += &format!("\n| {what} |");
        for transport in &transports {
            let of_it = rows.iter().filter(|row| row.what == *what && row.transport == **transport);
            out += &median(of_it.map(|row| row.value).collect()).map_or(" |".into(), |value| format!(" {value:.2} |"));
        }
    }
    out + "\n"
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The processor time of this process.
pub(crate) fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
