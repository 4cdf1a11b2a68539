//! The text of a port's rate.

/// A link rate that InfiniBand has a name for: the least speed, Gb/s in tenths, lanes, and the lane speed.
struct LinkRate(u32, u32, u32, &'static str);

/// Ethernet speeds as widths and lane speeds, the fastest first, as `ibv_query_port` reports
/// them. A link without a speed (loop-back) counts as the slowest, as in Linux's Soft-RoCE.
const LINKS: [LinkRate; 8] = [
    LinkRate(800_000, 8000, 8, "NDR"),
    LinkRate(400_000, 4000, 4, "NDR"),
    LinkRate(200_000, 2000, 4, "HDR"),
    LinkRate(100_000, 1000, 4, "EDR"),
    LinkRate(50_000, 500, 1, "HDR"),
    LinkRate(40_000, 400, 4, "QDR"),
    LinkRate(25_000, 250, 1, "EDR"),
    LinkRate(10_000, 100, 1, "QDR"),
];
const SLOWEST: LinkRate = LinkRate(0, 25, 1, "SDR");

/// The text of `ports/1/rate`, like `100 Gb/sec (4X EDR)`.
pub(super) fn text(speed_mbps: u32) -> String {
    let LinkRate(_, tenths, lanes, name) = LINKS.iter().find(|link| speed_mbps >= link.0).unwrap_or(&SLOWEST);
    let fraction = if tenths % 10 == 0 { "" } else { ".5" };
    format!("{}{fraction} Gb/sec ({lanes}X {name})", tenths / 10)
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn speeds_have_the_names_that_linux_gives_them() {
        let table = [
            (0, "2.5 Gb/sec (1X SDR)"),
            (10, "2.5 Gb/sec (1X SDR)"),
            (1000, "2.5 Gb/sec (1X SDR)"),
            (10_000, "10 Gb/sec (1X QDR)"),
            (25_000, "25 Gb/sec (1X EDR)"),
            (40_000, "40 Gb/sec (4X QDR)"),
            (100_000, "100 Gb/sec (4X EDR)"),
            (u32::MAX, "800 Gb/sec (8X NDR)"),
        ];
        for (mbps, expected) in table {
            assert_eq!(text(mbps), expected, "{mbps} Mb/s");
        }
    }
}
