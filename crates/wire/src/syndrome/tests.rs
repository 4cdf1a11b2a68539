//! All 256 syndromes, and those in captures of the Linux driver.

use super::*;
use crate::CREDIT_CODE_UNLIMITED;

#[test]
fn syndromes_of_the_linux_driver() {
    let cases = [
        (0x1f, SyndromeKind::Ack { credits: None }),
        (0x2e, SyndromeKind::RnrNak { timer: 14 }),
        (0x60, SyndromeKind::Nak(NakCode::PsnSequenceError)),
        (0x62, SyndromeKind::Nak(NakCode::RemoteAccessError)),
        (0x63, SyndromeKind::Nak(NakCode::RemoteOperationalError)),
    ];
    for (byte, kind) in cases {
        assert_eq!(Syndrome(byte).kind(), kind, "{byte:#04x}");
    }
    assert_eq!(Syndrome::ACK_UNLIMITED, Syndrome(0x1f));
}

#[test]
fn every_byte_is_made_by_its_constructor_or_reserved() {
    for byte in 0..=u8::MAX {
        let remade = match Syndrome(byte).kind() {
            SyndromeKind::Ack { credits: Some(count) } => Syndrome::ack(crate::credit_code(count)),
            SyndromeKind::Ack { credits: None } => Syndrome::ack(CREDIT_CODE_UNLIMITED),
            SyndromeKind::RnrNak { timer } => Syndrome::rnr(timer),
            SyndromeKind::Nak(code) => Syndrome::nak(code),
            SyndromeKind::Reserved => {
                let known_nak = (0x60..0x65).contains(&byte);
                assert!(byte >= 0x40 && !known_nak, "{byte:#04x} has a meaning");
                continue;
            }
        };
        assert_eq!(remade, Syndrome(byte));
    }
}

#[test]
fn nak_codes_are_their_numbers() {
    for (number, code) in (0..).zip(NakCode::ALL) {
        assert_eq!(code as u8, number);
        assert_eq!(NakCode::from_code(number), Some(code));
    }
    assert_eq!(NakCode::from_code(5), None);
}

#[test]
fn codes_too_large_do_not_spill_into_the_kind() {
    assert_eq!(Syndrome::ack(0xff), Syndrome(0x1f));
    assert_eq!(Syndrome::rnr(0xff), Syndrome(0x3f));
}
