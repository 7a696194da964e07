//! Fuzz targets as plain functions, replayed over a corpus and over random bytes.
//!
//! A fuzzer may call the same functions. Each takes any bytes, checks the invariants for any input, and must return without a
//! panic.

use proptest::prelude::*;
use std::fs;
use std::path::Path;
use weir_syntax::units::{TimeUnit, parse_integer, parse_size, parse_time};
use weir_syntax::{
    Diagnostics, Environment, Line, LineReader, MAX_WORDS, ReleaseVersion, SourceMap, StaticFeatures,
    did_you_mean, evaluate_condition,
};

const FEATURES: StaticFeatures<'_> = StaticFeatures { features: &["THREAD"], enabled: &["EPOLL"], tls: None };

fn environment() -> Environment {
    Environment::from_iter([("A", "one two"), ("E", ""), ("S", " a  b "), ("X", "\" ' # \\ $A")])
}

fn read(sources: &SourceMap) -> (Vec<Line>, Diagnostics) {
    let (environment, mut diagnostics) = (environment(), Diagnostics::new());
    let mut reader = LineReader::new(sources);
    let lines = std::iter::from_fn(|| reader.next_line(&environment, &FEATURES, &mut diagnostics)).collect();
    (lines, diagnostics)
}

fn source(data: &[u8]) -> SourceMap {
    let mut sources = SourceMap::new();
    sources.add("fuzz.cfg", data.to_vec());
    sources
}

/// The whole reader: words are within their line, and every diagnostic can be shown.
pub fn fuzz_lexer(data: &[u8]) {
    let sources = source(data);
    let (lines, diagnostics) = read(&sources);
    for line in &lines {
        assert!((1..=MAX_WORDS).contains(&line.len()));
        let (raw, _) = sources.get(line.span().file).unwrap().line(line.span().line).unwrap();
        for word in line.words() {
            let span = word.span();
            assert!(span.start < span.end && span.end as usize <= raw.len(), "{span:?} of {}", raw.len());
            for offset in 0..word.bytes().len() {
                let inner = word.span_of(offset..offset + 1);
                assert!(span.start <= inner.start && inner.end <= span.end, "{inner:?} in {span:?}");
            }
        }
    }
    for text in [diagnostics.classic(&sources, 1, true), diagnostics.pretty(&sources, false, true)] {
        assert_eq!(text.is_empty(), diagnostics.is_empty());
    }
}

/// A condition is true, false or an error that points into it.
pub fn fuzz_condition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(error) = evaluate_condition(&text, &environment(), &FEATURES) {
        assert!(error.offset <= text.len());
    }
}

/// Units, versions and suggestions accept any text without a panic.
pub fn fuzz_units(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = parse_time(&text, TimeUnit::Milliseconds);
    let _ = parse_time(&text, TimeUnit::Seconds);
    let _ = parse_size(&text);
    let _ = parse_integer(&text);
    let _ = ReleaseVersion::parse(&text);
    let _ = did_you_mean(&text, ["maxconn", "mode", &text]);
}

const TARGETS: [fn(&[u8]); 3] = [fuzz_lexer, fuzz_condition, fuzz_units];

#[test]
fn files_of_the_fuzz_corpus_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        for cut in (0..=data.len()).step_by(1 + data.len() / 64) {
            TARGETS.iter().for_each(|target| target(&data[..cut]));
        }
        TARGETS.iter().for_each(|target| target(&data));
        seen += 1;
    }
    assert!(seen >= 4, "the corpus is missing");
}

/// Random text in which bytes with a meaning for the lexer are frequent.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "\"", "'", "\\", "#", "$", "{", "}", "[*]", "-", " ", "\t", "\n", "\r", "\\x4", "\\x41", "$A",
            "${S[*]}", "${N-", ".if ", ".elif ", ".else", ".endif", ".notice ", "&&", "||", "!", "(", ")",
            "streq(", "defined", ",", "1", "0", "é",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_configuration_bytes_never_panic(data in any_text()) {
        TARGETS.iter().for_each(|target| target(&data));
    }

    /// The last newline changes nothing but the message about its absence.
    #[test]
    fn a_missing_last_newline_changes_only_its_message(data in any_text()) {
        let mut without = data;
        while without.last() == Some(&b'\n') {
            without.pop();
        }
        let with = [&without[..], b"\n"].concat();
        let (without, with) = (read(&source(&without)), read(&source(&with)));
        prop_assert_eq!(without.0, with.0);
        prop_assert!(without.1.alert_count() <= with.1.alert_count() + 1);
    }

    /// Any text in single quotes is unchanged.
    #[test]
    fn single_quotes_keep_any_text(text in "[^'\u{0}\n]{1,40}") {
        let (lines, diagnostics) = read(&source(format!("k '{text}'\n").as_bytes()));
        prop_assert!(diagnostics.is_empty());
        prop_assert_eq!(lines[0].text(1), text);
    }

    /// Hexadecimal escapes can write any byte.
    #[test]
    fn hexadecimal_escapes_can_write_any_byte(bytes in proptest::collection::vec(any::<u8>(), 1..20)) {
        let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let (lines, _) = read(&source(format!("k {escaped}\n").as_bytes()));
        prop_assert_eq!(lines[0].get(1).unwrap().bytes(), &bytes[..]);
    }
}
