//! The paper's load arithmetic: FLOPS per byte, message loads, and its two inconsistencies.

/// The switch cycle, ns. A link carries two bytes per cycle: 150 MB/s.
pub const CYCLE_NS: f64 = 13.3;
/// The cycle with which the paper's message rates of 1116 and 4464 per second are computed, ns.
pub const MESSAGE_CYCLE_NS: f64 = 25.0;
/// The I/O size of all figures but one, bytes.
pub const LARGE: u64 = 32 << 10;
/// The other I/O size, bytes.
pub const SMALL: u64 = 4 << 10;
/// Sizes of messages between compute nodes, bytes.
pub const MESSAGES: [u64; 2] = [2048, 32 << 10];
/// Share of the smaller ones.
pub const SMALL_SHARE: f64 = 0.95;
/// The F/B ratios of Table 1.
pub const FLOPS_PER_BYTE: [f64; 5] = [114.5, 57.25, 28.63, 14.32, 7.16];

/// I/O requests per second of one compute node: one byte of I/O per F/B operations, one operation
/// per switch cycle.
pub fn requests_per_second(flops_per_byte: f64, size: u64) -> f64 {
    1e9 / (flops_per_byte * CYCLE_NS) / size as f64
}

/// The F/B ratio at which a compute node makes so many requests per second.
pub fn flops_per_byte(requests_per_second: f64, size: u64) -> f64 {
    1e9 / (requests_per_second * size as f64 * CYCLE_NS)
}

/// Messages per second of one compute node at a load, which is bytes generated per cycle.
pub fn messages_per_second(load: f64, cycle_ns: f64) -> f64 {
    load * 1e9 / cycle_ns / mean_message()
}

/// The load of a rate of messages.
pub fn message_load(messages_per_second: f64, cycle_ns: f64) -> f64 {
    messages_per_second * mean_message() * cycle_ns / 1e9
}

/// Mean size of a message between compute nodes, bytes.
pub fn mean_message() -> f64 {
    SMALL_SHARE * MESSAGES[0] as f64 + (1.0 - SMALL_SHARE) * MESSAGES[1] as f64
}

/// One row of Table 1: F/B, the ratio as printed, the ratio that the printed rate belongs to, and
/// the rate at each I/O node.
pub const TABLE_1: [(f64, u32, f64, f64); 20] = [
    (114.5, 4, 4.0, 80.00),
    (114.5, 3, 2.0, 40.00),
    (114.5, 2, 4.0 / 3.0, 26.67),
    (114.5, 1, 1.0, 20.00),
    (57.25, 4, 4.0, 160.00),
    (57.25, 3, 2.0, 80.00),
    (57.25, 2, 4.0 / 3.0, 53.33),
    (57.25, 1, 1.0, 40.00),
    (28.63, 4, 4.0, 320.00),
    (28.63, 3, 2.0, 160.00),
    (28.63, 2, 4.0 / 3.0, 106.67),
    (28.63, 1, 1.0, 80.00),
    (14.32, 4, 4.0, 640.00),
    (14.32, 3, 2.0, 320.00),
    (14.32, 2, 4.0 / 3.0, 213.33),
    (14.32, 1, 1.0, 160.00),
    (7.16, 4, 4.0, 1280.00),
    (7.16, 3, 2.0, 640.00),
    (7.16, 2, 4.0 / 3.0, 426.67),
    (7.16, 1, 1.0, 320.00),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Item 1 of the checklist: exact after relabelling, wrong as printed.
    #[test]
    fn pios_1_table1_rates_after_relabelling() {
        for (flops, printed, ratio, rate) in TABLE_1 {
            let ours = requests_per_second(flops, LARGE) * ratio;
            assert!(
                (ours / rate - 1.0).abs() < 0.005,
                "{flops} {ratio}: {ours} {rate}"
            );
            if f64::from(printed) != ratio {
                let labelled = requests_per_second(flops, LARGE) * f64::from(printed);
                assert!(
                    (labelled / rate - 1.0).abs() > 0.4,
                    "the label {printed} is wrong"
                );
            }
        }
    }

    /// Item 2: loads of 0.1 and 0.4 are the printed rates only at 25 ns, and both ways agree.
    #[test]
    fn pios_2_loads_and_rates_convert_both_ways() {
        assert!((mean_message() - 3584.0).abs() < 1e-9);
        for (load, printed, at_13) in [(0.1, 1116.0, 2097.9), (0.4, 4464.0, 8391.5)] {
            let rate = messages_per_second(load, MESSAGE_CYCLE_NS);
            assert!((rate / printed - 1.0).abs() < 0.0005, "{rate}");
            let rate = messages_per_second(load, CYCLE_NS);
            assert!((rate / at_13 - 1.0).abs() < 0.0005, "{rate}");
            assert!((message_load(rate, CYCLE_NS) - load).abs() < 1e-12);
        }
        let back = flops_per_byte(requests_per_second(57.25, LARGE), LARGE);
        assert!((back - 57.25).abs() < 1e-9);
        // Figure 9's "14.3" for 4 KB labels the request rate of 160/s: the bytes are those of 114.5.
        let rate = requests_per_second(114.5, SMALL);
        assert!((rate - 160.3).abs() < 0.1, "{rate}");
    }
}
