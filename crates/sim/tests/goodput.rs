//! The speed of WRITEs of 1 MiB, over loss and receive buffer, in virtual time: a table that is
//! kept, so that a change of behaviour shows as a difference. After a change that is meant, run the
//! test with LONGARM_BLESS=1 to rewrite the table.

use longarm_sim::{Kind, Mix, Profile, QpType, Scenario, Sizes, World, run};

const MESSAGES: u32 = 32;
const LEN_BYTES: u32 = 1 << 20;
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const BUFFERS: [usize; 3] = [64 << 10, 208 << 10, 1 << 20];
/// A loss at the end of what was sent costs 3 ms, and a run has few of them: the mean of several seeds tells more.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Megabytes per second of virtual time, and the share of packets sent again.
fn goodput(loss: f64, rx_buffer_bytes: usize) -> (u64, f64) {
    goodput_of(loss, rx_buffer_bytes, true)
}

/// The same; `selective` at both ends, or go-back-N.
fn goodput_of(loss: f64, rx_buffer_bytes: usize, selective: bool) -> (u64, f64) {
    let runs = SEEDS.map(|seed| goodput_of_seed(seed, loss, rx_buffer_bytes, selective));
    let count = SEEDS.len();
    (runs.iter().map(|run| run.0).sum::<u64>() / count as u64, runs.iter().map(|run| run.1).sum::<f64>() / count as f64)
}

fn goodput_of_seed(seed: u64, loss: f64, rx_buffer_bytes: usize, selective: bool) -> (u64, f64) {
    let mut scenario = Scenario::plain(QpType::Rc, seed);
    scenario.fabric.rx_buffer_bytes = rx_buffer_bytes;
    // Slower than the link: it is the receiver that is overrun.
    scenario.fabric.rx_bytes_per_us = 4000;
    scenario.faults.plan.loss = loss;
    scenario.ends.iter_mut().for_each(|end| end.tuning.selective = selective);
    let sender = &mut scenario.ends[0];
    sender.mix = Mix::only(&[Kind::Write]);
    sender.sizes = Sizes { profile: Profile::Fixed, max_send_bytes: 64, max_rdma_bytes: LEN_BYTES };
    sender.messages = MESSAGES;
    sender.caps.max_send_wr = 4;
    let report = run(&mut World::new(scenario, false)).expect("it passes");
    let bytes = u64::from(MESSAGES) * u64::from(LEN_BYTES);
    let megabytes_per_second = bytes * 1000 / report.done_at[0].0;
    (megabytes_per_second, report.retransmitted as f64 / report.fabric.sent as f64)
}

fn table() -> String {
    let mut text = String::from(
        "Goodput of RC WRITEs of 1 MiB over a link of 5000 MB/s to a receiver of 3400 MB/s, round trip 12 us:\n\
         MB/s, and packets sent again in percent of all packets. Columns: receive buffer.\n\n",
    );
    text += "loss      64 KiB         208 KiB        1 MiB\n";
    for loss in LOSSES {
        text += &format!("{:<6}", format!("{}%", loss * 100.0));
        for buffer in BUFFERS {
            let (speed, again) = goodput(loss, buffer);
            text += &format!("  {speed:>5} {:>6.2}%", again * 100.0);
        }
        text += "\n";
    }
    text
}

#[test]
fn goodput_is_as_it_was() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goodput.txt");
    let now = table();
    if std::env::var_os("LONGARM_BLESS").is_some() {
        std::fs::write(path, &now).expect("the table can be written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(now, kept, "behaviour has changed; if it was meant to, run again with LONGARM_BLESS=1");
}

/// A property that every change must keep: loss costs goodput, but no transfer stalls.
#[test]
fn loss_costs_no_more_than_it_should() {
    for buffer in BUFFERS {
        let speeds = LOSSES.map(|loss| goodput(loss, buffer).0);
        assert!(speeds[2] * 10 > speeds[0] * 9, "1 % loss takes more than a tenth: {speeds:?}");
        assert!(speeds[3] * 2 > speeds[0], "5 % loss takes more than half: {speeds:?}");
    }
}

/// Sending again only what is missing is faster than sending again everything from there on, and sends less.
#[test]
fn selective_retransmission_beats_going_back() {
    for buffer in BUFFERS {
        for (loss, times) in [(0.01, 1.2), (0.05, 3.0)] {
            let (selective, again) = goodput_of(loss, buffer, true);
            let (back, all_again) = goodput_of(loss, buffer, false);
            assert!(selective as f64 > back as f64 * times, "{loss}: {selective} MB/s and {back} MB/s");
            assert!(again * 2.0 < all_again, "{loss}: {again} and {all_again} sent again");
        }
    }
}
