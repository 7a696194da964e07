//! Fingerprints of parsed configurations. `weir diff` has the tests with the real rows and fetches.

use crate::scripts::NoScripts;
use proptest::prelude::*;
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_model::fingerprints::{Object, differences, objects};
use weir_syntax::{Environment, NoFiles, SourceMap, StaticFeatures};

use crate::{ConfigOutcome, Inputs};

fn read(files: &[(&str, &str)]) -> Vec<Object> {
    let mut sources = SourceMap::new();
    for (name, text) in files {
        sources.add(*name, text.as_bytes().to_vec());
    }
    let variables = VariableNames::new();
    let inputs = Inputs {
        sources: &sources,
        loader: &NoFiles,
        registry: &Registry::new([]),
        keywords: &crate::testing::KEYWORDS,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &variables,
        scripts: &NoScripts,
        conditions: &StaticFeatures::default(),
    };
    let ConfigOutcome { config, diagnostics, .. } = crate::parse(inputs, Environment::new());
    let messages = Vec::from_iter(diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&sources)));
    assert!(!diagnostics.has_alerts(), "{messages:?}");
    objects(&config, &variables)
}

#[track_caller]
fn changed(old: &[Object], new: &[Object]) -> Vec<String> {
    differences(old, new).iter().map(|change| format!("{} {:?}", change.object, change.kind)).collect()
}

/// `ssl-default-*` applies to the lines below it: moving a line to its other side changes the meaning.
#[test]
fn ssl_defaults_change_only_the_fingerprints_of_later_lines() {
    let ciphers = "global\n ssl-default-bind-ciphers AES128-SHA\n";
    let listen = |options: &str| {
        format!("listen l\n bind :1 ssl crt a.pem{options}\n server s 127.0.0.1:1 ssl verify none\n")
    };
    let above = read(&[("a", ciphers), ("b", &listen(""))]);
    let below = read(&[("b", &listen("")), ("a", ciphers)]);
    assert_eq!(changed(&above, &below), ["bind l/:1 Changed([\"ciphers\"])"]);
    let written = read(&[("b", &listen(" ciphers AES128-SHA")), ("a", ciphers)]);
    assert_eq!(changed(&above, &written), Vec::<String>::new());
}

/// Each of several lines with the same name is one object, whatever their order.
#[test]
fn lines_with_the_same_name_are_numbered_objects() {
    let lines = ["bind :1 interface eth0", "bind :1 interface eth1"];
    let one = read(&[("a", &format!("frontend f\n {}\n {}\n", lines[0], lines[1]))]);
    let two = read(&[("a", &format!("frontend f\n {}\n {}\n", lines[1], lines[0]))]);
    assert_eq!(changed(&one, &two), Vec::<String>::new());
    let single = read(&[("a", &format!("frontend f\n {}\n", lines[0]))]);
    assert!(changed(&one, &single).contains(&"bind f/:1 (2) Removed".to_owned()));
}

const SECTIONS: [&str; 7] = [
    "frontend web\n mode http\n bind :80\n use_backend app if { str(a) -m found }\n default_backend files\n \
     http-request set-var-fmt(txn.a) %[var(txn.c)]\n",
    "backend app\n mode http\n server a 192.0.2.1:80 track files/b\n stick-table type ip size 1k store gpc0\n",
    "backend files\n mode http\n server b 192.0.2.2:80 check\n stick-table type string size 2k\n",
    "backend more\n mode http\n http-request set-var-fmt(txn.b) %[var(txn.b)]%[var(txn.a)]\n",
    "userlist u\n user x insecure-password y\n",
    "userlist v\n user z insecure-password y\n",
    "peers p\n peer local 192.0.2.3:1024\n table t type ip size 1k\n",
];

proptest! {
    /// Positions of proxies, tables and lists of users, and numbers of variables, follow the order of the sections.
    #[test]
    fn fingerprints_ignore_the_order_of_sections(order in Just(SECTIONS.to_vec()).prop_shuffle(), blank in 0..3usize) {
        let straight = read(&[("a", &SECTIONS.concat())]);
        let shuffled = read(&[("b", &order.join(&"\n".repeat(blank)))]);
        prop_assert_eq!(changed(&straight, &shuffled), Vec::<String>::new());
    }
}
