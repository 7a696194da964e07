//! Variables: named values that live as long as their scope.
//!
//! Names are interned once, when the configuration is parsed. At run time, a variable is a number, and the store of a scope is a short
//! sorted list.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use hashbrown::{HashMap, HashSet};
use weir_fingerprint::{Canonical, FormEncoder, Referent};

use crate::sample::Value;

/// The lifetime of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Canonical)]
pub enum VariableScope {
    Process,
    Session,
    /// One request and its response.
    Transaction,
    /// The processing of the request.
    Request,
    /// The processing of the response.
    Response,
    Check,
    /// The session of the parent stream.
    ParentSession,
    /// The transaction of the parent stream.
    ParentTransaction,
    /// The request of the parent stream.
    ParentRequest,
    /// The response of the parent stream.
    ParentResponse,
}

impl VariableScope {
    /// Every scope.
    pub const ALL: [VariableScope; 10] = [
        VariableScope::Process,
        VariableScope::Session,
        VariableScope::Transaction,
        VariableScope::Request,
        VariableScope::Response,
        VariableScope::Check,
        VariableScope::ParentSession,
        VariableScope::ParentTransaction,
        VariableScope::ParentRequest,
        VariableScope::ParentResponse,
    ];

    /// The prefix of the names in this scope.
    pub const fn name(self) -> &'static str {
        match self {
            VariableScope::Process => "proc",
            VariableScope::Session => "sess",
            VariableScope::Transaction => "txn",
            VariableScope::Request => "req",
            VariableScope::Response => "res",
            VariableScope::Check => "check",
            VariableScope::ParentSession => "psess",
            VariableScope::ParentTransaction => "ptxn",
            VariableScope::ParentRequest => "preq",
            VariableScope::ParentResponse => "pres",
        }
    }
}

/// A variable: its scope, and a number that stands for its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId {
    pub scope: VariableScope,
    pub name: u32,
}

/// Encoded as the name: the number depends on the order of interning.
impl Canonical for VariableId {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let VariableId { scope, name } = self;
        scope.encode(out);
        out.referent(Referent::Variable(*name));
    }
}

/// The interned names of all variables, shared by all parsers of expressions.
#[derive(Debug, Default)]
pub struct VariableNames {
    names: RwLock<NameTable>,
}

#[derive(Debug, Default)]
struct NameTable {
    numbers: HashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    /// The names mentioned in scope `proc`.
    of_process: HashSet<u32>,
}

/// The limit of distinct names. Only the configuration, the runtime API and trusted agents (`option force-set-var`) create names.
const MAX_NAMES: usize = 1 << 20;

impl VariableNames {
    /// An empty table.
    pub fn new() -> Self {
        VariableNames::default()
    }

    /// The variable `scope.name`. A new name is interned. The error explains why the name is invalid.
    pub fn intern(&self, text: &str) -> Result<VariableId, String> {
        let (scope, name) = split_name(text)?;
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let number = match names.numbers.get(name) {
            Some(number) => *number,
            None if names.texts.len() >= MAX_NAMES => return Err("too many variable names".into()),
            None => {
                let number = names.texts.len() as u32;
                names.texts.push(name.into());
                names.numbers.insert(name.into(), number);
                number
            }
        };
        if scope == VariableScope::Process {
            names.of_process.insert(number);
        }
        Ok(VariableId { scope, name: number })
    }

    /// The variable with this name, if an expression mentions it.
    pub fn find(&self, text: &str) -> Option<VariableId> {
        let (scope, name) = split_name(text).ok()?;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.numbers.get(name).map(|number| VariableId { scope, name: *number })
    }

    /// The names that begin with `prefix`, without it. Each has its number, and whether it was mentioned in scope `proc`.
    pub fn with_prefix(&self, prefix: &str) -> Vec<(Box<str>, u32, bool)> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let found = names.numbers.iter().filter_map(|(name, number)| {
            Some((name.strip_prefix(prefix)?.into(), *number, names.of_process.contains(number)))
        });
        found.collect()
    }

    /// The name of a variable without its scope.
    pub fn name(&self, number: u32) -> String {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.texts.get(number as usize).map_or("?", |name| name).to_owned()
    }

    /// The full name of a variable.
    pub fn text(&self, variable: VariableId) -> String {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let name = names.texts.get(variable.name as usize).map_or("?", |name| name);
        format!("{}.{name}", variable.scope.name())
    }
}

fn split_name(text: &str) -> Result<(VariableScope, &str), String> {
    let scope_error = || {
        format!(
            "invalid variable name '{text}'. A variable name must be start by its scope. The scope can be 'proc', \
             'sess', 'txn', 'req', 'res' or 'check'"
        )
    };
    let (prefix, name) = text.split_once('.').ok_or_else(scope_error)?;
    let scope =
        VariableScope::ALL.into_iter().find(|scope| scope.name() == prefix).ok_or_else(scope_error)?;
    match name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.') {
        Some(wrong) => Err(format!("invalid syntax at char '{}'", &name[wrong..])),
        None if name.is_empty() => Err(scope_error()),
        None => Ok((scope, name)),
    }
}

/// The condition for setting a variable (`set-var(name,cond...)`). Several conditions must all be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Canonical)]
pub struct SetCondition(u8);

impl SetCondition {
    /// Always.
    pub const ALWAYS: SetCondition = SetCondition(0);

    const WORDS: [(&'static str, u8); 8] = [
        ("ifexists", Self::EXISTS),
        ("ifnotexists", Self::NOT_EXISTS),
        ("ifempty", Self::EMPTY),
        ("ifnotempty", Self::NOT_EMPTY),
        ("ifset", Self::SET),
        ("ifnotset", Self::NOT_SET),
        ("ifgt", Self::GREATER),
        ("iflt", Self::LESS),
    ];
    const EXISTS: u8 = 1;
    const NOT_EXISTS: u8 = 1 << 1;
    const EMPTY: u8 = 1 << 2;
    const NOT_EMPTY: u8 = 1 << 3;
    const SET: u8 = 1 << 4;
    const NOT_SET: u8 = 1 << 5;
    const GREATER: u8 = 1 << 6;
    const LESS: u8 = 1 << 7;

    /// Adds the condition with this name.
    pub fn with_word(self, word: &str) -> Result<SetCondition, String> {
        let known = Self::WORDS.iter().find(|(name, _)| *name == word);
        let (_, bit) = known.ok_or_else(|| format!("unknown condition \"{word}\""))?;
        Ok(SetCondition(self.0 | bit))
    }

    fn holds(self, exists: bool, old: Option<&Value<'_>>, new: &Value<'_>) -> bool {
        let has = |bit| self.0 & bit != 0;
        let empty = new.bytes().is_some_and(<[u8]>::is_empty);
        // Only two integers can be compared. Other values pass, as in the manual.
        let (greater, less) = match (old, new) {
            (Some(Value::Int(old)), Value::Int(new)) => (old > new, old < new),
            _ => (true, true),
        };
        (!has(Self::EXISTS) || exists)
            && (!has(Self::NOT_EXISTS) || !exists)
            && (!has(Self::EMPTY) || empty)
            && (!has(Self::NOT_EMPTY) || !empty)
            && (!has(Self::SET) || old.is_some())
            && (!has(Self::NOT_SET) || old.is_none())
            && (!has(Self::GREATER) || greater)
            && (!has(Self::LESS) || less)
    }
}

/// The variables of one scope.
#[derive(Debug, Clone, Default)]
pub struct VariableStore {
    /// Sorted by variable. An unset variable keeps its entry: it still "exists".
    entries: Vec<(VariableId, Option<Value<'static>>)>,
    used: usize,
    limit: Option<usize>,
}

/// The memory of one variable without its value, in bytes.
pub const VARIABLE_OVERHEAD: usize = size_of::<(VariableId, Option<Value<'static>>)>();

impl VariableStore {
    /// An empty store with a limit in bytes. None for no limit.
    pub fn with_limit(limit: Option<usize>) -> Self {
        VariableStore { limit, ..VariableStore::default() }
    }

    /// The value of a variable.
    pub fn get(&self, variable: VariableId) -> Option<Value<'_>> {
        let index = self.position(variable).ok()?;
        self.entries[index].1.as_ref().map(borrow)
    }

    /// Sets a variable if `condition` is true. False only if the limit is exceeded.
    pub fn set(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        let room = self.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.used));
        self.set_within(variable, value, condition, room)
    }

    /// Sets a variable, for callers with a common limit for several stores: it may grow by `room` bytes.
    pub fn set_within(
        &mut self,
        variable: VariableId,
        value: Value<'_>,
        condition: SetCondition,
        room: usize,
    ) -> bool {
        let position = self.position(variable);
        let old = position.ok().and_then(|index| self.entries[index].1.as_ref());
        let exists = position.is_ok() || variable.scope == VariableScope::Process;
        if !condition.holds(exists, old, &value) {
            return true;
        }
        let gained = weight(&value) + if position.is_ok() { 0 } else { VARIABLE_OVERHEAD };
        let freed = old.map_or(0, weight);
        if gained.saturating_sub(freed) > room {
            return false;
        }
        self.used = self.used + gained - freed;
        let value = fitting(value);
        match position {
            Ok(index) => {
                if let Some(old) = self.entries[index].1.replace(value) {
                    crate::scratch::recycle(old);
                }
            }
            Err(index) => self.entries.insert(index, (variable, Some(value))),
        }
        true
    }

    /// Unsets a variable. True if it had a value.
    pub fn unset(&mut self, variable: VariableId) -> bool {
        let Ok(index) = self.position(variable) else { return false };
        let Some(old) = self.entries[index].1.take() else { return false };
        self.used -= weight(&old);
        crate::scratch::recycle(old);
        true
    }

    /// Removes all variables. The list keeps its capacity.
    #[inline]
    pub fn clear(&mut self) {
        // Most requests do not set variables.
        if !self.entries.is_empty() {
            self.clear_entries();
        }
    }

    fn clear_entries(&mut self) {
        for (_, value) in self.entries.drain(..) {
            if let Some(value) = value {
                crate::scratch::recycle(value);
            }
        }
        self.used = 0;
    }

    /// The limit in bytes. None for no limit.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The accounted memory in bytes.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Every variable that has a value, in unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = (VariableId, Value<'_>)> {
        self.entries
            .iter()
            .filter_map(|(variable, value)| value.as_ref().map(|value| (*variable, borrow(value))))
    }

    fn position(&self, variable: VariableId) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&variable, |(id, _)| *id)
    }
}

/// A copy in a buffer of about its size. A recycled buffer may be many times as large, and variables of idle sessions stay in memory.
fn fitting(value: Value<'_>) -> Value<'static> {
    let mut value = value.into_owned();
    if let Value::Str(Cow::Owned(buffer))
    | Value::Bin(Cow::Owned(buffer))
    | Value::Method(Cow::Owned(buffer)) = &mut value
    {
        buffer.shrink_to(buffer.len() + SPARE_BYTES);
    }
    value
}

/// Less spare capacity is not worth a copy.
const SPARE_BYTES: usize = 256;

fn weight(value: &Value<'_>) -> usize {
    value.bytes().map_or(0, <[u8]>::len)
}

/// The same value, borrowed.
pub(crate) fn borrow<'v>(value: &'v Value<'_>) -> Value<'v> {
    match value {
        Value::Bool(value) => Value::Bool(*value),
        Value::Int(value) => Value::Int(*value),
        Value::Ipv4(address) => Value::Ipv4(*address),
        Value::Ipv6(address) => Value::Ipv6(*address),
        Value::Str(bytes) => Value::str(bytes),
        Value::Bin(bytes) => Value::bin(bytes),
        Value::Method(bytes) => Value::method(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recycled buffer of a long value may get a short one, and variables of idle sessions stay in memory.
    #[test]
    fn short_variable_values_do_not_keep_long_buffers() {
        crate::scratch::give(Vec::with_capacity(60_000));
        let names = VariableNames::new();
        let variable = names.intern("sess.a").unwrap();
        let mut store = VariableStore::default();
        assert!(store.set(variable, Value::str(b"short"), SetCondition::ALWAYS));
        let Some(Value::Str(Cow::Owned(kept))) = &store.entries[0].1 else { panic!("a text of its own") };
        assert!(kept.capacity() <= 5 + SPARE_BYTES, "{}", kept.capacity());
    }

    #[test]
    fn rejects_invalid_variable_names() {
        let names = VariableNames::new();
        assert_eq!(names.intern("txn.a_b.C9").unwrap(), names.intern("txn.a_b.C9").unwrap());
        assert_ne!(names.intern("txn.a").unwrap(), names.intern("sess.a").unwrap());
        for wrong in ["", "a", "txn", "txn.", "foo.a", "txn.a-b", "txn.é"] {
            assert!(names.intern(wrong).is_err(), "{wrong}");
        }
        assert_eq!(names.find("req.never"), None);
        assert_eq!(names.text(names.intern("res.x").unwrap()), "res.x");
    }

    #[test]
    fn a_variable_store_has_a_size_limit() {
        let names = VariableNames::new();
        let a = names.intern("txn.a").unwrap();
        let b = names.intern("txn.b").unwrap();
        let mut store = VariableStore::with_limit(Some(VARIABLE_OVERHEAD + 4));
        assert!(store.set(a, Value::str(b"1234"), SetCondition::ALWAYS));
        assert!(!store.set(b, Value::Int(1), SetCondition::ALWAYS));
        assert!(!store.set(a, Value::str(b"12345"), SetCondition::ALWAYS));
        assert!(store.set(a, Value::str(b"12"), SetCondition::ALWAYS));
        assert_eq!(store.get(a), Some(Value::str(b"12")));
        assert_eq!(store.used(), VARIABLE_OVERHEAD + 2);
        assert!(store.unset(a));
        assert_eq!(store.get(a), None);
        store.clear();
        assert_eq!(store.used(), 0);
    }

    #[test]
    fn set_var_conditions_decide_whether_to_assign() {
        let names = VariableNames::new();
        let a = names.intern("txn.a").unwrap();
        let when = |word: &str| SetCondition::ALWAYS.with_word(word).unwrap();
        let mut store = VariableStore::default();
        let mut check = |value: Value<'static>, word: &str, expected: Option<Value<'_>>| {
            assert!(store.set(a, value, when(word)));
            assert_eq!(store.get(a), expected, "{word}");
        };
        check(Value::Int(1), "ifexists", None);
        check(Value::Int(1), "ifset", None);
        check(Value::Int(1), "ifnotexists", Some(Value::Int(1)));
        check(Value::Int(2), "ifnotset", Some(Value::Int(1)));
        check(Value::Int(2), "ifgt", Some(Value::Int(1)));
        check(Value::Int(2), "iflt", Some(Value::Int(2)));
        check(Value::str(b""), "ifnotempty", Some(Value::Int(2)));
        check(Value::str(b""), "ifempty", Some(Value::str(b"")));
        check(Value::str(b"x"), "ifgt", Some(Value::str(b"x")));
        assert!(SetCondition::ALWAYS.with_word("ifmaybe").is_err());
    }
}
