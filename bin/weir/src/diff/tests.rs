use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use weir_config::vocabulary::{ConfigWord, WordPlace, WordState, words};
use weir_model::fingerprints::{ChangeKind, Object, ObjectChange, differences};
use weir_stream::KEYWORDS;

use crate::configuration;
use crate::explain::lines::{self, ConfigLine};

fn objects(text: &str) -> Option<Vec<Object>> {
    configuration::objects_of(&crate::memory_files::sources(text))
}

/// The printed differences between two configurations.
#[track_caller]
fn printed(old: &str, new: &str) -> String {
    let read = |text| objects(text).unwrap_or_else(|| panic!("{}", crate::manual::read(text).1));
    differences(&read(old), &read(new)).iter().map(super::line).collect()
}

#[track_caller]
fn same(old: &str, new: &str) {
    assert_eq!(printed(old, new), "", "{old}\n{new}");
}

/// A configuration with most kinds of objects, in sections that may be in any order.
const SECTIONS: [&str; 9] = [
    "frontend web\n bind :80\n bind :81 name other\n acl api path_beg /api\n acl from src 10.0.0.0/8 192.0.2.1\n \
     http-request set-var(txn.a) src\n http-request set-var(txn.b) var(txn.a)\n http-request deny if from !api\n \
     http-request track-sc0 src table shared\n http-request auth if !{ http_auth(staff) }\n use_backend app if api\n \
     default_backend files\n log ring@events local0\n errorfiles pages\n",
    "backend app\n balance roundrobin\n server app1 192.0.2.1:80 track files/file1\n \
     server app2 192.0.2.2:80 check resolvers dns healthcheck ping\n use-server app2 if { path /two }\n",
    "backend files\n server file1 192.0.2.3:80 check weight 5\n http-response set-var(txn.b) str(x)\n \
     email-alert mailers post\n email-alert from a@a.test\n email-alert to b@b.test\n",
    "backend shared\n stick-table type ipv4 size 1k store gpc0,http_req_rate(1m)\n",
    "userlist staff\n group g users anna\n user anna insecure-password secret\n user bert insecure-password other\n",
    "ring events\n size 32k\n",
    "resolvers dns\n nameserver a 192.0.2.53:53\n nameserver b 192.0.2.54:53\n",
    "healthcheck ping\n type tcp-check\n",
    "mailers post\n mailer a 192.0.2.25:25\n mailer b 192.0.2.26:25\nhttp-errors pages\n errorfile 503 /dev/null\n",
];

const DEFAULTS: &str =
    "defaults\n mode http\n timeout client 5s\n timeout server 1m\n timeout connect 1s\n log global\n";

fn configuration(order: impl IntoIterator<Item = usize>) -> String {
    let sections: String = order.into_iter().map(|index| SECTIONS[index]).collect();
    format!("global\n log stdout local0\n maxconn 1000\n{DEFAULTS}{sections}")
}

/// In another order, all indexes of proxies, tables, user lists and variables are different.
#[test]
fn the_diff_ignores_the_order_of_sections() {
    let straight = configuration(0..SECTIONS.len());
    for first in 0..SECTIONS.len() {
        let turned = (0..SECTIONS.len()).map(|index| (index + first) % SECTIONS.len());
        same(&straight, &configuration(turned.clone()));
        same(&straight, &configuration(turned.rev()));
    }
    let before =
        straight.replace("frontend web", "backend first\n http-request set-var(txn.z) src\nfrontend web");
    assert_eq!(printed(&straight, &before), "t.cfg:10: added backend first\n");
}

#[test]
fn the_diff_ignores_the_notation_of_values() {
    let before = configuration(0..SECTIONS.len());
    let rewritten = [
        ("timeout client 5s", "timeout client 5000ms # a comment"),
        ("timeout server 1m", "   timeout   \"server\" 60000"),
        ("backend app\n", "\n# a comment\n\nbackend app\n"),
        (" size 32k\n", " size 32768\n"),
        // A moved ACL, and patterns in another order.
        (
            " acl api path_beg /api\n acl from src 10.0.0.0/8 192.0.2.1\n",
            " acl from src 192.0.2.1 10.0.0.0/8\n acl api path_beg /api\n",
        ),
        ("deny if from !api", "deny if from ! { path_beg /api }"),
        (" bind :80\n bind :81 name other\n", " bind :81 name other\n bind :80\n"),
        ("store gpc0,http_req_rate(1m)", "store http_req_rate(60s),gpc0"),
        (
            " group g users anna\n user anna insecure-password secret\n",
            " group g\n user anna insecure-password secret groups g\n",
        ),
        (
            " nameserver a 192.0.2.53:53\n nameserver b 192.0.2.54:53\n",
            " nameserver b 192.0.2.54:53\n nameserver a 192.0.2.53:53\n",
        ),
        ("track files/file1", "track files/file1 weight 1"),
        // A setting is inherited or set directly.
        ("backend files\n", "backend files\n timeout server 1m\n"),
    ];
    for (from, to) in rewritten {
        let after = before.replace(from, to);
        assert_ne!(after, before, "{from}");
        same(&before, &after);
    }
    let unnamed = format!("{DEFAULTS}backend b\n http-request deny if {{ src 192.0.2.1 }}\n");
    let inherited = unnamed.replace("defaults\n", "defaults d\n http-request deny if { src 192.0.2.1 }\n");
    same(
        &unnamed,
        &inherited.replace("backend b\n http-request deny if { src 192.0.2.1 }\n", "backend b from d\n"),
    );
}

#[test]
fn the_diff_compares_environment_variables_by_value() {
    let with = |value: &str, word: &str| {
        format!("global\n presetenv NAME {value}\n{DEFAULTS}backend b\n server s 127.0.0.1:{word}\n")
    };
    same(&with("80", "${NAME}"), &with("80", "80"));
    assert_eq!(
        printed(&with("80", "${NAME}"), &with("81", "${NAME}")),
        "t.cfg:10: changed server b/s: address\n"
    );
}

#[test]
fn the_diff_prints_location_kind_name_and_changed_parts() {
    let before = configuration(0..SECTIONS.len());
    let check = |from: &str, to: &str, expected: &str| {
        let after = before.replacen(from, to, 1);
        assert_ne!(after, before, "{from}");
        assert_eq!(printed(&before, &after), expected, "{from}");
    };
    check("maxconn 1000", "maxconn 2000", "changed global: maxconn\n");
    check("weight 5", "weight 6 maxconn 3", "t.cfg:30: changed server files/file1: weight, maxconn\n");
    check(":81 name", ":82 name", "t.cfg:12: changed bind web/other: addresses\n");
    check("bind :80\n", "bind :82\n", "t.cfg:11: added bind web/:82\nt.cfg:11: removed bind web/:80\n".replace("t.cfg:11: added bind web/:82\nt.cfg:11: removed bind web/:80\n", "t.cfg:10: changed frontend web: bind lines\nt.cfg:11: removed bind web/:80\nt.cfg:11: added bind web/:82\n").as_str());
    check(
        " server app1 192.0.2.1:80 track files/file1\n",
        "",
        "t.cfg:24: changed backend app: order of servers\nt.cfg:26: removed server app/app1\n",
    );
    check(
        "insecure-password secret",
        "insecure-password secrets",
        "t.cfg:10: changed frontend web: http-request\nt.cfg:37: changed userlist staff: users\n",
    );
    check(
        "type tcp-check",
        "type httpchk",
        "t.cfg:27: changed server app/app2: healthcheck\nt.cfg:46: changed healthcheck ping: scripts\n",
    );
    check("size 1k", "size 2k", "t.cfg:36: changed table shared: size\n");
    check(
        "timeout client 5s",
        "timeout client 6s",
        "t.cfg:10: changed frontend web: timeout client\nt.cfg:24: changed backend app: timeout client\nt.cfg:29: changed backend files: timeout client\nt.cfg:35: changed backend shared: timeout client\n",
    );
    check(
        "userlist staff",
        "userlist stuff\n user x insecure-password y\nuserlist staff",
        "t.cfg:37: added userlist stuff\n",
    );
}

/// Files are compared by content where they are used, not by name. For maps, the values count.
#[test]
fn the_diff_compares_referenced_files_by_content() {
    let folder = std::env::temp_dir().join(format!("weir-diff-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(path(name), text).expect("a file");
    let text = format!(
        "{DEFAULTS}backend b\n http-request deny if {{ src -f {0} }}\n http-request set-header a %[src,map_ip({1})]\n \
         errorfile 503 {2}\n",
        path("list"),
        path("map"),
        path("page")
    );
    write("list", "10.0.0.1\n10.0.0.2\n");
    write("map", "10.0.0.1 a\n10.0.0.2 b\n");
    write("page", "HTTP/1.0 503 x\r\n\r\none");
    let before = objects(&text).expect("it is valid");
    let parts = || {
        let changes = differences(&before, &objects(&text).expect("it is valid"));
        changes.iter().map(super::line).collect::<String>()
    };
    write("list", "# a comment\n10.0.0.2\n10.0.0.1\n");
    assert_eq!(parts(), "");
    write("list", "10.0.0.1\n");
    assert_eq!(parts(), "t.cfg:7: changed backend b: http-request\n");
    write("list", "10.0.0.1\n10.0.0.2\n");
    write("map", "10.0.0.1 a\n10.0.0.2 c\n");
    assert_eq!(parts(), "t.cfg:7: changed backend b: http-request\n");
    write("map", "10.0.0.1 a\n10.0.0.2 b\n");
    write("page", "HTTP/1.0 503 x\r\n\r\ntwo");
    assert_eq!(parts(), "t.cfg:7: changed backend b: errorfile\n");
    let moved = text.replace("page", "copy");
    write("copy", "HTTP/1.0 503 x\r\n\r\none");
    let changes = differences(&before, &objects(&moved).expect("it is valid"));
    assert_eq!(changes, []);
    fs::remove_dir_all(&folder).expect("the folder");
}

/// Objects shared by several users are identified by name.
#[test]
fn objects_reference_shared_tables_peers_and_mailers_by_name() {
    let all = objects(&configuration(0..SECTIONS.len())).expect("it is valid");
    let references = |name: &str| -> String {
        let object = all.iter().find(|object| object.name.to_string() == name).expect("it is there");
        let names = object.form.references.iter().map(ToString::to_string);
        Vec::from_iter(names).join(", ")
    };
    assert_eq!(references("frontend web"), "backend app, backend files, table shared, ring events");
    assert_eq!(references("server app/app1"), "server files/file1");
    assert_eq!(references("server app/app2"), "resolvers dns");
    assert_eq!(references("backend app"), "server app/app2");
    assert_eq!(references("backend files"), "mailers post");
    assert_eq!(references("backend shared"), "table shared");
}

/// Equal files have equal fingerprints, for every configuration file in the source tree.
#[test]
fn equal_configuration_files_have_equal_fingerprints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = Vec::from(CONFIGURATIONS.map(|folder| root.join(folder)));
    let (mut read, mut valid) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let Ok(text) = fs::read_to_string(&entry) else { continue };
            read += 1;
            let (Some(one), Some(two)) = (objects(&text), objects(&text)) else { continue };
            valid += 1;
            assert_eq!(differences(&one, &two), [], "{}", entry.display());
            // The comment changes the number of each line.
            let moved = objects(&format!("# a comment\n\n{text}")).expect("it is valid, too");
            assert_eq!(differences(&one, &moved), [], "{}", entry.display());
        }
    }
    assert!(read > 20 && valid > 10, "{valid} of {read}");
}

/// Folders with configurations.
const CONFIGURATIONS: [&str; 5] = [
    "bin/weir/src",
    "data/stream/tests/configurations/corpus",
    "doc/examples",
    "packaging/container",
    "tools/fuzz/corpus/configuration",
];

/// The example line of a word, and the differences that it makes.
struct Example {
    word: ConfigWord,
    line: ConfigLine,
    before: &'static str,
}

impl Example {
    fn all() -> impl Iterator<Item = Example> {
        let ready = words(&KEYWORDS).into_iter().filter(|word| word.state == WordState::Ready);
        ready.filter(|word| word.place != WordPlace::Section).map(|word| {
            let before = lines::BEFORE
                .iter()
                .find(|(place, name, _)| (*place, *name) == (word.place, word.name))
                .map_or("", |(.., before)| before);
            Example { line: lines::of_word(&word), word, before }
        })
    }

    fn name(&self) -> String {
        format!("{:?} {}", self.word.place, self.word.name)
    }

    fn with(&self, text: &str) -> String {
        let line = ConfigLine { place: self.line.place, text: text.to_owned() };
        lines::configuration(&line, self.before)
    }

    /// The line without the word.
    fn without(&self) -> String {
        let word = match self.word.place {
            WordPlace::Bind => "bind :8443",
            WordPlace::Server => match self.line.text.split(' ').take(3).collect::<Vec<_>>()[..] {
                ["server", "app1", "192.0.2.10:514"] => "server app1 192.0.2.10:514",
                ["server", "app1", "192.0.2.10:8443"] => "server app1 192.0.2.10:8443",
                _ => "server app1 192.0.2.10:8080",
            },
            WordPlace::Load => "load crt site.pem",
            _ => "#",
        };
        self.with(word)
    }

    /// Whether a change concerns the object of the line. A `server` or `bind` line is itself an object.
    fn is_owner(&self, change: &ObjectChange) -> bool {
        let kind = change.object.kind.word();
        match self.word.place {
            WordPlace::Bind => kind == "bind",
            WordPlace::Server => kind == "server",
            WordPlace::Global => ["global", "bind", "server"].contains(&kind) || is_every(change),
            WordPlace::Load => kind == "crt-store",
            // An engine is a part of the proxy with its filter.
            WordPlace::SpoeAgent | WordPlace::SpoeMessage | WordPlace::SpoeGroup => kind == "listen",
            place => match place.section() {
                Some(section) => kind == section || ["table", "bind"].contains(&kind),
                None => ["frontend", "backend", "listen", "table", "bind", "server"].contains(&kind),
            },
        }
    }
}

/// Whether a change concerns a global setting that proxies inherit.
fn is_every(change: &ObjectChange) -> bool {
    matches!(change.kind, ChangeKind::Changed(_))
}

/// Every word with an example changes its object. The list of exceptions, each with a reason, is exact.
#[test]
fn changing_any_keyword_changes_its_object() {
    let (mut tried, mut same, mut foreign) = (0, BTreeSet::new(), Vec::new());
    for example in Example::all() {
        let (Some(with), Some(without)) =
            (objects(&example.with(&example.line.text)), objects(&example.without()))
        else {
            same.insert(example.name());
            continue;
        };
        tried += 1;
        // If the example equals the default it makes no difference, but another argument does.
        let others = variations(&example)
            .into_iter()
            .chain([format!("no {}", example.line.text)])
            .filter_map(|other| objects(&example.with(&other)));
        let change = std::iter::once(with)
            .chain(others)
            .map(|other| differences(&without, &other))
            .find(|changes| !changes.is_empty());
        match change {
            None => _ = same.insert(example.name()),
            Some(changes) if changes.iter().any(|change| example.is_owner(change)) => {}
            Some(changes) => foreign.push(format!("{}: {changes:?}", example.name())),
        }
    }
    assert!(tried > 650, "{tried} examples");
    let excepted = BTreeSet::from_iter(WITHOUT_MEANING.iter().map(|(name, _)| (*name).to_owned()));
    assert_eq!(Vec::from_iter(same.difference(&excepted)), Vec::<&String>::new(), "these make no difference");
    assert_eq!(Vec::from_iter(excepted.difference(&same)), Vec::<&String>::new(), "these make one");
    assert!(foreign.is_empty(), "{}", foreign.join("\n"));
}

/// Words that make no difference in their example, with the reason.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("Action lua.<name>", "it needs a script"),
    ("Filter lua.<name>", "it needs a script"),
    ("Global lua-load", "it needs a script"),
    ("Global lua-load-per-thread", "it needs a script"),
    ("Global max-threads-per-group", "no effect, or only a warning"),
    ("Global noevports", "no effect, or only a warning"),
    ("Global nokqueue", "no effect, or only a warning"),
    ("Global noktls", "no effect, or only a warning"),
    ("Global nopoll", "no effect, or only a warning"),
    ("Global numa-cpu-mapping", "no effect, or only a warning"),
    ("Global ssl-dh-param-file", "no effect, or only a warning"),
    ("Global ssl-mode-async", "no effect, or only a warning"),
    ("Global ssl-propquery", "no effect, or only a warning"),
    ("Global ssl-provider", "no effect, or only a warning"),
    ("Global ssl-provider-path", "no effect, or only a warning"),
    ("Global ssl-security-level", "no effect, or only a warning"),
    ("Global thread-groups", "no effect, or only a warning"),
    ("Global tune.applet.zero-copy-forwarding", "no effect, or only a warning"),
    ("Global tune.disable-fast-forward", "no effect, or only a warning"),
    ("Global tune.fd.edge-triggered", "no effect, or only a warning"),
    ("Global tune.h1.zero-copy-fwd-recv", "no effect, or only a warning"),
    ("Global tune.h1.zero-copy-fwd-send", "no effect, or only a warning"),
    ("Global tune.idletimer", "no effect, or only a warning"),
    ("Global tune.pt.zero-copy-forwarding", "no effect, or only a warning"),
    ("Global tune.recv_enough", "no effect, or only a warning"),
    ("Global tune.ssl.certificate-compression", "no effect, or only a warning"),
    ("Global tune.ssl.default-dh-param", "no effect, or only a warning"),
    ("Global tune.ssl.force-private-cache", "no effect, or only a warning"),
    ("Server no-renegotiate", "no effect, or only a warning"),
    ("Server renegotiate", "no effect, or only a warning"),
    ("SpoeAgent max-waiting-frames", "no effect, or only a warning"),
    ("SpoeAgent maxconnrate", "no effect, or only a warning"),
    ("SpoeAgent maxerrrate", "no effect, or only a warning"),
    ("SpoeAgent option async", "no effect, or only a warning"),
    ("SpoeAgent option send-frag-payload", "no effect, or only a warning"),
    ("SpoeAgent timeout hello", "no effect, or only a warning"),
    ("SpoeAgent timeout idle", "no effect, or only a warning"),
    ("Global presetenv", "counts in the lines that use the variable"),
    ("Global resetenv", "counts in the lines that use the variable"),
    ("Global setenv", "counts in the lines that use the variable"),
    ("Global unsetenv", "counts in the lines that use the variable"),
    ("Global default-path", "counts in the paths of files that are read"),
    ("Global external-check", "the example stands in a configuration that has it"),
    ("Global h1-case-adjust-file", "the example names a file that is missing"),
    ("HttpErrors errorfile", "the example names a file that is missing"),
    ("Proxy errorfile", "the example names a file that is missing"),
    ("Peers default-bind", "counts in the lines that follow"),
    ("Peers default-server", "counts in the lines that follow"),
    ("Proxy default-server", "counts in the lines that follow"),
    ("Proxy acl", "counts in the rules that use it"),
    ("FcgiApp acl", "counts in the condition that uses it"),
    ("SpoeMessage acl", "counts in the condition that uses it"),
    ("Proxy default_backend", "another line of the example's section replaces it"),
    ("Proxy email-alert from", "incomplete alone: mails need a sender, a recipient and a section"),
    ("Proxy email-alert level", "incomplete alone: mails need a sender, a recipient and a section"),
    ("Proxy email-alert mailers", "incomplete alone: mails need a sender, a recipient and a section"),
    ("Proxy email-alert myhostname", "incomplete alone: mails need a sender, a recipient and a section"),
    ("Proxy email-alert to", "incomplete alone: mails need a sender, a recipient and a section"),
    ("Peers enabled", "the default, which takes nothing else back here"),
    ("Proxy enabled", "the default, which takes nothing else back here"),
    ("Server check-sni-auto", "the default, which takes nothing else back here"),
    ("Server enabled", "the default, which takes nothing else back here"),
    ("Server no-agent-check", "the default, which takes nothing else back here"),
    ("Server no-backup", "the default, which takes nothing else back here"),
    ("Server no-check", "the default, which takes nothing else back here"),
    ("Server no-check-reuse-pool", "the default, which takes nothing else back here"),
    ("Server no-check-send-proxy", "the default, which takes nothing else back here"),
    ("Server no-send-proxy", "the default, which takes nothing else back here"),
    ("Server no-send-proxy-v2", "the default, which takes nothing else back here"),
    ("Server no-tfo", "the default, which takes nothing else back here"),
    ("Server stick", "the default, which takes nothing else back here"),
];

/// Another argument changes the fingerprint, for each word with an example that can be varied. Both lists of exceptions are exact.
#[test]
fn changing_any_argument_changes_a_fingerprint() {
    let (mut varied, mut same, mut unvaried) = (0, BTreeMap::new(), BTreeSet::new());
    for example in Example::all().filter(|example| !example.word.arguments.is_empty()) {
        let text = &example.line.text;
        let Some(known) = objects(&example.with(text)) else {
            unvaried.insert(example.name());
            continue;
        };
        let others = Vec::from_iter(
            variations(&example)
                .into_iter()
                .filter_map(|other| Some((objects(&example.with(&other))?, other))),
        );
        varied += others.len();
        if others.is_empty() {
            unvaried.insert(example.name());
        }
        if let Some((_, other)) = others.into_iter().find(|(other, _)| differences(&known, other).is_empty())
        {
            same.insert(example.name(), format!("'{text}' and '{other}'"));
        }
    }
    assert!(varied > 700, "{varied} variations");
    let excepted =
        |name: &&String| SAME_ARGUMENTS.iter().chain(WITHOUT_MEANING).any(|(known, _)| known == name);
    let faults = Vec::from_iter(same.iter().filter(|(name, _)| !excepted(name)));
    assert!(faults.is_empty(), "{faults:#?}");
    let needless = SAME_ARGUMENTS.iter().filter(|(name, _)| !same.contains_key(*name));
    assert_eq!(needless.count(), 0, "some of these count");
    let excepted = BTreeSet::from_iter(NOT_VARIED.iter().map(|(name, _)| (*name).to_owned()));
    assert_eq!(unvaried, excepted, "words that no variation is accepted of");
}

/// The line with one word changed: another number, one more letter, one element less, or another value of a list.
fn variations(example: &Example) -> Vec<String> {
    let words: Vec<&str> = example.line.text.split(' ').collect();
    let first = match example.word.place {
        WordPlace::Server => 3,
        WordPlace::Bind => 2,
        _ => 1,
    };
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let of_syntax = example.word.arguments.split([' ', '|', '{', '}', '[', ']', '<', '>']);
    let of_values = example.word.values.iter().map(|(value, _)| *value);
    let listed = Vec::from_iter(of_syntax.chain(of_values).filter(is_plain));
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate().skip(first) {
        let numbers = word.char_indices().filter(|(_, c)| c.is_ascii_digit());
        let others = numbers.map(|(index, digit)| {
            let other = if digit == '1' { '2' } else { '1' };
            format!("{}{other}{}", &word[..index], &word[index + 1..])
        });
        // The parser ignores letters after the unit of a number.
        let is_name = !word.starts_with(|c: char| c.is_ascii_digit());
        let longer = [format!("{word}x"), format!("x{word}")].into_iter().filter(|_| is_name);
        let inside = [word.replace(')', "x)"), word.replace("src", "dst"), word.replace("dst", "src")];
        let shorter = word.rsplit_once(',').map(|(shorter, _)| shorter.to_owned());
        let alternatives = listed.iter().filter(|_| listed.contains(word)).map(|other| (*other).to_owned());
        for other in others
            .chain(longer)
            .chain(inside)
            .chain(shorter)
            .chain(alternatives)
            .filter(|other| *other != **word)
        {
            let mut changed = words.clone();
            changed[at] = &other;
            all.push(changed.join(" "));
        }
    }
    all
}

/// Words with a variation that has the same meaning as the example, with the reason.
const SAME_ARGUMENTS: &[(&str, &str)] = &[
    ("Bind npn", "not supported, and ignored with a warning"),
    ("Server npn", "not supported, and ignored with a warning"),
    ("Load sctl", "not supported, and ignored with a warning"),
    ("Healthcheck http-check comment", "the comment of a rule that would follow"),
    ("Healthcheck tcp-check comment", "the comment of a rule that would follow"),
    ("Proxy http-check comment", "the comment of a rule that would follow"),
    ("Proxy tcp-check comment", "the comment of a rule that would follow"),
    ("Action return", "a keyword is written twice then, and the last one counts"),
    ("Proxy outlier-ejection", "a keyword is written twice then, and the last one counts"),
];

/// Words without a valid variation, with the reason. Their presence changes the fingerprint. The manual's table has more such lines.
const NOT_VARIED: &[(&str, &str)] = &[
    ("Action lua.<name>", "it needs a script"),
    ("Filter lua.<name>", "it needs a script"),
    ("Global lua-load", "it needs a script"),
    ("Global lua-load-per-thread", "it needs a script"),
    ("Global tune.lua.bool-sample-conversion", "there is one argument, or none"),
    ("Action do-log", "there is one argument, or none"),
    ("Action expect-proxy", "there is one argument, or none"),
    ("Action use-service", "there is one argument, or none"),
    ("Bind expose-fd", "there is one argument, or none"),
    ("Bind ktls", "there is one argument, or none"),
    ("Server ktls", "there is one argument, or none"),
    ("Global external-check", "there is one argument, or none"),
    ("Global master-worker", "there is one argument, or none"),
    ("Option tcplog", "there is one argument, or none"),
    ("Proxy persist", "there is one argument, or none"),
    ("Server on-marked-down", "there is one argument, or none"),
    ("Server on-marked-up", "there is one argument, or none"),
    ("Global thread-groups", "there is one argument, or none"),
    ("Global tune.fd.edge-triggered", "there is one argument, or none"),
    ("Global h1-case-adjust", "the arguments of the example belong together"),
    ("Global dns-accept-family", "the arguments of the example belong together"),
    ("Global set-dumpable", "the arguments of the example belong together"),
    ("Global ssl-default-server-options", "the arguments of the example belong together"),
    ("Global ssl-provider", "the arguments of the example belong together"),
    ("Bind ca-ignore-err", "the arguments of the example belong together"),
    ("Proxy tcp-request session", "the arguments of the example belong together"),
    ("Ring format", "the arguments of the example belong together"),
    ("Peers default-server", "the arguments of the example belong together"),
    ("Action send-spoe-group", "the example has the only object that can be named"),
    ("Server healthcheck", "the example has the only object that can be named"),
    ("SpoeAgent groups", "the example has the only object that can be named"),
    ("SpoeAgent messages", "the example has the only object that can be named"),
    ("SpoeAgent use-backend", "the example has the only object that can be named"),
    ("SpoeGroup messages", "the example has the only object that can be named"),
    ("Filter fcgi-app", "the example has the only object that can be named"),
    ("Proxy use-fcgi-app", "the example has the only object that can be named"),
    ("Server resolvers", "the example has the only object that can be named"),
    ("Server track", "the example has the only object that can be named"),
    ("SpoeMessage event", "there are eight names that do not resemble each other"),
    ("Filter spoe", "the example names the only engine and the only file"),
    ("Global h1-case-adjust-file", "the example names a file that is missing"),
    ("HttpErrors errorfile", "the example names a file that is missing"),
    ("Proxy errorfile", "the example names a file that is missing"),
];

/// Lines of the manual's table with different meanings have different fingerprints. Two lines have the same meaning if the debug forms of
/// their configurations, which contain every field, are equal.
#[test]
fn manual_lines_with_different_meanings_have_different_fingerprints() {
    let mut forms: BTreeMap<(&str, &str), FingerprintForms<'_>> = BTreeMap::new();
    let (mut rows, mut faults) = (0, Vec::new());
    for row in include_str!("../../tests/manual.tsv").lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, place, line, "ok" | "warning", _, _] = columns[..] else { continue };
        let text = crate::manual::written(place, line);
        let (Some(objects), Some(understood)) = (objects(&text), crate::manual::understood(&text)) else {
            continue;
        };
        rows += 1;
        let fingerprint = objects.iter().fold(0u128, |sum, object| {
            sum.wrapping_mul(31).wrapping_add(object.form.fingerprint.0 ^ name_hash(&object.name.to_string()))
        });
        let known = forms.entry((place, line.split(' ').next().unwrap_or_default())).or_default();
        let understood = without_places(&understood);
        let (former, other) = known.entry(fingerprint).or_insert_with(|| (understood.clone(), line));
        if *former != understood
            && !SAME_MEANING.iter().any(|(a, b, _)| [(*a, *b), (*b, *a)].contains(&(line, *other)))
        {
            faults.push(format!(
                "{place}: '{line}' and '{other}' have one fingerprint\n  {}",
                first_difference(former, &understood)
            ));
        }
    }
    assert!(rows > 1500, "{rows} rows");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The debug form and the line, by fingerprint.
type FingerprintForms<'l> = BTreeMap<u128, (String, &'l str)>;

/// Lines with the same meaning but different parsed forms, with the reason.
const SAME_MEANING: &[(&str, &str, &str)] =
    &[("default-server weight 5", "default-server", "no server follows in the section")];

fn name_hash(name: &str) -> u128 {
    name.bytes().fold(7, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3).wrapping_add(u128::from(byte)))
}

/// A debug form without line positions and pattern identifiers, which differ in each run.
fn without_places(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) =
        ["t.cfg:", "Entry { id: "].iter().filter_map(|mark| Some(rest.find(mark)? + mark.len())).min()
    {
        kept.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    kept.push_str(rest);
    kept
}

fn first_difference(one: &str, two: &str) -> String {
    let at = one.bytes().zip(two.bytes()).position(|(a, b)| a != b).unwrap_or(one.len().min(two.len()));
    let cut = |text: &str| {
        let begin = (0..=at.saturating_sub(60)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let end = (at + 60..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text[begin..end].to_owned()
    };
    format!("{}\n  {}", cut(one), cut(two))
}
