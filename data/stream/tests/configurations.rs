//! The parser of whole configurations, with the actions and fetches of this crate, as a fuzz target: replayed over a corpus,
//! over the words of the language in random order, and over random bytes.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use weir_config::scripts::NoScripts;
use weir_config::vocabulary::{self, WordPlace};
use weir_config::{Inputs, parse};
use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};
use weir_stream::KEYWORDS;
use weir_syntax::{Environment, SourceMap, StaticFeatures};
use weir_vocabulary::fetch;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new(fetch::declarations()));

/// Every file is a small response.
struct Files;

impl Loader for Files {}

impl weir_syntax::Files for Files {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        match path.len() % 3 {
            0 => Err(io::ErrorKind::NotFound.into()),
            1 => Ok(b"key value\nother\n".to_vec()),
            _ => Ok(b"HTTP/1.0 503 x\r\ncontent-length: 0\r\n\r\n".to_vec()),
        }
    }
}

/// Reads any bytes as a configuration: nothing panics, every diagnostic can be shown, and a second reading of the same
/// bytes gives the same result.
pub fn fuzz_configuration(data: &[u8]) {
    let mut sources = SourceMap::new();
    sources.add("fuzz.cfg", data.to_vec());
    let read = || {
        let inputs = Inputs {
            sources: &sources,
            loader: &Files,
            registry: &REGISTRY,
            keywords: &KEYWORDS,
            patterns: &PatternStore::new(),
            token_keys: &TokenKeys::new(),
            variables: &VariableNames::new(),
            scripts: &NoScripts,
            conditions: &StaticFeatures::default(),
        };
        let outcome = parse(inputs, Environment::from_iter([("A", "one two")]));
        let text = outcome.diagnostics.classic(&sources, 1, true)
            + &outcome.diagnostics.pretty(&sources, false, true);
        (outcome.config.proxies.len(), text)
    };
    assert_eq!(read(), read());
}

#[test]
fn configurations_of_the_fuzz_corpus_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations/corpus");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        for cut in (0..data.len()).step_by(1 + data.len() / 32) {
            fuzz_configuration(&data[..cut]);
        }
        fuzz_configuration(&data);
        seen += 1;
    }
    assert!(seen >= 2, "the corpus is missing");
}

/// Words of a kind, with something that may follow each.
fn words(place: WordPlace) -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = vocabulary::words(&KEYWORDS)
        .iter()
        .filter(|word| word.place == place)
        .map(|word| word.name)
        .collect();
    proptest::sample::select(names).prop_map(str::to_owned)
}

/// A word of the example of an action.
fn example() -> impl Strategy<Value = String> {
    let examples: Vec<&'static str> =
        KEYWORDS.actions.rows().flat_map(|row| row.example.split(' ')).collect();
    proptest::sample::select(examples).prop_map(str::to_owned)
}

fn argument() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(vec![
            "10", "5s", "on", "off", "name", "/path", "127.0.0.1:80", ":80-90", "fd@3", "if", "unless", "TRUE", "{",
            "}", "!", "or", "str(a)", "path,lower", "%[src]", "\"%{+Q}r %ts\"", "(txn.x)", "proc.x", "-m", "beg", "-i",
            "-f", "len", "local0", "debug", "http", "tcp", "status", "503", "default", "100-200", "GET", "from", "\"\"",
            "-1", "99999999999999999999", "4294967296", "user", "admin", "'\\xff'", "\\xff\\xfe", "é",
        ])
        .prop_map(str::to_owned),
        1 => words(WordPlace::Bind),
        1 => words(WordPlace::Server),
        1 => words(WordPlace::Action),
        2 => example(),
        1 => "[ -~]{0,12}",
    ]
}

fn line() -> impl Strategy<Value = String> {
    let first = prop_oneof![
        1 => words(WordPlace::Section),
        2 => words(WordPlace::Global),
        4 => words(WordPlace::Proxy),
        1 => words(WordPlace::Option).prop_map(|name| format!("option {name}")),
        2 => words(WordPlace::Action).prop_map(|name| format!("http-request {name}")),
        1 => words(WordPlace::Action).prop_map(|name| format!("tcp-request content {name}")),
        1 => words(WordPlace::Bind).prop_map(|name| format!("bind :80 {name}")),
        1 => words(WordPlace::Server).prop_map(|name| format!("server s 127.0.0.1:80 {name}")),
        1 => words(WordPlace::Userlist),
    ];
    let prefix = proptest::sample::select(vec!["", "", "", "no ", "default "]);
    (prefix, first, proptest::collection::vec(argument(), 0..6))
        .prop_map(|(prefix, first, arguments)| format!("{prefix}{first} {}", arguments.join(" ")))
}

/// Lines in a section of each kind.
fn configuration() -> impl Strategy<Value = String> {
    let section = proptest::sample::select(vec![
        "global",
        "defaults",
        "defaults d",
        "frontend f from d",
        "backend b",
        "listen l",
        "userlist u",
        "http-errors h",
    ]);
    proptest::collection::vec((section, proptest::collection::vec(line(), 0..8)), 1..6).prop_map(|sections| {
        sections.iter().map(|(section, lines)| format!("{section}\n {}\n", lines.join("\n "))).collect()
    })
}

proptest! {
    #[test]
    fn configuration_keywords_in_any_order_never_panic(text in configuration()) {
        fuzz_configuration(text.as_bytes());
    }

    #[test]
    fn arbitrary_bytes_as_configuration_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_configuration(&data);
    }
}
