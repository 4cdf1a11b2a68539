//! A scenario in words.

use core::fmt;
use core::time::Duration;

use super::{EndSpec, RecvPolicy, Scenario, Signal};

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (service, temper, mtu) = (self.service, self.temper, self.mtu.bytes());
        let xrc = if self.xrc { " (extended)" } else { "" };
        let ip = if self.ipv6 { "IPv6" } else { "IPv4" };
        writeln!(f, "seed {}: {service:?}{xrc}, {temper:?}, {} nodes, {ip}, MTU {mtu}", self.seed, self.nodes)?;
        self.show_network(f)?;
        self.show_faults(f)?;
        for (number, end) in self.ends.iter().enumerate() {
            writeln!(f, "  q{number}: {end}")?;
        }
        Ok(())
    }
}

impl Scenario {
    fn show_network(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = &self.fabric;
        writeln!(
            f,
            "  network: {:?} + {:?}, {} B/us, receive buffer {}, {} ns a packet and {} B/us, application calls within {:?}",
            net.latency,
            net.jitter,
            net.link_bytes_per_us,
            net.rx_buffer_bytes,
            net.rx_packet_ns,
            net.rx_bytes_per_us,
            net.think
        )
    }

    fn show_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  faults: {}", self.faults.plan)?;
        for cut in &self.faults.partitions {
            let (from, until) = (us(cut.from), us(cut.until));
            writeln!(f, "  partition: n{} | n{} from {from:?} until {until:?}", cut.a, cut.b)?;
        }
        for pause in &self.faults.pauses {
            let (from, until) = (us(pause.from), us(pause.until));
            writeln!(f, "  pause: n{} from {from:?} until {until:?}", pause.node)?;
        }
        if let Some(crash) = self.faults.crash {
            writeln!(f, "  crash: n{} at {:?}", crash.node, us(crash.at))?;
        }
        Ok(())
    }
}

fn us(time: transport::Time) -> Duration {
    Duration::from_nanos(time.0)
}

impl fmt::Display for EndSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.node)?;
        if let Some(peer) = self.peer {
            write!(f, " with q{peer}")?;
        }
        let (caps, tuning) = (&self.caps, &self.tuning);
        write!(f, ", {} messages in {} bytes, {:?}", self.messages, self.budget_bytes, self.sizes.profile)?;
        write!(f, ", queues {} and {}", caps.max_send_wr, caps.max_recv_wr)?;
        write!(f, "{}", if self.shared_recv { " shared" } else { "" })?;
        write!(f, ", PSN {}", self.first_psn)?;
        write!(f, ", timeout {} x{} rnr {} x{}", self.timeout, self.retry_count, self.min_rnr_timer, self.rnr_retry)?;
        write!(f, ", {} reads", self.rd_atomic)?;
        write!(f, ", window {}..{}", tuning.window_initial_bytes, tuning.window_max_bytes)?;
        write!(f, "{}", if tuning.advertise_credits { " credits" } else { "" })?;
        write!(f, "{}", if tuning.piggyback { "" } else { " apart" })?;
        match self.signal {
            Signal::All => write!(f, ", signals all")?,
            Signal::Each => write!(f, ", signals each")?,
            Signal::Some(probability) => write!(f, ", signals {probability}")?,
        }
        if let RecvPolicy::Late(delay) = self.recv {
            write!(f, ", receives {delay:?} late")?;
        }
        write!(f, ", ready {:?} {:?}", us(self.rtr_at), us(self.rts_at))?;
        write!(f, "{}", if self.drains { ", drains" } else { "" })?;
        write!(f, "{}", if self.in_group { ", in group" } else { "" })?;
        write!(f, ", ends {:?}", self.ending)
    }
}
