//! The text of a port's rate.

/// A link that InfiniBand has a name for: from this speed on, as many Gb/s in tenths, lanes, name.
struct Link(u32, u32, u32, &'static str);

/// Ethernet speeds as Linux translates them to a width and a signalling rate
/// (`ib_get_eth_speed`), the fastest first.
const LINKS: [Link; 9] = [
    Link(800_000, 8000, 4, "XDR"),
    Link(400_000, 4000, 4, "NDR"),
    Link(200_000, 2000, 4, "HDR"),
    Link(100_000, 1000, 4, "EDR"),
    Link(50_000, 500, 1, "HDR"),
    Link(40_000, 400, 4, "FDR10"),
    Link(25_000, 250, 1, "EDR"),
    Link(10_000, 100, 1, "FDR10"),
    Link(0, 25, 1, "SDR"),
];

/// What a link is taken for if nobody knows its speed.
const UNKNOWN_MBPS: u32 = 10_000;

/// As in `ports/1/rate`: `100 Gb/sec (4X EDR)`.
pub(super) fn text(speed_mbps: u32) -> String {
    let speed = if speed_mbps == 0 { UNKNOWN_MBPS } else { speed_mbps };
    let Link(_, tenths, lanes, name) = LINKS.iter().find(|link| speed >= link.0).unwrap_or(&LINKS[8]);
    let fraction = if tenths % 10 == 0 { "" } else { ".5" };
    format!("{}{fraction} Gb/sec ({lanes}X {name})", tenths / 10)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn speeds_have_the_names_that_linux_gives_them() {
        let table = [
            (10, "2.5 Gb/sec (1X SDR)"),
            (1000, "2.5 Gb/sec (1X SDR)"),
            (10_000, "10 Gb/sec (1X FDR10)"),
            (25_000, "25 Gb/sec (1X EDR)"),
            (40_000, "40 Gb/sec (4X FDR10)"),
            (100_000, "100 Gb/sec (4X EDR)"),
            (u32::MAX, "800 Gb/sec (4X XDR)"),
        ];
        for (mbps, expected) in table {
            assert_eq!(text(mbps), expected, "{mbps} Mb/s");
        }
    }

    #[test]
    fn an_unknown_speed_is_not_slow() {
        assert_eq!(text(0), text(10_000));
    }
}
