//! The uses of a list in a configuration, as the runtime API shows them.

use std::fmt;

use crate::location::Location;

/// The uses of one set, in the order of the configuration.
#[derive(Debug, Default)]
pub(super) struct SetUses {
    all: Vec<Use>,
    in_acls: bool,
}

impl SetUses {
    /// Records a use in an ACL test.
    pub(super) fn add_acl(&mut self, by: User, at: &Location) {
        self.in_acls = true;
        self.add(by, at);
    }

    /// Records a use.
    pub(super) fn add(&mut self, by: User, at: &Location) {
        push_first(&mut self.all, Use { by, at: at.clone() });
    }

    /// Whether an ACL test uses the set.
    pub(super) fn has_acls(&self) -> bool {
        self.in_acls
    }
}

impl fmt::Display for SetUses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, by) in self.all.iter().enumerate() {
            if index > 0 {
                formatter.write_str(", ")?;
            }
            by.fmt(formatter)?;
        }
        Ok(())
    }
}

/// A use, with its location.
#[derive(Debug)]
struct Use {
    by: User,
    at: Location,
}

#[derive(Debug)]
pub(super) enum User {
    /// An ACL test by this keyword, with its words as patterns.
    Words(Box<str>),
    /// An ACL test with entries from a file.
    AclOfFile,
    Map,
}

impl fmt::Display for Use {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { file, line } = &self.at;
        match &self.by {
            User::Words(keyword) => write!(formatter, "acl '{keyword}' file '{file}' line {line}"),
            User::AclOfFile => write!(formatter, "by acl at file '{file}' line {line}"),
            User::Map => write!(formatter, "by map at file '{file}' line {line}"),
        }
    }
}

/// Appends to a list that usually has one element: a configuration may have many thousands of anonymous tests.
pub(super) fn push_first<T>(list: &mut Vec<T>, element: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(element);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_listed_with_their_locations() {
        let at = |line| Location { file: "a.cfg".into(), line };
        let mut uses = SetUses::default();
        assert_eq!((uses.to_string().as_str(), uses.has_acls()), ("", false));
        uses.add(User::Map, &at(2));
        assert!(!uses.has_acls());
        uses.add_acl(User::AclOfFile, &at(7));
        uses.add_acl(User::Words("path".into()), &at(9));
        assert!(uses.has_acls());
        let shown =
            "by map at file 'a.cfg' line 2, by acl at file 'a.cfg' line 7, acl 'path' file 'a.cfg' line 9";
        assert_eq!(uses.to_string(), shown);
    }
}
