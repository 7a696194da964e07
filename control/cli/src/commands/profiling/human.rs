//! Human-readable durations: four digits and a unit.

/// A duration such as `841.0ns`, `14.89us`, `4.900ms`, `2.224s`, `18.76m`, `4.736h`, `2.000d`.
pub(super) fn time(nanoseconds: u64) -> String {
    let exact = nanoseconds as f64;
    // If the value would round up to the next unit, use that unit.
    let unit = UNITS.iter().find(|unit| exact < unit.most * unit.size - unit.size * HALF_A_DIGIT);
    let unit = unit.unwrap_or(&UNITS[UNITS.len() - 1]);
    let value = exact / unit.size;
    let decimals = match value {
        value if value < 9.9995 => 3,
        value if value < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}{}", unit.name)
}

/// A duration as a table cell of ten columns. `-` for a missing measurement (R79).
pub(in super::super) fn time_cell(nanoseconds: u64) -> String {
    if nanoseconds == 0 {
        return "      -   ".to_owned();
    }
    format!("   {:<7}", time(nanoseconds))
}

struct Unit {
    name: &'static str,
    size: f64,
    /// How many of this unit make the next one.
    most: f64,
}

const UNITS: &[Unit] = &[
    Unit { name: "ns", size: 1.0, most: 1000.0 },
    Unit { name: "us", size: 1e3, most: 1000.0 },
    Unit { name: "ms", size: 1e6, most: 1000.0 },
    Unit { name: "s", size: 1e9, most: 60.0 },
    Unit { name: "m", size: 60e9, most: 60.0 },
    Unit { name: "h", size: 3600e9, most: 24.0 },
    Unit { name: "d", size: 86_400e9, most: f64::INFINITY },
];
/// Half of the last digit's value, with three digits before the decimal point and one after it.
const HALF_A_DIGIT: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    /// R74, R79: the units of the founding documents' reports.
    #[test]
    fn durations_have_four_digits_and_a_unit() {
        for (nanoseconds, expected) in [
            (1, "1.000ns"),
            (99, "99.00ns"),
            (841, "841.0ns"),
            (999, "999.0ns"),
            (1_000, "1.000us"),
            (14_890, "14.89us"),
            (9_999_600, "10.00ms"),
            (424_700, "424.7us"),
            (999_949, "999.9us"),
            (999_960, "1.000ms"),
            (4_900_000, "4.900ms"),
            (2_224_000_000, "2.224s"),
            (42_030_000_000, "42.03s"),
            (1_125_600_000_000, "18.76m"),
            (17_049_600_000_000, "4.736h"),
            (172_800_000_000_000, "2.000d"),
        ] {
            assert_eq!(time(nanoseconds), expected);
        }
        let far = time(u64::MAX);
        assert!(far.ends_with('d'), "{far}");
    }

    #[test]
    fn an_unmeasured_time_is_shown_as_a_dash() {
        assert_eq!(time_cell(0), "      -   ");
        assert_eq!(time_cell(1_093_000_000), "   1.093s ");
        assert_eq!(time_cell(1_410), "   1.410us");
    }
}
