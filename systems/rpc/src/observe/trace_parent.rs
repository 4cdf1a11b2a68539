//! The header `traceparent` (W3C, "Trace Context", section 3.2).

/// The trace and the span that a request belongs to, in lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceParent<'a> {
    pub(super) trace_id: &'a str,
    pub(super) span_id: &'a str,
}

impl TraceParent<'_> {
    /// `None` if the value is malformed, or names no trace. Later versions may have more fields behind these.
    pub(super) fn parse(value: &[u8]) -> Option<TraceParent<'_>> {
        let mut fields = std::str::from_utf8(value).ok()?.split('-');
        let version = hex(fields.next()?, 2)?;
        let trace_id = hex(fields.next()?, 32).filter(|id| has_bits(id))?;
        let span_id = hex(fields.next()?, 16).filter(|id| has_bits(id))?;
        hex(fields.next()?, 2)?;
        let is_complete = version != "00" || fields.next().is_none();
        (version != "ff" && is_complete).then_some(TraceParent { trace_id, span_id })
    }
}

fn hex(field: &str, digits: usize) -> Option<&str> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (field.len() == digits && field.bytes().all(is_digit)).then_some(field)
}

fn has_bits(id: &str) -> bool {
    id.bytes().any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn good_values_have_a_trace_and_a_span() {
        for value in [format!("00-{TRACE}-{SPAN}-01"), format!("cc-{TRACE}-{SPAN}-01-more")] {
            let parent = TraceParent::parse(value.as_bytes()).unwrap();
            assert_eq!((parent.trace_id, parent.span_id), (TRACE, SPAN));
        }
    }

    #[test]
    fn malformed_values_have_none() {
        let zeros = "0".repeat(32);
        for value in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}0-{SPAN}-01"),
        ] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
        assert_eq!(TraceParent::parse(&[0xff; 55]), None);
    }
}
