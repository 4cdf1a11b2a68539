//! docs/congestion.md: a table of runs and what it shows.

use super::plan::{IncastResult, LossControl};

/// The page for runs with each means against loss and the same parameters.
pub fn page(outcomes: &[IncastResult]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let plan = &first.plan;
    let (switch, dcqcn) = (&plan.switch, &plan.dcqcn);
    let parameters = [
        ("Senders, each with one RC connection that always has WRITEs to send", plan.senders.to_string()),
        ("Links", format!("{} Gb/s, {} µs one way", plan.link_bytes_per_us * 8 / 1000, plan.link_delay.as_micros())),
        ("Path MTU, window of a queue pair", format!("{} bytes, 128 KiB at first, 256 KiB at most", plan.mtu.bytes())),
        ("Simulated time", format!("{} ms; the second half counts as \"later\"", plan.duration.as_millis())),
        ("Switch buffer", kb(switch.buffer_bytes)),
        ("ECN: K_min, K_max, P_max", format!("{}, {}, {} %", kb(switch.k_min), kb(switch.k_max), switch.p_max * 100.0)),
        ("PFC: X_off, X_on of one ingress", format!("{}, {}", kb(switch.x_off), kb(switch.x_on))),
        ("CNPs", format!("at most one in {} µs per connection", dcqcn.cnp_interval.as_micros())),
        ("alpha", format!("g = 1/{}, timer {} µs", dcqcn.alpha_divisor, dcqcn.alpha_timer.as_micros())),
        (
            "Increase",
            format!(
                "every {} µs and every {} MB; F = {}, R_AI = {} MB/s, R_HAI = {} MB/s",
                dcqcn.increase_timer.as_micros(),
                dcqcn.increase_bytes / 1_000_000,
                dcqcn.fast_recovery_steps,
                dcqcn.additive_increase / 1_000_000,
                dcqcn.hyper_increase / 1_000_000
            ),
        ),
        ("How early a packet of a limited queue pair may leave", format!("{} µs", dcqcn.burst.as_micros())),
    ];
    let mut text = String::from(HEAD);
    text += TABLE_HEAD;
    outcomes.iter().for_each(|outcome| text += &row(outcome));
    text += &reading(outcomes);
    text += "\n## Parameters\n\n| what | value |\n|---|---|\n";
    parameters.iter().for_each(|(what, value)| text += &format!("| {what} | {value} |\n"));
    text += &format!("| Seed | {} |\n", plan.seed);
    text + TAIL + TRUST
}

const HEAD: &str = "\
# Congestion: 64 senders, one receiver

Written by `cargo run --release -p longarm-sim -- --incast`: run it again and the same comes out, on every machine.

RoCEv2 wants a network that loses nothing. There are two means: the switch stops links before its buffer is full
(priority flow control, PFC), or senders slow down when the switch marks packets (DCQCN). Here both are
tried where it is hardest: an incast. The queue pairs are the ones that Longarm runs, with real packets; links, switch
and memory are models on a virtual clock.

![The queue over time, and the share of each flow](congestion.svg)

";

const TABLE_HEAD: &str = "\
| means | longest queue | queue later, mean (longest) | goodput later | fairness (Jain) | lost | sent again | pauses | \
links paused later | marked | CNPs |
|---|---|---|---|---|---|---|---|---|---|---|
";

const TAIL: &str = "
## What the model leaves out

- One switch, one queue. PFC's worst property, that a paused link stops flows that have nothing to do with the
  congestion, and pauses that spread over several switches, need more than one receiver and are not shown.
- ACKs and CNPs travel back over an empty network. Receivers take in whatever the link brings.
- The window of Longarm's queue pairs (256 KiB) bounds what one flow can have in the queue. Hardware has no such window:
  without DCQCN it would fill any buffer.
- Rates are enforced in software by when a packet may leave. The model's clock is exact; a device that polls
  a socket is late by its scheduling, and its packets then leave in bursts. Bursts matter: with 16 KB at once instead
  of single packets, DCQCN alone had half of the goodput here, and a queue as long as PFC's.
- The parameters are not tuned for this case. With an increase timer of 300 µs the queue is a third as long.
";

fn row(outcome: &IncastResult) -> String {
    let (mean, longest) = outcome.later_queue();
    let paused = paused_later(outcome);
    format!(
        "| {} | {} | {} ({}) | {:.2} GB/s | {:.3} | {} | {} | {} | {paused:.1} % | {} | {} |\n",
        outcome.plan.loss_control.name(),
        kb(outcome.longest_queue()),
        kb(mean),
        kb(longest),
        outcome.total() / 1e9,
        outcome.fairness(),
        outcome.drops,
        outcome.sent_again,
        outcome.pauses,
        outcome.marks,
        outcome.notifications,
    )
}

/// Share of the second half that a link was paused, in percent, over all links.
fn paused_later(outcome: &IncastResult) -> f64 {
    let later = outcome.plan.duration / 2 * outcome.plan.senders as u32;
    outcome.paused_later.as_secs_f64() / later.as_secs_f64() * 100.0
}

/// The findings of the table, in words computed from it.
fn reading(outcomes: &[IncastResult]) -> String {
    let of = |loss_control: LossControl| outcomes.iter().find(|outcome| outcome.plan.loss_control == loss_control);
    let mut text = String::from("\n");
    if let Some(neither) = of(LossControl::Neither) {
        text += &format!(
            "- **Neither**: windows alone fill the buffer: {} packets are lost. Selective retransmission keeps the \
             receiver's link busy all the same. The queue, and with it the delay of every flow, is as long as the buffer \
             allows.\n",
            neither.drops
        );
    }
    if let Some(pfc) = of(LossControl::Pfc) {
        text += &format!(
            "- **PFC only**: {}. The queue stays long for as long as the senders send, and links are paused most of the \
             time.\n",
            lost(pfc)
        );
    }
    if let Some(dcqcn) = of(LossControl::Dcqcn) {
        text += &format!(
            "- **DCQCN only**: {}. It needs a round trip and more to react. So the first burst is as long as the \
             windows together, and only a buffer of that size keeps it. Then the queue is short. The price is {:.0} % of \
             the goodput that PFC alone gives: rates go up and down, and sometimes the queue is empty.\n",
            lost(dcqcn),
            of(LossControl::Pfc).map_or(0.0, |pfc| 100.0 - dcqcn.total() / pfc.total() * 100.0)
        );
    }
    if let Some(both) = of(LossControl::Both) {
        text += &format!(
            "- **Both**: {}. PFC catches the first burst, DCQCN makes it all but unnecessary afterwards: the queue is \
             as short as with DCQCN alone, and links are paused for {:.1} % of the time later.\n",
            lost(both),
            paused_later(both)
        );
    }
    text
}

fn lost(outcome: &IncastResult) -> String {
    match outcome.drops {
        0 => "nothing is lost".into(),
        drops => format!("{drops} packets are lost"),
    }
}

fn kb(bytes: u64) -> String {
    format!("{:.0} KB", bytes as f64 / 1e3)
}

const TRUST: &str = "
## Which CNPs count

A CNP names a queue pair and proves nothing, and 300,000 forged ones cut a connection's throughput to a tenth. So:

| the CNP | counts |
|---|---|
| carries the cookie that two Longarm ends share, as all in this simulation do after the first answer | in full |
| comes before the first answer of the peer | in full, at most once in 50 µs: the first burst of an incast is the worst |
| comes from another make of device, and packets were lost in the last 10 ms | in full, at most once in 50 µs |
| the same without loss, within 10 ms after we sent something | at most once in 50 µs, and down to half of the rate that \
the first one found |
| lacks the cookie where one is shared, or comes although nothing was sent | not at all; it is dropped and counted |

[Security](security.md) says why, and what that costs.
";
