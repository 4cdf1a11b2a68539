//! Scenarios to start from when one is made by hand.

use core::time::Duration;

use transport::{Mtu, QpCaps, QpType, Time, Tuning};
use wire::Psn;

use super::{EndSpec, Ending, FabricSpec, FaultSpec, Mix, Profile, RecvPolicy, Scenario, Signal, Sizes, Temper};

impl Scenario {
    /// Two nodes with one queue pair each, connected unless they are UD; the first one sends.
    /// A fast network, everything as usual, nothing goes wrong.
    pub fn plain(service: QpType, seed: u64) -> Scenario {
        let peer = |other| (service != QpType::Ud).then_some(other);
        let mut ends = vec![EndSpec::plain(service, 0, peer(1)), EndSpec::plain(service, 1, peer(0))];
        ends[1].messages = 0;
        Scenario {
            seed,
            service,
            xrc: false,
            temper: Temper::Stormy,
            ipv6: false,
            mtu: Mtu::B4096,
            nodes: 2,
            fabric: FabricSpec {
                latency: Duration::from_micros(5),
                jitter: Duration::from_micros(1),
                link_bytes_per_us: 5000,
                rx_buffer_bytes: 212_992,
                rx_packet_ns: 200,
                rx_bytes_per_us: 8000,
                think: Duration::from_micros(2),
            },
            faults: FaultSpec::default(),
            ends,
        }
    }
}

impl EndSpec {
    /// An end on `node` that sends a hundred messages of all lengths up to 64 KiB.
    pub fn plain(service: QpType, node: usize, peer: Option<usize>) -> EndSpec {
        let max_send_bytes = if service == QpType::Ud { 4096 } else { 64 << 10 };
        EndSpec {
            node,
            peer,
            caps: QpCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 3, max_recv_sge: 3, max_inline_bytes: 64 },
            tuning: Tuning::default(),
            shared_recv: false,
            first_psn: Psn::new(0),
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 6,
            rd_atomic: 8,
            messages: 100,
            budget_bytes: u64::MAX,
            sizes: Sizes { profile: Profile::Spread, max_send_bytes, max_rdma_bytes: 64 << 10 },
            mix: Mix::all(service),
            signal: Signal::Some(0.5),
            inline: 0.3,
            fence: 0.1,
            rogue: 0.0,
            drains: false,
            recv: RecvPolicy::Early,
            ending: Ending::Plain,
            rtr_at: Time(0),
            rts_at: Time(0),
            in_group: false,
        }
    }
}
