//! The largest size of a value in bytes: `tune.bufsize`, as in HAProxy.
//!
//! Every value passes [`AtBound::fit`] after a fetch and after a converter, so a converter's input is within the bound, and its output is a
//! small multiple of the bound at most. Converters with a larger factor (`regsub`, `be2hex` with a long separator) also stop beyond
//! [`bytes`]: they do not build megabytes that are cut afterwards.
//!
//! | beyond the bound | |
//! |---|---|
//! | cut at `tune.bufsize` | `hex`, `base2`, `regsub`, `map_*`, most others |
//! | cut at the last whole number | `be2hex`, `be2dec`, `le2dec`; without a value if the first one is too long |
//! | cut at one byte less | fetches (`var`), `concat`, `add_item`, `lower`, `upper`, `url_enc`, log-format strings |
//! | without a value | `base64`, `ub64enc`, `json`, `map_regm`; `url_enc` if it would have to cut an escape |

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sample::Value;
use crate::scratch;

/// The treatment of a result that exceeds the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtBound {
    excess: Excess,
    /// The limit is [`bytes`] minus this number.
    spare: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    CutOff,
    NoValue,
}

impl AtBound {
    /// Keep the first bytes.
    pub const CUT: AtBound = AtBound { excess: Excess::CutOff, spare: 0 };
    /// Keep the first bytes, minus one: HAProxy terminates these strings with a zero byte.
    pub const CUT_TEXT: AtBound = AtBound { excess: Excess::CutOff, spare: 1 };
    /// Return no value.
    pub const FAIL: AtBound = AtBound { excess: Excess::NoValue, spare: 0 };
    /// As [`AtBound::FAIL`], with one byte less, for HAProxy's terminating zero byte.
    pub const FAIL_TEXT: AtBound = AtBound { excess: Excess::NoValue, spare: 1 };
    /// As [`AtBound::FAIL_TEXT`], for base64 text, which is made of groups of four bytes. The last group may lack its padding.
    pub const FAIL_QUARTETS: AtBound = AtBound { excess: Excess::NoValue, spare: 4 };

    /// The value within the bound. None for [`AtBound::FAIL`] and its variants if the value exceeds the bound.
    #[inline]
    pub(crate) fn fit(self, value: Value<'_>) -> Option<Value<'_>> {
        let most = bytes() - usize::from(self.spare);
        match value.bytes() {
            Some(bytes) if bytes.len() > most => self.shorten(value, most),
            _ => Some(value),
        }
    }

    #[cold]
    fn shorten(self, value: Value<'_>, most: usize) -> Option<Value<'_>> {
        if self.excess == Excess::NoValue {
            scratch::recycle(value);
            return None;
        }
        Some(match value {
            Value::Str(bytes) => Value::Str(first(bytes, most)),
            Value::Bin(bytes) => Value::Bin(first(bytes, most)),
            Value::Method(bytes) => Value::Method(first(bytes, most)),
            other => other,
        })
    }
}

fn first(bytes: Cow<'_, [u8]>, most: usize) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..most]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(most);
            Cow::Owned(bytes)
        }
    }
}

/// Sets the bound of the process to `tune.bufsize`, rounded up as HAProxy rounds its buffers.
pub fn set(buffer_size: usize) {
    BYTES.store(buffer_size.max(LEAST).next_multiple_of(ALIGNMENT), Ordering::Relaxed);
}

/// The largest size of a value in bytes.
#[inline]
pub fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

/// The largest size in bytes of a string that HAProxy terminates with a zero byte.
#[inline]
pub fn text_bytes() -> usize {
    bytes() - 1
}

/// The default of `tune.bufsize`.
static BYTES: AtomicUsize = AtomicUsize::new(16_384);
/// HAProxy's buffer sizes are multiples of this.
const ALIGNMENT: usize = 16;
/// Keeps the subtraction of spare bytes from wrapping.
const LEAST: usize = ALIGNMENT;

#[cfg(test)]
mod tests {
    use crate::FormatOptions;
    use crate::testing::{Fixture, TestContext};

    fn fixture() -> Fixture {
        Fixture::new()
            .file("m.map", "^(.*)$ \\1\\1\\1\n")
            .file("long.map", &format!("k {}\n", "v".repeat(20_000)))
    }

    /// The length of an expression's value; none without a value.
    fn length(expression: &str) -> Option<usize> {
        let mut context = TestContext::default();
        let fixture = fixture();
        fixture.eval_in(&format!("str({}),set-var(txn.a)", "a".repeat(6_000)), &mut context);
        fixture.eval_in(&format!("{expression},length"), &mut context).parse().ok()
    }

    /// Lengths of HAProxy 3.2.
    #[test]
    fn converter_results_have_haproxys_maximum_lengths() {
        let check = |text: &str, times: usize, converters: &str, expected: Option<usize>| {
            let found = length(&format!("str({}),{converters}", text.repeat(times)));
            assert_eq!(found, expected, "{times} times {text:?}, {converters}");
        };
        check("a", 6_000, "concat(,txn.a,),concat(,txn.a,)", Some(16_383));
        check("a", 8_000, "concat(xxx,txn.a,zz),concat(xxx,txn.a,zz)", Some(16_383));
        check("a", 16_300, "concat(,,zz)", Some(16_302));
        check("a", 6_000, "add_item(;,txn.a),add_item(;,txn.a)", Some(16_383));
        check("a", 6_000, "regsub(a,aa,g),regsub(a,aa,g),regsub(a,aa,g)", Some(16_384));
        check("a", 6_000, "regsub(a,abcdefg,g)", Some(16_384));
        check("a", 9_000, "regsub(a,aa,g),regsub(^aa,b)", Some(16_383));
        check("a", 13_000, "regsub(b,cc)", Some(13_000));
        check("a", 8_191, "hex", Some(16_382));
        check("a", 8_192, "hex", Some(16_384));
        check("a", 9_000, "hex", Some(16_384));
        check("a", 5_000, "hex,hex", Some(16_384));
        check("a", 9_000, "hex,lower", Some(16_383));
        check("a", 9_000, "hex,upper", Some(16_383));
        check("a", 9_000, "hex,json", Some(16_384));
        check("a", 9_000, "hex,base64", None);
        check("a", 2_047, "base2", Some(16_376));
        check("a", 2_049, "base2", Some(16_384));
        check("/", 8_192, "json", Some(16_384));
        check("/", 8_193, "json", None);
        check("/", 8_193, "json(utf8s)", None);
        check("/", 5_460, "url_enc", Some(16_380));
        check("/", 5_461, "url_enc", None);
        check("a", 12_285, "base64", Some(16_380));
        check("a", 12_286, "base64", None);
        check("a", 12_285, "ub64enc", Some(16_380));
        check("a", 12_286, "ub64enc", None);
        check("a", 5_461, "be2hex(:,1)", Some(16_382));
        check("a", 5_462, "be2hex(:,1)", Some(16_382));
        check("a", 9_000, "be2hex(::::::,3)", Some(16_374));
        check("a", 9_000, "be2hex(,4,1)", Some(16_384));
        check("a", 8_192, "be2hex(||,8191)", Some(16_382));
        check("a", 8_192, "be2hex(|||,8191)", None);
        check("a", 3, "be2hex(:,8192)", None);
        check("a", 3, "be2hex(,9000)", Some(6));
        check("a", 8_192, "be2hex", Some(16_384));
        check("a", 9_000, "be2hex(,5000)", None);
        check("a", 9_000, "be2hex(,5000,1)", Some(10_000));
        check("a", 6_000, "be2dec(:,1)", Some(16_382));
        check("a", 6_000, "be2dec(:::::,3)", Some(16_375));
        check("a", 6_000, "le2dec(:,1)", Some(16_382));
        check("a", 9_000, "be2dec(,2)", Some(16_380));
        check("a", 5_461, "map_regm(m.map)", Some(16_383));
        check("a", 5_462, "map_regm(m.map)", None);
        check("k", 1, "map(long.map)", Some(16_384));
        check("a", 20_000, "length,add(0)", Some(5));
    }

    /// Plain bytes are cut, escapes are not.
    #[test]
    fn url_enc_does_not_truncate_within_an_escape() {
        let check = |plain: usize, after: &str, expected: Option<usize>| {
            let text = format!("{}{}{after}", "/".repeat(5_450), "a".repeat(plain));
            assert_eq!(length(&format!("str({text}),url_enc")), expected, "{plain} and {after:?}");
        };
        check(33, "", Some(16_383));
        check(34, "", Some(16_383));
        check(33, "/", Some(16_383));
        check(31, "/", None);
        check(30, "/", None);
        check(29, "/", Some(16_382));
    }

    #[test]
    fn fetch_and_variable_values_are_limited_in_length() {
        assert_eq!(length(&format!("str({})", "a".repeat(20_000))), Some(16_383));
        assert_eq!(length("var(txn.a),hex,hex,set-var(txn.b),upper"), Some(16_383));
        let mut context = TestContext::default();
        fixture().eval_in(&format!("str({}),hex,set-var(txn.b)", "a".repeat(9_000)), &mut context);
        assert_eq!(fixture().eval_in("var(txn.b),length", &mut context), "16383");
    }

    #[test]
    fn log_format_output_is_limited_in_length() {
        let long = "a".repeat(9_000);
        let check = |format: &str, expected: usize| {
            let found =
                Fixture::new().render(&format.replace('@', &format!("%[str({long})]")), FormatOptions::HTTP);
            assert_eq!(found.len(), expected, "{format}");
        };
        check("@x", 9_001);
        check("@@tail", 16_383);
        check("@@%[str(x)]tail%ci", 16_383);
        let json = format!("%{{+json}}o %(a)[str({long})] %(b)[str({long})]");
        let found = Fixture::new().render(&json, FormatOptions::HTTP);
        assert_eq!(found.replace("\\\"", "\"").len(), 16_383, "quotes are shown with a backslash");
    }
}
