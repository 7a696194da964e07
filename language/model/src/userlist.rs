//! Users, their passwords, and the groups they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_fingerprint::Canonical;

use super::Location;
use crate::password::Password;

/// One `userlist`.
#[derive(Clone, Debug, Default, Canonical)]
pub struct Userlist {
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    pub users: BTreeMap<Box<str>, User>,
}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct User {
    /// The password. None if the user cannot log in.
    pub password: Option<Password>,
    /// The groups that the user belongs to, sorted.
    pub groups: Vec<Box<str>>,
}

impl Userlist {
    /// The user with this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// Whether the user exists and has this password.
    pub fn authenticate(&self, name: &str, password: &[u8]) -> bool {
        self.user(name).and_then(|user| user.password.as_ref()).is_some_and(|known| known.verify(password))
    }

    /// Whether the user exists and belongs to the group.
    pub fn is_member(&self, name: &str, group: &str) -> bool {
        self.user(name).is_some_and(|user| user.groups.iter().any(|known| **known == *group))
    }

    /// Every user by name.
    pub fn users(&self) -> impl Iterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, user)| (&**name, user))
    }
}
