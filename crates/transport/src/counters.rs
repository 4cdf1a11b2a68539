//! The counters of a queue pair.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counts since the queue pair was made. All wrap at 2^64.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct QpCounters {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl QpCounters {
            /// Names and values, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Packets built, retransmissions included.
    tx_packets,
    /// Payload bytes in them.
    tx_bytes,
    /// Packets accepted.
    rx_packets,
    /// Payload bytes in them.
    rx_bytes,
    /// Packets sent again.
    retransmitted_packets,
    /// ACK timeouts that counted against `retry_count`.
    ack_timeouts,
    /// Early probes: a packet sent again long before the timeout, to learn what was lost.
    probes,
    /// NAKs for a PSN sequence error received.
    rx_sequence_naks,
    /// The same, sent.
    tx_sequence_naks,
    /// RNR NAKs received.
    rx_rnr_naks,
    /// The same, sent.
    tx_rnr_naks,
    /// Other NAKs received.
    rx_error_naks,
    /// The same, sent.
    tx_error_naks,
    /// ACKs and other responses sent.
    tx_acks,
    /// ACKs of these that a request has carried (piggyback).
    tx_piggybacks,
    /// ACKs carried by a request that were refused, unlike the request.
    refused_piggybacks,
    /// Duplicate requests received.
    duplicate_requests,
    /// Requests received ahead of sequence.
    out_of_sequence_requests,
    /// Requests ahead of sequence that were kept until their turn.
    kept_packets,
    /// Those that had to come again: no room, or no request that is kept.
    unkept_packets,
    /// Requests ahead of sequence that differ from one kept with the same PSN: both have to come again.
    conflicting_packets,
    /// Selective ACKs sent: they name the missing packets.
    tx_selective_acks,
    /// The same, received.
    rx_selective_acks,
    /// Packets sent again because a selective ACK named them as missing.
    repaired_packets,
    /// Selective ACKs that name packets that were never sent.
    impossible_notices,
    /// READ responses that were missing and asked for again.
    implied_naks,
    /// UC and UD: messages lost in part or whole, as far as the responder can know.
    messages_dropped,
    /// Packets that carried a congestion mark (ECN CE).
    ecn_marked,
    /// Congestion notification packets received.
    rx_cnps,
    /// The same, sent.
    tx_cnps,
    /// Times that a packet waited because CNPs had lowered the rate.
    paced_packets,
}
