//! No text and no input makes anything panic.

use proptest::prelude::*;

use crate::testing::{Fixture, TestContext};
use crate::{AclTable, Condition, Expr, FormatOptions, LogFormat};

/// Parses the bytes in every way as a part of a configuration, and evaluates the results.
fn run(text: &[u8]) {
    let fixture = Fixture::new().file("file", "a b\n1 2\n10.0.0.0/8 c\n");
    let mut context = TestContext::default();
    let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let mut at = 0;
    if let Ok(expr) = Expr::parse(&words, &mut at, &fixture.scope()) {
        assert!(at <= words.len());
        expr.evaluate(&mut context);
        expr.evaluate_str(&mut context);
    }
    let mut line = vec![&b"if"[..]];
    line.extend(&words);
    let condition = Condition::parse(&line, 0, &fixture.scope());
    let acls = AclTable::new();
    let _ = acls.parse(&words, 0, &fixture.scope(), &mut |_| ());
    fixture.acls.seal();
    if let Ok(condition) = condition {
        condition.evaluate(&mut context);
    }
    for options in [FormatOptions::LOG, FormatOptions::HTTP] {
        if let Ok(format) = LogFormat::parse(text, options, &fixture.scope()) {
            format.render(&mut context, &mut Vec::new());
        }
    }
}

/// Inputs that once caused a fault, or could have caused one.
#[test]
fn inputs_that_once_failed_never_panic() {
    let long = format!("str({})", "x".repeat(100_000));
    let many = format!("str(a){}", ",lower".repeat(300));
    let nested = format!("str('{}'),json_query($.a)", "[".repeat(200));
    for text in [
        "",
        " ",
        ",",
        "(",
        ")",
        "str(",
        "str('",
        "str(\\",
        "str(a),",
        "str(a),(",
        "%",
        "%%",
        "%[",
        "%[]",
        "%{",
        "%(",
        "%()[str(a)]",
        "%{+json}o",
        "{",
        "}",
        "{ }",
        "!",
        "! !",
        "a b",
        "or",
        "acl()",
        "acl(!)",
        "acl(TRUE,!x)",
        "{ str(a) -f }",
        "{ str(a) -m }",
        "{ str(a) -u }",
        "{ int(1) gt }",
        "{ int(1) lt -9223372036854775808 }",
        "{ int(1) gt 9223372036854775807 }",
        "int(-9223372036854775808),neg",
        "int(-9223372036854775808),div(-1)",
        "int(-9223372036854775808),mod(-1)",
        "int(5),mod(0)",
        "str(a),field(-9223372036854775808,b)",
        "str(a),word(9223372036854775807,b,9223372036854775807)",
        "str(),field(-1,a)",
        "str(),word(-1,a)",
        "bin(00),bytes(9223372036854775807,9223372036854775807)",
        "bin(0102),be2dec(x,8)",
        "int(9223372036854775807),utime(%c)",
        "int(-9223372036854775808),us_utime(%c %N)",
        "int(9223372036854775807),http_date(9223372036854775807,us)",
        "date(9223372036854775807,us)",
        "str(%),url_dec",
        "str(%4),url_dec",
        "str({),json_query($.a)",
        "str({\"a\":[[[),json_query($.a)",
        "str({\"a\":\"\\),json_query($.a)",
        "str(]),json_query($)",
        "str(}),json_query($)",
        "str(x),regsub(x*,y,g)",
        "str(\u{e9}),regsub(.,y,g)",
        "uuid(7)",
        "rand(-5)",
        "str(for=\"),rfc7239_is_valid",
        "str(for=\"\\),rfc7239_is_valid",
        "str([),rfc7239_n2nn",
        "str([]:),rfc7239_n2np",
        "str(a),map(file)",
        "str(a),map_str_int(file)",
        "ipv4(1.2.3.4),map_ip(file)",
        "%{+E,+Q,+X,+bin,+json,+cbor}[str(\u{0}\u{1})]",
        "str(--),date",
        "str(Sun Nov 99 99:99:99 9999),date",
        &long,
        &many,
        &nested,
    ] {
        run(text.as_bytes());
    }
}

/// Fragments of the language, so that random sequences of them are often valid.
const PIECES: [&str; 64] = [
    "str",
    "int",
    "bin",
    "ipv4",
    "ipv6",
    "bool",
    "var",
    "date",
    "rand",
    "req.hdr",
    "path",
    "acl",
    "(",
    ")",
    ",",
    " ",
    "'",
    "\"",
    "\\",
    "txn.a",
    "a",
    "b;c",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "00ff",
    "1.2.3.4",
    "::1",
    "true",
    "TRUE",
    "lower",
    "field",
    "word",
    "bytes",
    "regsub",
    "json",
    "json_query",
    "$.a[0]",
    "url_dec",
    "%41",
    "utime",
    "%Y",
    "map",
    "file",
    "hmac",
    "sha256",
    "a2V5",
    "concat",
    "set-var",
    "{",
    "}",
    "!",
    "-m",
    "-i",
    "-f",
    "reg",
    "beg",
    "gt",
    "5:9",
    "%[",
    "]",
    "%{+Q}",
    "language",
];

proptest! {
    #[test]
    fn random_sequences_of_expression_words_never_panic(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24)) {
        run(pieces.concat().as_bytes());
    }

    #[test]
    fn random_bytes_as_expressions_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        run(&bytes);
    }

    /// Every converter accepts any input that its type allows.
    #[test]
    fn every_converter_accepts_any_input_of_its_type(input in prop::collection::vec(any::<u8>(), 0..48), number: i64) {
        let fixture = Fixture::new().file("file", "a 1\n[ 2\n");
        let mut context = TestContext::default();
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        for row in crate::converters::all() {
            let args = match row.name {
                "ipmask" => "(24,64)",
                "be2dec" | "le2dec" => "(:,3)",
                "field" | "word" => "(-2,a,2)",
                "regsub" => "('[a-z]+','<\\0>',g)",
                "hmac" => "(sha256,a2V5)",
                "digest" => "(md5)",
                "json" => "(utf8ps)",
                "json_query" => "('$.a[1]')",
                "rfc7239_field" => "(for)",
                "iif" => "(a,b)",
                "add_item" => "(a,,b)",
                "capture-req" | "capture-res" => "(0)",
                "strcmp" | "secure_memcmp" | "set-var" | "unset-var" => "(txn.a)",
                name if name.starts_with("map") => continue,
                _ if row.args.required == 0 => "",
                _ => "(1)",
            };
            for fetch in [format!("bin({hex})"), format!("int({number})"), "ipv6(::ffff:1.2.3.4)".into()] {
                let Ok(expr) = fixture.parse(&format!("{fetch},{}{args}", row.name)) else { continue };
                expr.evaluate_str(&mut context);
            }
        }
    }
}
