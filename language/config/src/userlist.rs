//! `userlist` sections: users, their passwords, and their groups (manual, section "Userlists").
//!
//! Either side may declare membership: `group g users a,b` or `user a groups g`. Both are joined at the end of the section, so the order
//! of lines does not matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, Span};

use crate::rows::{Handler, Row, Table};
use crate::words::{Parsed, Words, fault, none_of};
use weir_model::password::{HashError, Password, PasswordHash};
use weir_model::{Location, User, Userlist};

/// Reads the lines of a `userlist` section.
#[derive(Debug)]
pub(crate) struct UserlistReader {
    list: Userlist,
    groups: BTreeMap<Box<str>, Vec<(Box<str>, Span)>>,
    memberships: Vec<(Box<str>, Box<str>, Span)>,
}

/// Reads one line of a `userlist` section.
pub(crate) type UserlistKeyword = fn(&mut OpenUserlist<'_>, &mut Words<'_>) -> Parsed;

/// Every word of a `userlist` section.
pub(crate) static USERLIST_KEYWORDS: Table<UserlistKeyword> = Table::new(&[ROWS]);

const ROWS: &[Row<UserlistKeyword>] = &[
    Row::ready(
        "group",
        "<name> [users <user>,<user>,(...)]",
        "g users a,b",
        "a group and its members",
        |entries, words| entries.group(words),
    ),
    Row::ready(
        "user",
        "<name> [password|insecure-password <password>] [groups <group>,<group>,(...)]",
        "a insecure-password secret groups g",
        "a user, the password and the groups",
        |entries, words| entries.user(words),
    ),
];

/// A section during parsing, and the receiver of warnings.
#[derive(Debug)]
pub(crate) struct OpenUserlist<'r> {
    reader: &'r mut UserlistReader,
    diagnostics: &'r mut Diagnostics,
}

impl UserlistReader {
    pub(crate) fn new(name: &str, at: Location) -> Self {
        let list = Userlist { name: name.into(), at, users: BTreeMap::new() };
        Self { list, groups: BTreeMap::new(), memberships: Vec::new() }
    }

    pub(crate) fn line(&mut self, line: &Line, diagnostics: &mut Diagnostics) {
        let keyword = line.keyword();
        let Some(row) = USERLIST_KEYWORDS.find(keyword.text()) else {
            let message = format!("unknown keyword '{keyword}' in 'userlist' section");
            let nearest = USERLIST_KEYWORDS.nearest(keyword.text());
            diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
            return;
        };
        let Handler::Ready(read) = row.handler else { return };
        let mut entries = OpenUserlist { reader: self, diagnostics };
        if let Err(fault) = read(&mut entries, &mut Words::new(line, 1)) {
            diagnostics.push(*fault);
        }
    }

    /// The names of the section's groups, including those without members.
    pub(crate) fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(|name| &**name)
    }

    /// Joins users and groups.
    pub(crate) fn end(mut self, diagnostics: &mut Diagnostics) -> Userlist {
        for (user, group, span) in std::mem::take(&mut self.memberships) {
            if !self.groups.contains_key(&group) {
                let message = format!(
                    "userlist '{}': no such group '{group}' specified in user '{user}'",
                    self.list.name
                );
                diagnostics.alert(span, message);
            } else if let Some(user) = self.list.users.get_mut(&user) {
                user.groups.push(group);
            }
        }
        for (group, members) in std::mem::take(&mut self.groups) {
            for (member, span) in members {
                match self.list.users.get_mut(&member) {
                    Some(user) => user.groups.push(group.clone()),
                    None => {
                        let name = &self.list.name;
                        let message = format!(
                            "userlist '{name}': no such user '{member}' specified in group '{group}'"
                        );
                        diagnostics.alert(span, message);
                    }
                }
            }
        }
        for user in self.list.users.values_mut() {
            user.groups.sort();
            user.groups.dedup();
        }
        self.list
    }
}

impl OpenUserlist<'_> {
    fn user(&mut self, words: &mut Words<'_>) -> Parsed {
        let name = words.expect("'user' expects <name> as arguments.")?;
        if self.reader.list.users.contains_key(name.text()) {
            self.ignore_duplicate("user", name.text(), name.span());
            return Ok(());
        }
        let mut user = User { password: None, groups: Vec::new() };
        while let Some(word) = words.take() {
            match word.text() {
                "password" => {
                    let hash = words.expect("'password' expects a hash as argument.")?;
                    user.password = Some(hashed(hash.text(), hash.span(), self.diagnostics)?);
                }
                "insecure-password" => {
                    let clear = words.expect("'insecure-password' expects a password as argument.")?;
                    user.password = Some(Password::Clear(clear.bytes().into()));
                }
                "groups" => {
                    let groups = words.expect("'groups' expects a list of groups as argument.")?;
                    for group in names(groups.text()) {
                        self.reader.memberships.push((name.text().into(), group.into(), groups.span()));
                    }
                }
                _ => {
                    let message =
                        "'user' only supports 'password', 'insecure-password' and 'groups' options.";
                    return Err(none_of(word, message, ["password", "insecure-password", "groups"]));
                }
            }
        }
        self.reader.list.users.insert(name.text().into(), user);
        Ok(())
    }

    fn group(&mut self, words: &mut Words<'_>) -> Parsed {
        let name = words.expect("'group' expects <name> as arguments.")?;
        if let Some(stranger) = name.text().chars().find(|c| !crate::words::is_name_character(*c)) {
            let message = format!("character '{stranger}' is not permitted in 'group' name '{name}'.");
            return Err(crate::words::tight(fault(name.span(), message)));
        }
        if self.reader.groups.contains_key(name.text()) {
            self.ignore_duplicate("group", name.text(), name.span());
            return Ok(());
        }
        let mut members = Vec::new();
        while let Some(word) = words.take() {
            if !word.is("users") {
                return Err(fault(word.span(), "'group' only supports 'users' option."));
            }
            let users = words.expect("'users' expects a list of users as argument.")?;
            members.extend(names(users.text()).map(|user| (user.into(), users.span())));
        }
        self.reader.groups.insert(name.text().into(), members);
        Ok(())
    }

    fn ignore_duplicate(&mut self, kind: &str, name: &str, span: Span) {
        let message = format!("ignoring duplicated {kind} '{name}' in userlist '{}'.", self.reader.list.name);
        self.diagnostics.push(Diagnostic::warning(span, message).layout(Layout::ParsingTight));
    }
}

/// The elements of a comma-separated list, without empty ones.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|name| !name.is_empty())
}

fn hashed(text: &str, span: Span, diagnostics: &mut Diagnostics) -> Parsed<Password> {
    match PasswordHash::parse(text) {
        Ok(hash) => Ok(Password::Hashed(Arc::new(hash))),
        Err(HashError::Malformed) => {
            let message = "'password' : malformed hash, which no password matches";
            diagnostics.push(Diagnostic::warning(span, message));
            Ok(Password::Never)
        }
        Err(HashError::Unknown) => {
            let message = "'password' : this kind of hash is not supported, only '$1$' (MD5), '$5$' (SHA-256) and '$6$' (SHA-512) are";
            let mut fault = fault(span, message);
            fault.note = Some("use 'insecure-password' for a plaintext password".into());
            Err(fault)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_syntax::{Environment, LineReader, SourceMap, StaticFeatures};

    fn read(text: &str) -> (Userlist, Vec<String>) {
        let mut sources = SourceMap::new();
        sources.add("u.cfg", text.as_bytes().to_vec());
        let mut diagnostics = Diagnostics::new();
        let mut lines = LineReader::new(&sources);
        let mut reader = UserlistReader::new("u", Location::default());
        while let Some(line) =
            lines.next_line(&Environment::new(), &StaticFeatures::default(), &mut diagnostics)
        {
            reader.line(&line, &mut diagnostics);
        }
        let list = reader.end(&mut diagnostics);
        (list, diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&sources)).collect())
    }

    /// The two example lists of the manual are equal.
    #[test]
    fn accepts_group_membership_on_group_or_user_lines() {
        let hash = "$1$abc$iCQ2D3nhptRYi27fDYv2s1";
        let (first, messages) = read(&format!(
            "group G1 users tiger,scott\ngroup G2 users xdb,scott\nuser tiger password {hash}\n\
             user scott insecure-password elgato\nuser xdb insecure-password hello\n"
        ));
        assert!(messages.is_empty(), "{messages:?}");
        let (second, messages) = read(&format!(
            "group G1\ngroup G2\nuser tiger password {hash} groups G1\n\
             user scott insecure-password elgato groups G1,G2\nuser xdb insecure-password hello groups G2\n"
        ));
        assert!(messages.is_empty(), "{messages:?}");
        assert_eq!(first.users, second.users);
        assert!(first.authenticate("tiger", b"secret"));
        assert!(!first.authenticate("tiger", b"elgato"));
        assert!(first.authenticate("scott", b"elgato"));
        assert!(!first.authenticate("nobody", b""));
        assert!(first.is_member("scott", "G2"));
        assert!(!first.is_member("tiger", "G2"));
    }

    #[test]
    fn userlist_errors_have_haproxys_messages() {
        let (_, messages) = read(
            "user\nuser x\nuser x foo\nuser y foo\nuser z password elgato\ngroup\ngroup g users nosuch\ngroup g\n\
             group i foo\nfoo\nuser w groups nosuch\nusr x\n",
        );
        assert_eq!(
            messages,
            [
                "parsing [u.cfg:1] : 'user' expects <name> as arguments.",
                "parsing [u.cfg:3]: ignoring duplicated user 'x' in userlist 'u'.",
                "parsing [u.cfg:4] : 'user' only supports 'password', 'insecure-password' and 'groups' options.",
                "parsing [u.cfg:5] : 'password' : this kind of hash is not supported, only '$1$' (MD5), '$5$' (SHA-256) \
                 and '$6$' (SHA-512) are",
                "parsing [u.cfg:6] : 'group' expects <name> as arguments.",
                "parsing [u.cfg:8]: ignoring duplicated group 'g' in userlist 'u'.",
                "parsing [u.cfg:9] : 'group' only supports 'users' option.",
                "parsing [u.cfg:10] : unknown keyword 'foo' in 'userlist' section",
                "parsing [u.cfg:12] : unknown keyword 'usr' in 'userlist' section; did you mean 'user' maybe ?",
                "parsing [u.cfg:11] : userlist 'u': no such group 'nosuch' specified in user 'w'",
                "parsing [u.cfg:7] : userlist 'u': no such user 'nosuch' specified in group 'g'",
            ]
        );
    }
}
