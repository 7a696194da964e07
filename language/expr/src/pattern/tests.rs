//! Sets that the runtime API changes, and indexes compared with a plain scan.

use std::io;

use proptest::prelude::*;
use weir_syntax::Files;

use super::*;
use crate::sample::Value;

struct File(&'static str);

impl Files for File {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        if path == "file" { Ok(self.0.into()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

fn map(content: &'static str) -> std::sync::Arc<PatternSet> {
    PatternStore::new().named("file", true, &File(content)).unwrap()
}

/// A location for rules of the tests.
fn at() -> crate::Location {
    crate::Location::new("t.cfg".into(), 1)
}

/// The value that a lookup finds.
fn value(index: &PatternIndex, subject: &str) -> Option<String> {
    index.find(&Value::str(subject.as_bytes()), |found| {
        String::from_utf8(found.entry.value().unwrap_or_default()).unwrap()
    })
}

#[test]
fn a_map_can_be_changed_while_it_is_used() {
    let set = map("a 1\nb 2\na 3\n");
    let index = set.index(MatchMethod::Str, false, &at()).unwrap();
    assert_eq!(value(&index, "a").as_deref(), Some("1"));
    set.add(None, b"c", Some(b"4")).unwrap();
    assert_eq!(value(&index, "c").as_deref(), Some("4"));
    assert_eq!(set.set(Selector::Pattern(b"a"), b"9"), Ok(2));
    assert_eq!(value(&index, "a").as_deref(), Some("9"));
    let first = set.entries(None).unwrap()[0].id();
    assert_eq!(set.delete(Selector::Id(first)), Ok(1));
    assert_eq!(value(&index, "a").as_deref(), Some("9"), "the second one of that name is left");
    assert_eq!(set.delete(Selector::Pattern(b"a")), Ok(1));
    assert_eq!(value(&index, "a"), None);
    assert_eq!(set.delete(Selector::Pattern(b"a")), Err(SetError::NotFound));
    assert_eq!(set.add(None, b"c", None), Err(SetError::Value));
    assert_eq!(set.len(), 2);
    set.clear(None).unwrap();
    assert_eq!(value(&index, "b"), None);
    assert!(set.is_empty());
}

#[test]
fn a_large_map_is_changed_by_key() {
    let set = PatternStore::new().named("virt@large", true, &File("")).unwrap();
    let index = set.index(MatchMethod::Str, false, &at()).unwrap();
    for number in 0..1000 {
        set.add(None, format!("key{}", number % 500).as_bytes(), Some(b"old")).unwrap();
    }
    assert!(set.contains(b"key7"));
    assert_eq!(set.set(Selector::Pattern(b"key7"), b"new"), Ok(2));
    set.add(None, b"key7", Some(b"last")).unwrap();
    assert_eq!(set.set(Selector::Pattern(b"key7"), b"new"), Ok(3));
    for number in 0..400 {
        let expected = if number == 7 { 3 } else { 2 };
        assert_eq!(set.delete(Selector::Pattern(format!("key{number}").as_bytes())), Ok(expected));
    }
    assert!(!set.contains(b"key7"));
    assert_eq!((value(&index, "key399"), value(&index, "key400").as_deref()), (None, Some("old")));
    assert_eq!(set.len(), 200);
    let id = set.entries(None).unwrap()[0].id();
    assert_eq!(set.delete(Selector::Id(id)), Ok(1));
    assert_eq!(set.delete(Selector::Id(id)), Err(SetError::NotFound));
}

#[test]
fn entries_of_an_unchanged_list_are_found_by_key() {
    let patterns = (0..500).map(|number| format!("key{}", number % 250).into_bytes()).collect();
    let set = PatternStore::new().anonymous(None, patterns).unwrap();
    let index = set.index(MatchMethod::Str, false, &at()).unwrap();
    assert!(set.contains(b"key7") && !set.contains(b"key250"));
    assert_eq!(set.delete(Selector::Pattern(b"key7")), Ok(2));
    assert!(!set.contains(b"key7") && !index.matches(&Value::str(b"key7")));
}

/// Changes of a large set leave sweeping and the index by text to `tidy`. Lookups still work.
#[test]
fn changing_a_large_set_defers_cleanup_to_tidy() {
    const ALL: usize = 20_000;
    let set = PatternStore::new().named("virt@large", true, &File("")).unwrap();
    let index = set.index(MatchMethod::Beg, false, &at()).unwrap();
    let key = |number: usize| format!("key{number}/").into_bytes();
    for number in 0..ALL {
        set.add(None, &key(number), Some(b"v")).unwrap();
    }
    let _ = take_untidy();
    assert_eq!(set.set(Selector::Pattern(&key(7)), b"w"), Ok(1));
    assert!(take_untidy() && !set.has_index_by_pattern(), "looked for among all");
    set.tidy();
    assert!(set.has_index_by_pattern());
    set.add(None, &key(7), Some(b"second")).unwrap();
    assert_eq!(set.delete(Selector::Pattern(&key(7))), Ok(2), "later entries are found by it, too");

    let witness = std::sync::Arc::downgrade(&set.entries(None).unwrap()[8]);
    for number in 8..ALL / 2 {
        assert_eq!(set.delete(Selector::Pattern(&key(number))), Ok(1));
    }
    assert!(take_untidy() && witness.upgrade().is_some(), "not swept by the call that deleted");
    assert_eq!((set.len(), set.entries(None).unwrap().len()), (7 + ALL / 2, 7 + ALL / 2));
    set.tidy();
    while free_some(1_000) {}
    assert!(witness.upgrade().is_none(), "an index still holds it");
    assert_eq!((set.len(), set.entries(None).unwrap().len()), (7 + ALL / 2, 7 + ALL / 2));
    assert_eq!(value(&index, "key9/x"), None);
    assert_eq!(value(&index, "key6/x").as_deref(), Some("v"));
    assert_eq!(value(&index, &format!("key{}/x", ALL - 1)).as_deref(), Some("v"));
    let last = set.entries(None).unwrap().last().unwrap().id();
    assert_eq!(set.delete(Selector::Id(last)), Ok(1));
    assert_eq!(set.delete(Selector::Id(last)), Err(SetError::NotFound));
    assert_eq!(visited(&set, 0, last), (None, Vec::new()));
}

/// Additions, deletions and replacements during `tidy` have their usual effect.
#[test]
fn a_set_may_change_during_tidy() {
    const ALL: usize = 10_000;
    let set = PatternStore::new().named("virt@busy", false, &File("")).unwrap();
    let index = set.index(MatchMethod::End, false, &at()).unwrap();
    let key = |number: usize| format!("/key{number}").into_bytes();
    for number in 0..ALL {
        set.add(None, &key(number), None).unwrap();
    }
    std::thread::scope(|scope| {
        let tidying = scope.spawn(|| (0..20).for_each(|_| set.tidy()));
        for number in 0..ALL {
            if number % 2 == 0 {
                assert_eq!(set.delete(Selector::Pattern(&key(number))), Ok(1));
            }
            if number % 100 == 0 {
                set.add(None, &key(ALL + number), None).unwrap();
            }
        }
        tidying.join().unwrap();
    });
    set.tidy();
    assert_eq!(set.len(), ALL / 2 + ALL / 100);
    let matches = |number: usize| index.matches(&Value::Str(key(number).into()));
    assert!((0..ALL).all(|number| matches(number) == (number % 2 != 0)));
    assert!((0..ALL).step_by(100).all(|number| matches(ALL + number)));
    let version = set.prepare();
    set.add(Some(version), &key(3), None).unwrap();
    assert!(set.contains(&key(5)));
    set.commit(version).unwrap();
    set.tidy();
    assert!(set.contains(&key(3)) && !set.contains(&key(5)));
}

#[test]
fn a_committed_version_replaces_all_entries() {
    let set = map("a 1\n");
    let index = set.index(MatchMethod::Str, false, &at()).unwrap();
    let version = set.prepare();
    set.add(Some(version), b"b", Some(b"2")).unwrap();
    assert_eq!(value(&index, "b"), None, "not before it is committed");
    assert_eq!(set.entries(Some(version)).unwrap().len(), 1);
    assert_eq!(set.len(), 2);
    let (last, prepared) = visited(&set, version, 0);
    assert_eq!(prepared, ["b"]);
    assert_eq!(visited(&set, version, last.unwrap()), (None, Vec::new()));
    assert_eq!(visited(&set, 77, 0), (None, Vec::new()));
    let abandoned = set.prepare();
    set.commit(version).unwrap();
    assert_eq!((value(&index, "a"), value(&index, "b").as_deref()), (None, Some("2")));
    assert_eq!(set.versions(), (version, abandoned));
    assert_eq!(set.commit(version), Err(SetError::NoSuchVersion));
    assert_eq!(set.add(Some(99), b"x", Some(b"")), Err(SetError::NoSuchVersion));
    set.clear(Some(abandoned)).unwrap();
    set.commit(abandoned).unwrap();
    assert!(set.is_empty());
}

#[test]
fn entries_of_a_version_in_preparation_are_changed_and_deleted() {
    let set = map("a 1\n");
    let index = set.index(MatchMethod::Str, false, &at()).unwrap();
    let number = set.prepare();
    let version = Some(number);
    let found = |key: &[u8]| set.find_in(version, key).and_then(|entry| entry.value());
    assert_eq!(set.set_in(version, Selector::Pattern(b"a"), b"2"), Err(SetError::NotFound));
    set.set_or_add(version, b"a", b"2").unwrap();
    set.set_or_add(version, b"b", b"3").unwrap();
    set.set_or_add(version, b"a", b"4").unwrap();
    assert_eq!((found(b"a"), found(b"b")), (Some(b"4".to_vec()), Some(b"3".to_vec())));
    assert_eq!((value(&index, "a").as_deref(), set.len()), (Some("1"), 3), "the current version stays");
    assert_eq!(set.delete_in(version, Selector::Pattern(b"b")), Ok(1));
    assert_eq!(set.delete_in(version, Selector::Pattern(b"b")), Err(SetError::NotFound));
    assert_eq!((found(b"b"), set.len()), (None, 2));
    set.commit(number).unwrap();
    assert_eq!((value(&index, "a").as_deref(), value(&index, "b"), set.len()), (Some("4"), None, 1));
}

#[test]
fn an_abandoned_version_cannot_be_committed() {
    let set = map("a 1\n");
    let version = set.prepare();
    set.add(Some(version), b"b", Some(b"2")).unwrap();
    set.abandon(version);
    set.abandon(version);
    assert_eq!(set.commit(version), Err(SetError::NoSuchVersion));
    assert_eq!((set.len(), set.find_in(Some(version), b"b").is_none()), (1, true));
}

/// The patterns of one visit, and the identifier from which to continue.
fn visited(set: &PatternSet, version: u32, after: u64) -> (Option<u64>, Vec<String>) {
    let mut patterns = Vec::new();
    let last = set.visit(version, after, |entry| {
        patterns.push(String::from_utf8(entry.pattern().to_vec()).unwrap());
        true
    });
    (last, patterns)
}

/// One lock covers a bounded number of entries. Each entry is visited once, whatever changes between two visits.
#[test]
fn visits_of_entries_are_bounded_and_continue_after_changes() {
    const AT_ONCE: usize = set::VISITED_AT_ONCE;
    let set = PatternStore::new().named("virt@visited", false, &File("")).unwrap();
    let key = |number: usize| format!("key{number}");
    (0..2 * AT_ONCE).for_each(|number| set.add(None, key(number).as_bytes(), None).unwrap());
    let (last, first) = visited(&set, 0, 0);
    assert_eq!(first, (0..AT_ONCE).map(key).collect::<Vec<_>>());

    // Deleted before and after the current position, swept, and added.
    for number in (0..AT_ONCE).chain(AT_ONCE..AT_ONCE + 10) {
        assert_eq!(set.delete(Selector::Pattern(key(number).as_bytes())), Ok(1));
    }
    set.add(None, b"late", None).unwrap();
    let mut last = last.unwrap();
    let mut rest = Vec::new();
    while let (Some(next), patterns) = visited(&set, 0, last) {
        (last, rest) = (next, [rest, patterns].concat());
    }
    let expected = (AT_ONCE + 10..2 * AT_ONCE).map(key).chain(["late".to_owned()]);
    assert_eq!(rest, expected.collect::<Vec<_>>());

    // After a visit that the caller stopped, the next one continues after the last visited entry.
    let mut seen = 0;
    let place = set.visit(0, 0, |_| {
        seen += 1;
        seen < 3
    });
    assert_eq!(
        (seen, &visited(&set, 0, place.unwrap()).1[..2]),
        (3, &[key(AT_ONCE + 13), key(AT_ONCE + 14)][..])
    );

    set.clear(None).unwrap();
    assert_eq!(visited(&set, 0, place.unwrap()), (None, Vec::new()));
    let version = set.prepare();
    set.add(Some(version), b"new", None).unwrap();
    set.commit(version).unwrap();
    assert_eq!(visited(&set, version, place.unwrap()).1, ["new"]);
    assert_eq!(visited(&set, 0, place.unwrap()), (None, Vec::new()), "the version is gone");
}

#[test]
fn an_entry_that_does_not_parse_leaves_the_set_unchanged() {
    let set = map("1:5 low\n");
    let index = set.index(MatchMethod::Int, false, &at()).unwrap();
    assert!(matches!(set.add(None, b"nonsense", Some(b"x")), Err(SetError::Pattern(_))));
    assert_eq!(set.len(), 1);
    let version = set.prepare();
    assert!(set.add(Some(version), b"9:1", Some(b"x")).is_err());
    assert!(index.matches(&Value::Int(3)));
    assert!(set.index(MatchMethod::Ip, false, &at()).unwrap_err().contains("at line 1"));
    assert!(set.check_values(|value| if value == b"low" { Err("no".into()) } else { Ok(()) }).is_err());
}

#[test]
fn a_lookup_reports_each_index_of_a_set() {
    let set = map("AB 1\n");
    set.index(MatchMethod::Str, false, &at()).unwrap();
    set.index(MatchMethod::Beg, true, &at()).unwrap();
    let reports = set.lookup(b"abc");
    assert_eq!(reports[0].found, None);
    assert_eq!(reports[1].found.as_ref().map(|(_, pattern, _)| pattern.as_slice()), Some(&b"AB"[..]));
}

/// `tune.pattern.cache-size`: each lookup is made twice, so that the second one may use the cached result.
#[test]
fn cached_lookups_see_each_change() {
    set_cache_size(1_000);
    let set = PatternStore::new().named("virt@cached", true, &File("")).unwrap();
    let index = set.index(MatchMethod::Reg, false, &at()).unwrap();
    let check = |subject: &str, expected: Option<&str>| {
        for _ in 0..2 {
            assert_eq!(value(&index, subject).as_deref(), expected, "{subject}");
        }
    };
    check("abc", None);
    // Enough entries that a deleted one is not swept at once.
    for number in 0..8 {
        set.add(None, format!("^{number}").as_bytes(), Some(b"")).unwrap();
    }
    set.add(None, b"^ab[cd]", Some(b"1")).unwrap();
    check("abc", Some("1"));
    set.add(None, b"^a", Some(b"2")).unwrap();
    check("abc", Some("1"));
    check("ax", Some("2"));
    assert_eq!(set.set(Selector::Pattern(b"^ab[cd]"), b"3"), Ok(1));
    check("abc", Some("3"));
    assert_eq!(set.delete(Selector::Pattern(b"^ab[cd]")), Ok(1));
    check("abc", Some("2"));
    let version = set.prepare();
    set.add(Some(version), b"c$", Some(b"4")).unwrap();
    check("abc", Some("2"));
    set.commit(version).unwrap();
    check("abc", Some("4"));
    check("ax", None);
    set.clear(None).unwrap();
    check("abc", None);
    check(&"c".repeat(10_000), None);
}

/// A lookup without a result is repeated by the next request, which has a new budget.
#[test]
fn lookups_that_exceed_a_regex_limit_are_not_cached() {
    set_cache_size(1_000);
    let set = PatternStore::new().anonymous(None, vec![b"^(a+)+$".to_vec()]).unwrap();
    let index = set.index(MatchMethod::Reg, false, &at()).unwrap();
    let many_ways = [b"a".repeat(64), b"!".to_vec()].concat();
    let before = regex::limit::met_here();
    for _ in 0..2 {
        let _ = index.matches(&Value::str(&many_ways));
    }
    assert_eq!(regex::limit::met_here(), before + 2);
}

/// Listings of the packaged HAProxy 2.6.
#[test]
fn sets_are_listed_like_haproxy() {
    let fixture = crate::testing::Fixture::new().file("ips", "10.0.0.0/8\n1.2.3.4\n").file("m", "a 1\n");
    for line in [
        "if { path_beg /x /y }",
        "if { ipv4(1.1.1.1) -f ips }",
        "if { ipv4(1.1.1.1) -f ips }",
        "if { str(a) -i -M -f m foo }",
        "if { str(a) -u 77 zz }",
    ] {
        fixture.condition(line).unwrap();
    }
    fixture.parse("str(a),map(m)").unwrap();
    let sets = fixture.patterns.sets();
    let listed: Vec<String> =
        sets.iter().filter(|set| set.is_used_by_acls()).map(|set| set.listing()).collect();
    assert_eq!(
        listed,
        [
            "0 () acl 'path_beg' file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=2",
            "1 (ips) pattern loaded from file 'ips' used by acl at file 'test.cfg' line 7, by acl at file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=2",
            "2 () acl 'ipv4' file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=0",
            "3 () acl 'ipv4' file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=0",
            "4 (m) pattern loaded from file 'm' used by map at file 'test.cfg' line 7, by map at file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=1",
            "5 () acl 'str' file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=1",
            "77 () acl 'str' file 'test.cfg' line 7. curr_ver=0 next_ver=0 entry_cnt=1",
        ]
    );
    let report = &sets[1].lookup(b"10.2.3.4")[0];
    assert_eq!((report.method, report.ignore_case, report.in_tree), (MatchMethod::Ip, false, true));
    assert_eq!(report.found.as_ref().map(|(_, pattern, _)| pattern.as_slice()), Some(&b"10.0.0.0/8"[..]));
}

#[test]
fn file_name_prefixes_select_optional_and_virtual_sets() {
    let store = PatternStore::new();
    assert!(store.named("missing", true, &File("")).is_err());
    assert!(store.named("opt@missing", true, &File("")).unwrap().is_empty());
    assert!(store.named("virt@anything", true, &File("")).unwrap().is_empty());
    let by_path = store.named("file", true, &File("a 1\n")).unwrap();
    let by_prefix = store.named("file@file", true, &File("a 1\n")).unwrap();
    assert_eq!(by_path.number(), by_prefix.number());
    assert!(store.named("file", false, &File("")).is_err(), "a map is no plain list");
    assert_eq!(store.find("file@file").unwrap().number(), by_path.number());
}

/// A file for lookups must exist. A file for changes may be missing (HAProxy loads no file for an action).
#[test]
fn actions_accept_a_missing_pattern_file() {
    let store = PatternStore::new();
    let set = store.changed("missing", true, &File("")).unwrap();
    set.add(None, b"k", Some(b"v")).unwrap();
    assert_eq!(store.changed("file@missing", true, &File("")).unwrap().number(), set.number());
    assert!(
        store
            .named("missing", true, &File(""))
            .unwrap_err()
            .contains("failed to open pattern file <missing>")
    );
    assert!(store.named("file@missing", true, &File("")).is_err());
    assert!(store.changed("missing", false, &File("")).is_err(), "a map is no plain list");
    assert!(store.named("opt@other", true, &File("")).unwrap().is_empty());
    // An existing file is shared by all users.
    let changed = store.changed("file", true, &File("a 1\n")).unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(store.named("file", true, &File("a 1\n")).unwrap().number(), changed.number());
}

#[test]
fn pattern_set_numbers_are_unique() {
    let store = PatternStore::new();
    let forced = store.anonymous(Some(0), Vec::new()).unwrap();
    let next = store.anonymous(None, Vec::new()).unwrap();
    assert_eq!((forced.number(), next.number()), (0, 1));
    assert!(store.anonymous(Some(1), Vec::new()).is_err());
    assert_eq!(store.find_number(1).unwrap().number(), 1);
    assert_eq!(store.sets().len(), 2);
}

/// The index of the entry that a scan finds.
fn scan(method: MatchMethod, ignore_case: bool, patterns: &[String], subject: &str) -> Option<usize> {
    let fold = |text: &str| if ignore_case { text.to_ascii_lowercase() } else { text.to_string() };
    let subject = fold(subject);
    let delimiters: &[char] = if method == MatchMethod::Dir { &['/'] } else { &['/', '.', ':', '?'] };
    let matches = |pattern: &String| {
        let pattern = fold(pattern);
        match method {
            MatchMethod::Str => subject == pattern,
            MatchMethod::Beg => subject.starts_with(&pattern),
            MatchMethod::End => subject.ends_with(&pattern),
            MatchMethod::Sub => subject.contains(&pattern),
            _ => {
                let pattern = pattern.trim_matches(delimiters);
                !pattern.is_empty()
                    && (0..=subject.len().saturating_sub(pattern.len())).any(|at| {
                        subject[at..].starts_with(pattern)
                            && (at == 0 || subject[..at].ends_with(delimiters))
                            && (subject.len() == at + pattern.len()
                                || subject[at + pattern.len()..].starts_with(delimiters))
                    })
            }
        }
    };
    let mut found: Vec<usize> = (0..patterns.len()).filter(|index| matches(&patterns[*index])).collect();
    if method == MatchMethod::Beg {
        found.sort_by_key(|index| (std::cmp::Reverse(patterns[*index].len()), *index));
    }
    found.first().copied()
}

#[derive(Debug, Clone)]
enum SetChange {
    Add(String),
    Delete(usize),
    Clear,
}

fn change() -> impl Strategy<Value = SetChange> {
    prop_oneof![
        6 => "[aB/.]{0,4}".prop_map(SetChange::Add),
        2 => (0usize..20).prop_map(SetChange::Delete),
        1 => Just(SetChange::Clear),
    ]
}

proptest! {
    #[test]
    fn string_indexes_return_the_same_entries_as_a_scan(
        method in prop::sample::select(vec![
            MatchMethod::Str, MatchMethod::Beg, MatchMethod::End, MatchMethod::Sub, MatchMethod::Dir, MatchMethod::Dom,
        ]),
        ignore_case: bool,
        initial in prop::collection::vec("[aB/.]{0,4}", 0..12),
        changes in prop::collection::vec(change(), 0..24),
        subjects in prop::collection::vec("[abB/.]{0,7}", 8),
    ) {
        let store = PatternStore::new();
        let set = store.anonymous(None, initial.iter().map(|text| text.clone().into_bytes()).collect()).unwrap();
        let index = set.index(method, ignore_case, &at()).unwrap();
        let mut model: Vec<(u64, String)> =
            set.entries(None).unwrap().iter().map(|entry| entry.id()).zip(initial).collect();
        for change in [None].into_iter().chain(changes.into_iter().map(Some)) {
            match change {
                None => {}
                Some(SetChange::Add(pattern)) => {
                    set.add(None, pattern.as_bytes(), None).unwrap();
                    model.push((set.entries(None).unwrap().last().unwrap().id(), pattern));
                }
                Some(SetChange::Delete(rank)) if rank < model.len() => {
                    set.delete(Selector::Id(model.remove(rank).0)).unwrap();
                }
                Some(SetChange::Delete(_)) => {}
                Some(SetChange::Clear) => {
                    set.clear(None).unwrap();
                    model.clear();
                }
            }
            let patterns: Vec<String> = model.iter().map(|(_, pattern)| pattern.clone()).collect();
            for subject in &subjects {
                let found = index.find(&Value::str(subject.as_bytes()), |found| found.entry.id());
                let expected = scan(method, ignore_case, &patterns, subject).map(|index| model[index].0);
                prop_assert_eq!(found, expected, "{:?} in {:?}", subject, patterns);
            }
        }
    }

    /// With or without a cache, and with enough expressions for a pass over their required strings.
    #[test]
    fn regular_expressions_match_in_list_order(
        patterns in prop::collection::vec("\\^?[aB/]{1,3}(\\[a/\\]|\\.|b\\*|\\(a\\|b\\)\\?){0,2}\\$?", 0..20),
        ignore_case: bool,
        cached: bool,
        subjects in prop::collection::vec("[abB/]{0,5}", 20),
    ) {
        set_cache_size(1_000);
        // Subjects longer than the cache accepts.
        let end = "z".repeat(if cached { 0 } else { 600 });
        let regexes: Vec<_> =
            patterns.iter().map(|text| regex::Regex::new(text, ignore_case, &at()).unwrap()).collect();
        let store = PatternStore::new();
        let set = store.anonymous(None, patterns.into_iter().map(String::into_bytes).collect()).unwrap();
        let index = set.index(MatchMethod::Reg, ignore_case, &at()).unwrap();
        for subject in subjects {
            let subject = (subject + &end).into_bytes();
            let found = index.find(&Value::str(&subject), |found| found.entry.pattern().to_vec());
            let expected = regexes.iter().find(|regex| regex.is_match(&subject));
            prop_assert_eq!(found, expected.map(|regex| regex.text().as_bytes().to_vec()));
        }
    }

    /// Lists that are compared one by one, and those with an index.
    #[test]
    fn small_and_large_network_lists_find_the_same_entry(
        nets in prop::collection::vec(prop::sample::select(vec![
            "0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/255.0.255.0", "10.1.0.0/16", "10.1.0.0/16", "0.0.0.0/0.0.0.1",
            "10.1.0.1", "::/0", "::ffff:10.1.0.0/112", "2002:a01::/32", "2001:db8::/32",
        ]), 1..=4),
        deleted in 0usize..8,
    ) {
        let others = (0..20).map(|number| format!("203.0.113.{number}"));
        let texts = |padded: bool| {
            let nets = nets.iter().map(|net| net.to_string());
            nets.chain(others.clone().filter(|_| padded)).map(String::into_bytes).collect::<Vec<_>>()
        };
        let found = [false, true].map(|padded| {
            let set = PatternStore::new().anonymous(None, texts(padded)).unwrap();
            let index = set.index(MatchMethod::Ip, false, &at()).unwrap();
            if let Some(entry) = set.entries(None).unwrap().get(deleted).filter(|_| deleted < nets.len()) {
                set.delete(Selector::Id(entry.id())).unwrap();
            }
            ["10.1.0.1", "10.1.0.2", "10.2.0.4", "9.9.9.8", "::ffff:10.1.0.1", "2002:a01:1::", "2001:db8::1", "fe80::1"].map(|address| {
                let address = Value::from(address.parse::<std::net::IpAddr>().unwrap());
                index.find(&address, |found| found.entry.pattern().to_vec())
            })
        });
        prop_assert_eq!(&found[0], &found[1]);
    }

    #[test]
    fn number_indexes_return_the_same_entries_as_a_scan(
        ranges in prop::collection::vec((0i64..20, 0i64..3), 0..12),
        singles: bool,
        subject in 0i64..25,
    ) {
        let text = |(low, length): &(i64, i64)| match singles {
            true => low.to_string(),
            false => format!("{low}:{}", low + length),
        };
        let store = PatternStore::new();
        let set = store.anonymous(None, ranges.iter().map(|range| text(range).into_bytes()).collect()).unwrap();
        let index = set.index(MatchMethod::Int, false, &at()).unwrap();
        let found = index.find(&Value::Int(subject), |found| found.entry.pattern().to_vec());
        let holds = |(low, length): &&(i64, i64)| *low <= subject && subject <= if singles { *low } else { low + length };
        prop_assert_eq!(found, ranges.iter().find(holds).map(|range| text(range).into_bytes()));
    }
}
