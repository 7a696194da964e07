//! `compression` (manual, 4.2).

use crate::testing::{check, read};
use weir_model::CompressionAlgorithm::*;
use weir_model::*;

/// The settings of a `listen` section with these lines.
#[track_caller]
fn settings(lines: &str) -> Compression {
    let outcome = check("listen l", lines, &[]);
    Compression::clone(&outcome.proxies[1].settings.compression)
}

#[test]
fn algorithms_and_types_accumulate() {
    let read = settings(
        "compression algo gzip gzip br ;; compression algo-res zstd ;; compression type text/ ;; compression type-res a/b c/d",
    );
    assert_eq!(read.response_algorithms, [Gzip, Brotli, Zstd]);
    assert_eq!(read.response_types, ["text/".into(), "a/b".into(), "c/d".into()]);
    assert_eq!((read.request_algorithm, read.request_types.len()), (None, 0));
}

#[test]
fn requests_have_their_own_words() {
    let read = settings(
        "compression algo-req deflate ;; compression algo-req raw-deflate ;; compression type-req a/ ;; compression minsize-req 2k ;; \
         compression minsize-res 3 ;; compression direction both ;; compression offload",
    );
    let want = Compression {
        request_algorithm: Some(RawDeflate),
        request_types: vec!["a/".into()],
        request_min_size: 2048,
        response_min_size: 3,
        offload: true,
        direction: CompressionDirection::Both,
        ..Compression::default()
    };
    assert_eq!(read, want);
}

#[test]
fn sections_add_to_their_defaults() {
    let text = "defaults\n mode http\n compression algo gzip\n compression type a\n compression offload\n\
                backend b\n compression algo br\n compression type b\nbackend c\n";
    let outcome = read(text);
    let warning = "'compression' : 'offload' ignored in 'defaults' section.";
    assert!(outcome.messages.iter().any(|message| message.starts_with('W') && message.contains(warning)));
    let of = |name: &str| {
        let proxy = outcome.proxies.iter().find(|proxy| *proxy.name == *name).expect("it is there");
        Compression::clone(&proxy.settings.compression)
    };
    assert_eq!(of("b").response_algorithms, [Gzip, Brotli]);
    assert_eq!(of("b").response_types, ["a".into(), "b".into()]);
    assert_eq!(of("c").response_algorithms, [Gzip]);
    assert!(!of("b").offload && !of("c").offload);
}

#[test]
fn wrong_words_are_refused() {
    for (line, want) in [
        ("compression", "'compression' supports 'algo'"),
        ("compression algo", "'compression' expects <algorithm>."),
        (
            "compression algo gzipp",
            "'compression' : 'gzipp' is not a supported algorithm; did you mean 'gzip' maybe ?",
        ),
        ("compression algo-req gzip br", "cannot handle unexpected argument 'br'"),
        ("compression type", "'compression' expects <type>."),
        ("compression direction up", "'compression' expects 'request', 'response', or 'both'."),
        ("compression minsize-res", "'minsize-res' expects a size as argument."),
        ("compression minsize-res x", "unexpected character 'x' in size argument 'x' of 'minsize-res'"),
        ("compression offload x", "cannot handle unexpected argument 'x'"),
    ] {
        let outcome = read(&format!("listen l\n bind :80\n mode http\n {line}\n"));
        let errors: Vec<_> = outcome.messages.iter().filter(|message| message.starts_with('A')).collect();
        assert!(errors.len() == 1 && errors[0].contains(want), "{line}: {errors:#?}");
    }
}
