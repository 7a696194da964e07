//! The current date, for responses of applications without one (RFC 9110, 6.6.1).

use std::cell::Cell;
use std::io::Write as _;

use weir_formats::civil::CivilTime;

thread_local! {
    /// The date that was written last, and its second.
    static LAST: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [0; LENGTH])) };
}

/// Appends the current date.
pub(super) fn append(out: &mut Vec<u8>) {
    let now = weir_sched::wall_us() / 1_000_000;
    let (second, mut text) = LAST.get();
    if second != now {
        let date = CivilTime::at(i64::try_from(now).unwrap_or_default(), 0);
        let mut rest = &mut text[..];
        // The text has this length until the year 9999.
        let _ = date.write_http_date(&mut rest).and_then(|()| rest.write_all(b" GMT"));
        LAST.set((now, text));
    }
    out.extend_from_slice(&text);
}

/// The length of a date in bytes.
const LENGTH: usize = 29;
