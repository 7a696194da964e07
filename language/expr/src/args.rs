//! Arguments of fetches and converters: how they are declared, written and kept.

use std::any::Any;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use weir_fingerprint::{Canonical, FormEncoder, Referent};

use crate::acl::Acl;
use crate::pattern::regex::Regex;
use crate::scope::ExpressionScope;
use crate::script_names::ScriptName;
use crate::variables::VariableId;

mod parse;

pub(crate) use parse::{ArgError, parse_args, split_args};

/// The type that a row declares for one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
pub enum ArgKind {
    Str,
    Int,
    Ipv4,
    /// An IPv4 netmask, dotted or as a number of bits.
    Mask4,
    Ipv6,
    /// An IPv6 netmask, as an address or a number of bits.
    Mask6,
    /// A duration with an optional unit, milliseconds by default.
    Delay,
    /// A size with an optional unit.
    Size,
    /// The name of a frontend. Empty for the current one.
    Frontend,
    /// The name of a backend. Empty for the current one.
    Backend,
    /// The name of a stick-table. Empty for the current proxy's.
    Table,
    /// A server, `[backend/]server`.
    Server,
    /// The name of a userlist.
    UserList,
    /// Not an argument: the function of a script that a fetch or converter `lua.*` calls.
    Script,
    Regex,
    /// The name of a variable with its scope.
    Variable,
    /// A protocol buffers field number in dotted notation.
    FieldNumber,
}

impl ArgKind {
    /// The name that documentation dumps and errors use.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::Str => "string",
            ArgKind::Int => "integer",
            ArgKind::Ipv4 => "IPv4 address",
            ArgKind::Mask4 => "IPv4 mask",
            ArgKind::Ipv6 => "IPv6 address",
            ArgKind::Mask6 => "IPv6 mask",
            ArgKind::Delay => "delay",
            ArgKind::Size => "size",
            ArgKind::Frontend => "frontend",
            ArgKind::Backend => "backend",
            ArgKind::Table => "table",
            ArgKind::Server => "server",
            ArgKind::UserList => "user list",
            ArgKind::Script => "script",
            ArgKind::Regex => "regex",
            ArgKind::Variable => "variable",
            ArgKind::FieldNumber => "Protocol buffers field number",
        }
    }

    /// Whether the argument names an object of the configuration. An absent name means the current object.
    pub const fn is_reference(self) -> bool {
        matches!(
            self,
            ArgKind::Frontend | ArgKind::Backend | ArgKind::Table | ArgKind::Server | ArgKind::UserList
        )
    }
}

/// A check of parsed arguments. It may replace them by a prepared form. The error is a message.
pub type ArgsCheck = fn(&mut Args, &ExpressionScope<'_>) -> Result<(), String>;

/// The number and kinds of the arguments of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgSpec {
    /// The first `required` arguments must be given.
    pub required: usize,
    /// The kinds, in order.
    pub kinds: &'static [ArgKind],
}

impl ArgSpec {
    /// No argument.
    pub const NONE: ArgSpec = ArgSpec { required: 0, kinds: &[] };

    /// `required` arguments, then optional ones.
    pub const fn new(required: usize, kinds: &'static [ArgKind]) -> ArgSpec {
        ArgSpec { required, kinds }
    }
}

/// The form of documentation dumps: `(string[,integer])`, nothing for a row without arguments.
impl fmt::Display for ArgSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds.is_empty() {
            return Ok(());
        }
        // A table is shown as mandatory, although the proxy's own table is the default.
        let named = self.kinds.iter().skip(self.required).take_while(|kind| **kind == ArgKind::Table);
        let required = self.required + named.count();
        f.write_str("(")?;
        for (index, kind) in self.kinds.iter().enumerate() {
            if index == required {
                f.write_str("[")?;
            }
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(kind.name())?;
        }
        f.write_str(if required < self.kinds.len() { "])" } else { ")" })
    }
}

/// A name that is resolved after the whole configuration was parsed.
#[derive(Debug, Clone)]
pub struct Reference {
    /// What kind of object is named.
    pub kind: ArgKind,
    /// The name as written; `None` for the current proxy.
    pub name: Option<Box<str>>,
    /// The object, in the numbering of the code that resolves names.
    target: OnceLock<(u32, u32)>,
}

impl Reference {
    /// An unresolved reference.
    pub fn new(kind: ArgKind, name: Option<&str>) -> Self {
        Reference { kind, name: name.map(Into::into), target: OnceLock::new() }
    }

    /// The reference of a call of a script. Its object is the number of the name.
    pub(crate) fn to_script(name: ScriptName) -> Self {
        let reference = Reference::new(ArgKind::Script, None);
        reference.resolve((name.0, 0));
        reference
    }

    /// Sets the object as a pair of indexes: a server's are those of its proxy and of the server in it. Other objects have only
    /// the first one. Only the first call has an effect.
    pub fn resolve(&self, target: (u32, u32)) {
        let _ = self.target.set(target);
    }

    /// The object, once resolved.
    pub fn target(&self) -> Option<(u32, u32)> {
        self.target.get().copied()
    }
}

/// Encoded as the name of the object, or as the content of a mere declaration. A reference without a name means any current proxy.
impl Canonical for Reference {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let Reference { kind, name, target: _ } = self;
        kind.encode(out);
        let target = name.as_ref().and(self.target());
        (name.is_some(), target.is_some()).encode(out);
        match (kind, target) {
            (ArgKind::Frontend | ArgKind::Backend, Some((proxy, _))) => out.referent(Referent::Proxy(proxy)),
            (ArgKind::Server, Some((proxy, server))) => out.referent(Referent::Server(proxy, server)),
            (ArgKind::Table, Some((table, _))) => out.referent(Referent::Table(table)),
            (ArgKind::UserList, Some((list, _))) => out.referent(Referent::Userlist(list)),
            _ => name.encode(out),
        }
    }
}

/// The result of a check function: data for the evaluation, with a canonical form.
pub trait PreparedArg: Any + Canonical + Send + Sync {}

impl<T: Any + Canonical + Send + Sync> PreparedArg for T {}

/// One parsed argument.
#[derive(Clone, Canonical)]
pub enum Arg {
    Absent,
    Str(Box<[u8]>),
    /// A number; also a delay in milliseconds and a size in bytes.
    Int(i64),
    /// An IPv4 address or mask.
    Ipv4(Ipv4Addr),
    /// An IPv6 address or mask.
    Ipv6(Ipv6Addr),
    /// An object of the configuration.
    Reference(Reference),
    /// A compiled regular expression.
    Regex(Arc<Regex>),
    Variable(VariableId),
    /// A protocol buffers field number.
    FieldNumber(Box<[u32]>),
    /// Conditions of the `acl` fetch: each ACL and whether it is negated.
    Acls(Box<[(bool, Arc<Acl>)]>),
    /// The result of the row's check function.
    Custom(Arc<dyn PreparedArg>),
}

impl fmt::Debug for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Absent => f.write_str("-"),
            Arg::Str(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
            Arg::Int(value) => write!(f, "{value}"),
            Arg::Ipv4(address) => write!(f, "{address}"),
            Arg::Ipv6(address) => write!(f, "{address}"),
            Arg::Reference(reference) => {
                write!(f, "{} {}", reference.kind.name(), reference.name.as_deref().unwrap_or("(current)"))
            }
            Arg::Regex(regex) => write!(f, "/{}/", regex.text()),
            Arg::Variable(variable) => write!(f, "{variable:?}"),
            Arg::FieldNumber(path) => write!(f, "{path:?}"),
            Arg::Acls(acls) => f.debug_list().entries(acls.iter().map(|(_, acl)| acl.name())).finish(),
            Arg::Custom(_) => f.write_str("(custom)"),
        }
    }
}

/// The parsed arguments of one call.
#[derive(Debug, Clone, Default)]
pub struct Args(Vec<Arg>);

/// Omitted arguments at the end count as none.
impl Canonical for Args {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let given = self.0.iter().rposition(|arg| !matches!(arg, Arg::Absent)).map_or(0, |last| last + 1);
        self.0[..given].encode(out);
    }
}

impl Args {
    /// The arguments of a list, with [`Arg::Absent`] for omitted ones.
    pub fn new(mut list: Vec<Arg>) -> Self {
        // A configuration has many thousands of lists, most of one argument.
        list.shrink_to_fit();
        Args(list)
    }

    /// The number of arguments, including omitted ones in between.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no argument was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Argument `index`. [`Arg::Absent`] beyond the end.
    pub fn get(&self, index: usize) -> &Arg {
        self.0.get(index).unwrap_or(&Arg::Absent)
    }

    /// True if argument `index` was given.
    pub fn has(&self, index: usize) -> bool {
        !matches!(self.get(index), Arg::Absent)
    }

    /// The text of argument `index`.
    pub fn str(&self, index: usize) -> Option<&[u8]> {
        match self.get(index) {
            Arg::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The number in argument `index`.
    pub fn int(&self, index: usize) -> Option<i64> {
        match self.get(index) {
            Arg::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The reference in argument `index`.
    pub fn reference(&self, index: usize) -> Option<&Reference> {
        match self.get(index) {
            Arg::Reference(reference) => Some(reference),
            _ => None,
        }
    }

    /// The variable in argument `index`.
    pub fn variable(&self, index: usize) -> Option<VariableId> {
        match self.get(index) {
            Arg::Variable(variable) => Some(*variable),
            _ => None,
        }
    }

    /// The value that a check function stored in argument `index`.
    pub fn custom<T: Any>(&self, index: usize) -> Option<&T> {
        match self.get(index) {
            Arg::Custom(prepared) => {
                let prepared: &dyn Any = &**prepared;
                prepared.downcast_ref()
            }
            _ => None,
        }
    }

    /// Replaces argument `index`, growing the list if needed: for check functions.
    pub fn set(&mut self, index: usize, arg: Arg) {
        while self.0.len() <= index {
            self.0.push(Arg::Absent);
        }
        self.0[index] = arg;
    }

    /// All arguments.
    pub fn iter(&self) -> impl Iterator<Item = &Arg> {
        self.0.iter()
    }

    pub(crate) fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        for arg in &self.0 {
            if let Arg::Reference(reference) = arg {
                visit(reference);
            }
        }
    }
}
