//! `longarm status`

use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};
use hub::Status;
use hub::status::ClientStatus;

use crate::error::Error;
use crate::report;

/// Show the hub, the processes that use it, and what they have counted
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Every counter of every process, not only the main ones and the drops
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `longarm status`
pub(crate) fn status(args: &StatusArgs) -> Result<(), Error> {
    let status = hub::client::status(None)?;
    if args.json {
        println!("{}", serde_json::to_string(&status).map_err(std::io::Error::from)?);
        return Ok(());
    }
    print_hub(&status);
    if status.clients.is_empty() {
        println!("No process uses it.");
    } else {
        println!("\n{}", clients(&status, args.all));
    }
    Ok(())
}

fn print_hub(status: &Status) {
    println!("Hub: process {}, up {}, in {}", status.pid, duration(status.uptime_ms), status.runtime_dir);
    println!(
        "UDP port 4791: {} slots, {} free; receive buffers of {}",
        status.slots,
        status.free_slots,
        report::size_rounded(status.receive_buffer_bytes)
    );
    let c = &status.counters;
    let refused = c.refused_users + c.refused_others + c.malformed + c.out_of_order + c.denied;
    println!("Packets for nobody: {}; refused or malformed messages: {refused}", c.stray_packets + c.alien_packets);
}

fn clients(status: &Status, all: bool) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["process", "program", "slots", "for", "counters"]);
    for client in &status.clients {
        let slots: Vec<String> = client.slots.iter().map(u8::to_string).collect();
        table.add_row([
            client.pid.to_string(),
            client.program.clone(),
            slots.join(" "),
            duration(client.attached_ms),
            counters(client, all),
        ]);
    }
    table
}

/// The counters that are not zero, a line each.
fn counters(client: &ClientStatus, all: bool) -> String {
    let Some(snapshot) = &client.counters else { return "none published".into() };
    let wanted = |name: &str| all || name.starts_with("tx_") || name.starts_with("rx_") || name.starts_with("drop_");
    let lines: Vec<String> = snapshot
        .iter()
        .filter(|(name, value)| *value != 0 && wanted(name))
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    lines.join("\n")
}

fn duration(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
