//! `longarm status`

use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};
use hub::HubStatus;
use hub::status::{ClientStatus, MadCounters, ManagerStatus, PortStatus};

use crate::error::Error;
use crate::report;

/// Show the hub, the processes that use it, and their counters
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Show every counter of every process, not only the main ones and the drops
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
    if status.clients.is_empty() && status.managers.is_empty() {
        println!("No process uses it.");
    }
    if !status.clients.is_empty() {
        println!("\n{}", clients(&status, args.all));
    }
    if !status.managers.is_empty() {
        println!("\n{}", managers(&status, args.all));
    }
    Ok(())
}

fn print_hub(status: &HubStatus) {
    println!("Hub: process {}, up {}, in {}", status.pid, duration(status.uptime_ms), status.runtime_dir);
    println!(
        "UDP port 4791: {} slots, {} free; receive buffers of {}",
        status.slots,
        status.free_slots,
        report::size_rounded(status.receive_buffer_bytes)
    );
    let c = &status.counters;
    let refused = c.refused_users + c.refused_others + c.malformed + c.out_of_order + c.denied;
    println!(
        "Packets without a receiver: {}; refused or malformed messages: {refused}",
        c.stray_packets + c.alien_packets
    );
    print_mads(&status.mads);
}

/// Prints the counters of the connection manager's messages, if it has sent or received any.
fn print_mads(mads: &MadCounters) {
    if *mads == MadCounters::default() {
        return;
    }
    println!(
        "Connection manager: {} messages received, {} delivered, {} refused, {} sent",
        mads.received, mads.delivered, mads.refused, mads.sent
    );
    let drops = [
        ("damaged", mads.drop_icrc),
        ("malformed", mads.drop_malformed),
        ("of another partition", mads.drop_pkey),
        ("with a wrong key", mads.drop_qkey),
        ("of another class", mads.drop_class),
        ("for nobody", mads.drop_nobody),
        ("not read", mads.drop_unread),
        ("from a foreign address", mads.drop_source),
        ("unsound", mads.drop_unsound),
        ("not sent", mads.drop_unsent),
        ("came back", mads.undelivered),
    ];
    let drops: Vec<String> =
        drops.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
    if !drops.is_empty() {
        println!("Dropped: {}", drops.join(", "));
    }
    if mads.closing_sent + mads.closing_dropped > 0 {
        println!(
            "For processes that died: {} messages sent, {} answered, {} never answered, {} too many",
            mads.closing_sent, mads.closing_answered, mads.closing_unanswered, mads.closing_dropped
        );
    }
}

fn clients(status: &HubStatus, all: bool) -> Table {
    let mut table = Table::new();
    let header = ["process", "program", "slots", "for", "introduced to", "counters"];
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(header);
    for client in &status.clients {
        let slots: Vec<String> = client.slots.iter().map(u8::to_string).collect();
        table.add_row([
            client.pid.to_string(),
            client.program.clone(),
            slots.join(" "),
            duration(client.attached_ms),
            client.introductions.to_string(),
            counters(client, all),
        ]);
    }
    table
}

fn managers(status: &HubStatus, all: bool) -> Table {
    let mut table = Table::new();
    let header = ["process", "program", "number", "ports", "messages in", "out", "lost"];
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(header);
    for manager in &status.managers {
        table.add_row([
            manager.pid.to_string(),
            manager.program.clone(),
            manager.number.to_string(),
            ports(manager, all),
            manager.mads_delivered.to_string(),
            manager.mads_sent.to_string(),
            manager.mads_lost.to_string(),
        ]);
    }
    table
}

/// The ports, one line each: those that listen, or all.
fn ports(manager: &ManagerStatus, all: bool) -> String {
    let shown = manager.ports.iter().filter(|port| all || port.listening);
    let mut lines: Vec<String> = shown.map(port).collect();
    let rest = manager.ports_total.saturating_sub(lines.len() as u64);
    if rest > 0 {
        lines.push(format!("{rest} more in use"));
    }
    lines.join("\n")
}

fn port(port: &PortStatus) -> String {
    let state = if port.listening { "listens" } else { "in use" };
    format!("{} {} {state}", port.space_name(), port.address)
}

/// Prefixes of the main counters: packets, peers on this host, losses.
const SHOWN: [&str; 4] = ["tx_", "rx_", "shm_", "drop_"];

/// The counters that are not zero, one line each.
fn counters(client: &ClientStatus, all: bool) -> String {
    let Some(snapshot) = &client.counters else { return "none published".into() };
    let wanted = |name: &str| all || SHOWN.iter().any(|prefix| name.starts_with(prefix));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_listen_are_named_and_the_rest_is_counted() {
        let port =
            |address: &str, listening| PortStatus { space: 0x0106, address: address.parse().unwrap(), listening };
        let manager = ManagerStatus {
            ports: vec![port("[::]:7471", true), port("192.0.2.1:40000", false)],
            ports_total: 9,
            ..ManagerStatus::default()
        };
        assert_eq!(ports(&manager, false), "tcp [::]:7471 listens\n8 more in use");
        assert_eq!(ports(&manager, true), "tcp [::]:7471 listens\ntcp 192.0.2.1:40000 in use\n7 more in use");
        assert_eq!(ports(&ManagerStatus::default(), true), "");
    }
}
