//! The opcode table: one row for each opcode. No other file has the numbers.

use super::{HeaderSet, Opcode, OpcodeInfo, Operation, Position};

/// Makes a named constant and a table entry from each row
/// `NAME = code: Operation Position [EXTENSION HEADERS];`.
macro_rules! opcodes {
    ($($name:ident = $code:literal: $operation:ident $position:ident [$($header:ident)*];)*) => {
        impl Opcode {
            $(
                #[doc = concat!(stringify!($operation), ", ", stringify!($position), " packet")]
                #[doc = concat!("(code `", stringify!($code), "`).")]
                pub const $name: Opcode = Opcode($code);
            )*
        }

        /// Number of rows.
        pub(super) const ROWS: usize = [$($code),*].len();

        /// The rows by opcode number.
        pub(super) static TABLE: [Option<OpcodeInfo>; 256] = BUILT;

        /// The same rows for the compile-time checks, which cannot read a static.
        pub(super) const BUILT: [Option<OpcodeInfo>; 256] = {
            let mut table: [Option<OpcodeInfo>; 256] = [None; 256];
            $(
                assert!(table[$code].is_none(), "two rows with one code");
                table[$code] = Some(OpcodeInfo::new(
                    stringify!($name),
                    $code,
                    Operation::$operation,
                    Position::$position,
                    HeaderSet::empty()$(.union(HeaderSet::$header))*,
                ));
            )*
            table
        };
    };
}

opcodes! {
    RC_SEND_FIRST             = 0x00: Send First [];
    RC_SEND_MIDDLE            = 0x01: Send Middle [];
    RC_SEND_LAST              = 0x02: Send Last [];
    RC_SEND_LAST_IMM          = 0x03: Send Last [IMM];
    RC_SEND_ONLY              = 0x04: Send Only [];
    RC_SEND_ONLY_IMM          = 0x05: Send Only [IMM];
    RC_WRITE_FIRST            = 0x06: Write First [RETH];
    RC_WRITE_MIDDLE           = 0x07: Write Middle [];
    RC_WRITE_LAST             = 0x08: Write Last [];
    RC_WRITE_LAST_IMM         = 0x09: Write Last [IMM];
    RC_WRITE_ONLY             = 0x0a: Write Only [RETH];
    RC_WRITE_ONLY_IMM         = 0x0b: Write Only [RETH IMM];
    RC_READ_REQUEST           = 0x0c: ReadRequest Only [RETH];
    RC_READ_RESPONSE_FIRST    = 0x0d: ReadResponse First [AETH];
    RC_READ_RESPONSE_MIDDLE   = 0x0e: ReadResponse Middle [];
    RC_READ_RESPONSE_LAST     = 0x0f: ReadResponse Last [AETH];
    RC_READ_RESPONSE_ONLY     = 0x10: ReadResponse Only [AETH];
    RC_ACKNOWLEDGE            = 0x11: Acknowledge Only [AETH];
    RC_ATOMIC_ACKNOWLEDGE     = 0x12: AtomicAcknowledge Only [AETH ATOMIC_ACK];
    RC_COMPARE_SWAP           = 0x13: CompareSwap Only [ATOMIC_ETH];
    RC_FETCH_ADD              = 0x14: FetchAdd Only [ATOMIC_ETH];
    RC_SEND_LAST_INVALIDATE   = 0x16: Send Last [IETH];
    RC_SEND_ONLY_INVALIDATE   = 0x17: Send Only [IETH];
    RC_FLUSH                  = 0x1c: Flush Only [FETH RETH];
    RC_ATOMIC_WRITE           = 0x1d: AtomicWrite Only [RETH];

    UC_SEND_FIRST             = 0x20: Send First [];
    UC_SEND_MIDDLE            = 0x21: Send Middle [];
    UC_SEND_LAST              = 0x22: Send Last [];
    UC_SEND_LAST_IMM          = 0x23: Send Last [IMM];
    UC_SEND_ONLY              = 0x24: Send Only [];
    UC_SEND_ONLY_IMM          = 0x25: Send Only [IMM];
    UC_WRITE_FIRST            = 0x26: Write First [RETH];
    UC_WRITE_MIDDLE           = 0x27: Write Middle [];
    UC_WRITE_LAST             = 0x28: Write Last [];
    UC_WRITE_LAST_IMM         = 0x29: Write Last [IMM];
    UC_WRITE_ONLY             = 0x2a: Write Only [RETH];
    UC_WRITE_ONLY_IMM         = 0x2b: Write Only [RETH IMM];

    UD_SEND_ONLY              = 0x64: Send Only [DETH];
    UD_SEND_ONLY_IMM          = 0x65: Send Only [DETH IMM];

    CNP                       = 0x81: Cnp Only [CNP];

    SEND_ONLY_ACK             = 0xc4: Send Only [PIGGYBACK COOKIE];
    SEND_ONLY_IMM_ACK         = 0xc5: Send Only [IMM PIGGYBACK COOKIE];
    WRITE_ONLY_ACK            = 0xca: Write Only [RETH PIGGYBACK COOKIE];
    WRITE_ONLY_IMM_ACK        = 0xcb: Write Only [RETH IMM PIGGYBACK COOKIE];
    SELECTIVE_ACKNOWLEDGE     = 0xd1: SelectiveAcknowledge Only [AETH SACK COOKIE];
    ACKNOWLEDGE_COOKIE        = 0xd2: Acknowledge Only [AETH COOKIE];
    SEND_ONLY_INVALIDATE_ACK  = 0xd7: Send Only [IETH PIGGYBACK COOKIE];
    OBJECT_READ               = 0xd8: ObjectRead Only [RETH OBJECT];
    CALL                      = 0xd9: Call Only [RETH];
    REPLY                     = 0xda: Reply Only [AETH REPLY];

    XRC_SEND_FIRST            = 0xa0: Send First [XRCETH];
    XRC_SEND_MIDDLE           = 0xa1: Send Middle [XRCETH];
    XRC_SEND_LAST             = 0xa2: Send Last [XRCETH];
    XRC_SEND_LAST_IMM         = 0xa3: Send Last [XRCETH IMM];
    XRC_SEND_ONLY             = 0xa4: Send Only [XRCETH];
    XRC_SEND_ONLY_IMM         = 0xa5: Send Only [XRCETH IMM];
    XRC_WRITE_FIRST           = 0xa6: Write First [XRCETH RETH];
    XRC_WRITE_MIDDLE          = 0xa7: Write Middle [XRCETH];
    XRC_WRITE_LAST            = 0xa8: Write Last [XRCETH];
    XRC_WRITE_LAST_IMM        = 0xa9: Write Last [XRCETH IMM];
    XRC_WRITE_ONLY            = 0xaa: Write Only [XRCETH RETH];
    XRC_WRITE_ONLY_IMM        = 0xab: Write Only [XRCETH RETH IMM];
    XRC_READ_REQUEST          = 0xac: ReadRequest Only [XRCETH RETH];
    XRC_READ_RESPONSE_FIRST   = 0xad: ReadResponse First [AETH];
    XRC_READ_RESPONSE_MIDDLE  = 0xae: ReadResponse Middle [];
    XRC_READ_RESPONSE_LAST    = 0xaf: ReadResponse Last [AETH];
    XRC_READ_RESPONSE_ONLY    = 0xb0: ReadResponse Only [AETH];
    XRC_ACKNOWLEDGE           = 0xb1: Acknowledge Only [AETH];
    XRC_ATOMIC_ACKNOWLEDGE    = 0xb2: AtomicAcknowledge Only [AETH ATOMIC_ACK];
    XRC_COMPARE_SWAP          = 0xb3: CompareSwap Only [XRCETH ATOMIC_ETH];
    XRC_FETCH_ADD             = 0xb4: FetchAdd Only [XRCETH ATOMIC_ETH];
    XRC_SEND_LAST_INVALIDATE  = 0xb6: Send Last [XRCETH IETH];
    XRC_SEND_ONLY_INVALIDATE  = 0xb7: Send Only [XRCETH IETH];
    XRC_FLUSH                 = 0xbc: Flush Only [XRCETH FETH RETH];
    XRC_ATOMIC_WRITE          = 0xbd: AtomicWrite Only [XRCETH RETH];
}
