//! The reason for which a queue pair ignored a packet.

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// The reason for which a packet was dropped without an answer. One counter each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)+
        }

        impl DropReason {
            /// All of them; the position is the [`index`](DropReason::index).
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name),+];

            /// A short name for counters.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$name => $text,)+ }
            }

            /// The position in `ALL`.
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

drop_reasons! {
    /// The queue pair is in a state that receives nothing.
    QpState = "qp_state",
    /// The opcode belongs to another transport service, or to a role this QP does not have.
    WrongService = "wrong_service",
    /// The partition key is not ours.
    PKey = "pkey",
    /// The packet comes from an address that is not the peer's.
    WrongSource = "wrong_source",
    /// A UD packet with the wrong queue key.
    QKey = "qkey",
    /// A request ahead of sequence; a NAK was sent or is queued.
    OutOfSequence = "out_of_sequence",
    /// A duplicate atomic or READ that is too old to repeat.
    StaleDuplicate = "stale_duplicate",
    /// A response whose PSN fits no outstanding request.
    GhostResponse = "ghost_response",
    /// A response with an impossible length or role.
    BadResponse = "bad_response",
    /// It uses an extension that was not agreed on, or lacks the mark that was.
    NotAgreed = "not_agreed",
    /// A congestion notification that cannot be the peer's: without the cookie that was agreed, or although nothing
    /// was sent lately.
    UnprovenCnp = "unproven_cnp",
    /// An ACK with a reserved syndrome.
    ReservedSyndrome = "reserved_syndrome",
    /// UC: part of a message whose beginning was lost.
    UcGap = "uc_gap",
    /// UC: a message that breaks the order of opcodes or lengths.
    UcInvalid = "uc_invalid",
    /// UC: refused key, range or right.
    UcAccess = "uc_access",
    /// UC: late or a duplicate: the packets after it were there before.
    UcLate = "uc_late",
    /// UC: a SEND longer than the receive buffer.
    UcTooLong = "uc_too_long",
    /// UC, UD: no receive WQE was posted.
    NoRecvWqe = "no_recv_wqe",
    /// UD: longer than the receive buffer, or than the path MTU.
    UdLength = "ud_length",
    /// UC, UD: our own receive buffer was refused; the queue pair has failed.
    LocalMemory = "local_memory",
    /// XRC: a request for a shared receive queue that the XRC domain does not have (a NAK told
    /// the peer).
    XrcSrq = "xrc_srq",
    /// RC: the responder refused the request (a NAK told the peer).
    Refused = "refused",
    /// RC: no receive WQE (an RNR NAK told the peer).
    ReceiverNotReady = "receiver_not_ready",
}
