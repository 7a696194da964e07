//! Text for a terminal: sanitizes foreign text, and formats numbers for narrow columns.

/// The first `limit` characters of a string. Control characters, invisible characters and those that change the writing direction
/// become question marks: names come from configurations, other strings from clients.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    text.chars().take(limit).map(|c| if is_shown(c) { c } else { '?' }).collect()
}

fn is_shown(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{300}'..='\u{36f}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !hidden
}

/// A count in at most six characters. Exact up to 99999.
pub(crate) fn count(number: u64) -> String {
    if number < 100_000 { number.to_string() } else { scaled(number as f64, 1000.0) }
}

/// Bytes in at most six characters, in powers of 1000.
pub(crate) fn bytes(number: u64) -> String {
    scaled(number as f64, 1000.0)
}

/// A rate per second. Exact if small.
pub(crate) fn rate(number: f64) -> String {
    match number {
        n if !n.is_finite() || n <= 0.0 => "0".to_owned(),
        n if n < 9.95 => format!("{n:.1}"),
        n if n < 99_999.5 => format!("{n:.0}"),
        n => scaled(n, 1000.0),
    }
}

fn scaled(number: f64, step: f64) -> String {
    let mut rest = number;
    for unit in ["", "k", "M", "G", "T", "P", "E"] {
        // If the value would round up to the next unit, use that unit.
        if rest < step - 0.5 {
            let digits = usize::from(!unit.is_empty() && rest < 9.95);
            return format!("{rest:.digits$}{unit}");
        }
        rest /= step;
    }
    format!("{rest:.0}Z")
}

/// Microseconds in at most six characters.
pub(crate) fn micros(number: u64) -> String {
    match number {
        0..=999 => format!("{number}us"),
        1_000..=9_949 => format!("{:.1}ms", number as f64 / 1e3),
        9_950..=999_499 => format!("{:.0}ms", number as f64 / 1e3),
        999_500..=9_949_999 => format!("{:.1}s", number as f64 / 1e6),
        _ => duration(number / 1_000_000),
    }
}

/// Seconds as the two largest units.
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days >= 1000 => format!("{days}d"),
        () if days > 0 => format!("{days}d{:02}h", hours % 24),
        () if hours > 0 => format!("{hours}h{:02}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m{:02}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

/// The newest values as a bar chart, oldest first. Padded with spaces on the left to `width`.
pub(crate) fn sparkline(values: &[f32], width: usize) -> String {
    let newest = &values[values.len().saturating_sub(width)..];
    let most = newest.iter().copied().fold(0.0, f32::max);
    let step = |value: f32| match value {
        v if v <= 0.0 || most <= 0.0 => STEPS[0],
        v => STEPS[((v / most * (STEPS.len() - 1) as f32).ceil() as usize).clamp(1, STEPS.len() - 1)],
    };
    let line: String = newest.iter().map(|&value| step(value)).collect();
    format!("{}{line}", " ".repeat(width - newest.len()))
}

const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar with the filled part of `width`. Any positive part is visible.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    let filled = match whole {
        0 => 0,
        _ => ((part.min(whole) as f64 / whole as f64) * width as f64).ceil() as usize,
    };
    format!("{}{}", "█".repeat(filled.min(width)), "░".repeat(width - filled.min(width)))
}

/// Replaces each character that ASCII does not have.
pub(crate) fn ascii(text: &str) -> String {
    text.chars().map(in_ascii).collect()
}

fn in_ascii(c: char) -> char {
    match c {
        '─' => '-',
        '│' => '|',
        '╭' | '╮' | '╰' | '╯' => '+',
        '▁' => '_',
        '▂' => '.',
        '▃' => ':',
        '▄' => '-',
        '▅' => '=',
        '▆' => '+',
        '▇' => '*',
        '█' => '#',
        '░' | '·' => '.',
        '▼' => 'v',
        '▲' => '^',
        '●' => '*',
        '○' => 'o',
        '→' => '>',
        '…' => '~',
        c if c.is_ascii() => c,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_control_and_bidirectional_characters() {
        assert_eq!(clean("a\x1b[2Jb\r\nc\u{9b}d\u{202e}e\u{200b}f\te", 100), "a?[2Jb??c?d?e?f?e");
        assert_eq!(clean("äöü→漢", 100), "äöü→漢");
        assert_eq!(clean("abcdef", 3), "abc");
    }

    #[test]
    fn numbers_fit_their_columns() {
        for (number, expected) in [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100k"),
            (999_499, "999k"),
            (999_600, "1.0M"),
            (123_456_789, "123M"),
        ] {
            assert_eq!(count(number), expected);
        }
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12k"), (999_999, "1.0M")]
        {
            assert_eq!(bytes(number), expected);
        }
        for (number, expected) in [
            (0, "0us"),
            (999, "999us"),
            (1500, "1.5ms"),
            (20_000, "20ms"),
            (999_500, "1.0s"),
            (75_000_000, "1m15s"),
        ] {
            assert_eq!(micros(number), expected);
        }
        for (number, expected) in
            [(0, "0s"), (61, "1m01s"), (3_720, "1h02m"), (90_000, "1d01h"), (86_400_000, "1000d")]
        {
            assert_eq!(duration(number), expected);
        }
        for (number, expected) in
            [(0.0, "0"), (0.25, "0.2"), (9.96, "10"), (1234.4, "1234"), (2e6, "2.0M"), (f64::NAN, "0")]
        {
            assert_eq!(rate(number), expected);
        }
        for exponent in 0..64 {
            for number in [1_u64 << exponent, (1_u64 << exponent) - 1, u64::MAX] {
                for text in [count(number), bytes(number), micros(number), duration(number)] {
                    assert!(text.len() <= 16, "{text}");
                }
                assert!(count(number).len() <= 6 && bytes(number).len() <= 6, "{number}");
            }
        }
    }

    #[test]
    fn a_sparkline_ends_with_the_newest_value() {
        assert_eq!(sparkline(&[0.0, 1.0, 4.0, 8.0], 6), "  ▁▂▅█");
        assert_eq!(sparkline(&[9.0, 0.0, 5.0], 2), "▁█");
        assert_eq!(sparkline(&[], 3), "   ");
        assert_eq!(bar(1, 1000, 4), "█░░░");
        assert_eq!(bar(7, 0, 4), "░░░░");
        assert_eq!(bar(9, 3, 2), "██");
        assert_eq!(ascii("╭─▁█░…漢"), "+-_#.~?");
    }
}
