//! Implements the runtime API's operations on maps and ACL files.

use std::sync::Arc;

use weir_cli::target::{
    Found, ListPosition, Lookup, Pattern, PatternKind, PatternSet as SetView, PatternTarget, SetKey,
    VersionError, Which,
};
use weir_expr::pattern::{LookupReport, PatternSet, Selector};

use super::LiveTarget;

impl LiveTarget {
    fn set(&self, key: SetKey) -> Option<Arc<PatternSet>> {
        self.live.record.patterns.find_number(u32::try_from(key.0).ok()?)
    }
}

/// Whether listings of this kind include the set.
fn is_of(kind: PatternKind, set: &PatternSet) -> bool {
    match kind {
        PatternKind::Map => set.has_values(),
        PatternKind::Acl => set.is_used_by_acls(),
    }
}

fn view(set: &PatternSet) -> SetView {
    let (current_version, next_version) = set.versions();
    SetView {
        id: set.number(),
        file: set.name().map(str::to_owned),
        description: set.description(),
        current_version,
        next_version,
        entries: set.len() as u64,
        has_values: set.has_values(),
    }
}

fn selector(which: Which<'_>) -> Selector<'_> {
    match which {
        Which::Key(key) => Selector::Pattern(key.as_bytes()),
        Which::Number(number) => Selector::Id(number),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl PatternTarget for LiveTarget {
    fn pattern_set(&self, kind: PatternKind, name: &str) -> Option<SetKey> {
        let patterns = &self.live.record.patterns;
        let set = match name.strip_prefix('#') {
            Some(number) => patterns.find_number(number.parse().ok()?),
            None => patterns.find(name),
        }?;
        is_of(kind, &set).then(|| SetKey(u64::from(set.number())))
    }

    fn next_pattern_set(&self, kind: PatternKind, place: &mut ListPosition) -> Option<SetView> {
        loop {
            let next = self.live.record.patterns.next_from(u32::try_from(*place).ok()?)?;
            *place = u64::from(next.number()) + 1;
            if is_of(kind, &next) {
                return Some(view(&next));
            }
        }
    }

    fn pattern_set_view(&self, set: SetKey) -> Option<SetView> {
        Some(view(&*self.set(set)?))
    }

    fn visit_patterns(
        &self,
        set: SetKey,
        version: u32,
        place: &mut ListPosition,
        each: &mut dyn FnMut(Pattern<'_>) -> bool,
    ) -> bool {
        let Some(set) = self.set(set) else { return false };
        let last = set.visit(version, *place, |entry| {
            let key = String::from_utf8_lossy(entry.pattern());
            let mut pass = |value: Option<&str>| each(Pattern { number: entry.id(), key: &key, value });
            match entry.with_value(|value| pass(Some(&String::from_utf8_lossy(value)))) {
                Some(goes_on) => goes_on,
                None => pass(None),
            }
        });
        *place = last.unwrap_or(*place);
        last.is_some()
    }

    fn look_up(&self, set: SetKey, _: PatternKind, value: &str) -> Vec<Lookup> {
        let found = |report: LookupReport| Lookup {
            method: report.method.name(),
            case_sensitive: !report.ignore_case,
            found: report.found.map(|(_, pattern, value)| Found {
                index: if report.in_tree { "tree" } else { "list" },
                pattern: text(&pattern),
                value: value.map(|value| (text(&value), "str")),
            }),
        };
        let reports = self.set(set).map(|set| set.lookup(value.as_bytes())).unwrap_or_default();
        reports.into_iter().map(found).collect()
    }

    fn add_pattern(
        &mut self,
        set: SetKey,
        version: u32,
        key: &str,
        value: Option<&str>,
    ) -> Result<(), String> {
        let set = self.set(set).ok_or("The set is gone.")?;
        set.add(Some(version), key.as_bytes(), value.map(str::as_bytes)).map_err(|error| error.to_string())
    }

    fn set_pattern(&mut self, set: SetKey, which: Which<'_>, value: &str) -> bool {
        self.set(set).is_some_and(|set| set.set(selector(which), value.as_bytes()).is_ok())
    }

    fn delete_pattern(&mut self, set: SetKey, which: Which<'_>) -> bool {
        self.set(set).is_some_and(|set| set.delete(selector(which)).is_ok())
    }

    fn clear_patterns(&mut self, set: SetKey, version: u32) {
        if let Some(set) = self.set(set) {
            // If the version does not exist, it is already empty.
            let _ = set.clear(Some(version));
        }
    }

    fn prepare_version(&mut self, set: SetKey) -> u32 {
        self.set(set).map_or(0, |set| set.prepare())
    }

    fn commit_version(&mut self, set: SetKey, version: u32) -> Result<(), VersionError> {
        let set = self.set(set).ok_or(VersionError::OutOfRange)?;
        set.commit(version).map_err(|_| VersionError::OutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{run_command, with_live};
    use crate::LiveProcess;

    #[track_caller]
    fn check(live: &LiveProcess, command: &str, expected: &str) {
        assert_eq!(run_command(live, command), format!("{expected}\n"), "{command}");
    }

    /// The entries of a set, without their numbers.
    fn entries(live: &LiveProcess, command: &str) -> Vec<String> {
        let answer = run_command(live, command);
        let rest = |line: &str| line.split_once(' ').map(|(_, rest)| rest.to_owned());
        answer.lines().filter_map(rest).collect()
    }

    #[test]
    fn show_map_and_show_acl_list_the_files_like_haproxy() {
        with_live(|live| {
            check(
                &live,
                "show map",
                "# id (file) description\n3 (m.map) pattern loaded from file 'm.map' used by map at file 't.cfg' line \
                 22. curr_ver=0 next_ver=0 entry_cnt=2\n",
            );
            check(
                &live,
                "show acl",
                "# id (file) description\n\
                 0 () acl 'path' file 't.cfg' line 18. curr_ver=0 next_ver=0 entry_cnt=1\n\
                 1 (a.lst) pattern loaded from file 'a.lst' used by acl at file 't.cfg' line 19. curr_ver=0 next_ver=0 \
                 entry_cnt=2\n\
                 2 () acl 'path' file 't.cfg' line 19. curr_ver=0 next_ver=0 entry_cnt=0\n",
            );
        });
    }

    #[test]
    fn map_and_acl_values_are_looked_up_by_get_map_and_get_acl() {
        with_live(|live| {
            check(
                &live,
                "get acl a.lst /x",
                "type=str, case=sensitive, match=yes, idx=tree, pattern=\"/x\"\n",
            );
            check(
                &live,
                "get map m.map /k1",
                "type=str, case=sensitive, found=yes, idx=tree, key=\"/k1\", value=\"v1\", type=\"str\"\n",
            );
            check(&live, "get map #3 /kz", "type=str, case=sensitive, found=no\n");
            check(&live, "get map a.lst /x", "Unknown map identifier. Please use #<id> or <file>.\n");
        });
    }

    #[test]
    fn map_and_acl_commands_add_change_and_delete_entries() {
        with_live(|live| {
            check(&live, "add map m.map /k3 v3", "");
            check(&live, "set map m.map /k1 other", "");
            check(&live, "del map m.map /k2", "");
            check(&live, "del map m.map /k2", "Key not found.\n");
            assert_eq!(entries(&live, "show map m.map"), ["/k1 other", "/k3 v3"]);
            check(&live, "add acl a.lst /z", "");
            assert_eq!(entries(&live, "show acl #1"), ["/x", "/y", "/z"]);
            check(&live, "clear acl a.lst", "");
            assert!(entries(&live, "show acl a.lst").is_empty());
        });
    }

    #[test]
    fn a_committed_map_version_replaces_all_entries() {
        with_live(|live| {
            check(&live, "prepare map m.map", "New version created: 1\n");
            check(&live, "add map @1 m.map /n new", "");
            assert_eq!(entries(&live, "show map m.map"), ["/k1 v1", "/k2 v2"]);
            assert_eq!(entries(&live, "show map @1 m.map"), ["/n new"]);
            check(&live, "commit map @1 m.map", "");
            assert_eq!(entries(&live, "show map m.map"), ["/n new"]);
            check(&live, "commit map @1 m.map", "Version number out of range.\n");
        });
    }
}
