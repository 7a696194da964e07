//! A sample: one typed value taken from the traffic, the process or the configuration.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_fingerprint::Canonical;

pub(crate) mod cast;

/// A typed value. Strings and binaries borrow from their source until they are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    /// A string: bytes meant to be read.
    Str(Cow<'a, [u8]>),
    /// A binary: bytes that are shown as hexadecimal digits.
    Bin(Cow<'a, [u8]>),
    /// An HTTP method, by its name.
    Method(Cow<'a, [u8]>),
}

/// The type of a value, and the two wildcards that only declarations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Canonical)]
pub enum SampleType {
    /// Any type (input of a converter, output of `var`).
    Any,
    /// The same type as the input (output of a converter).
    Same,
    Bool,
    Int,
    /// An address of either family.
    Addr,
    Ipv4,
    Ipv6,
    Str,
    Bin,
    Method,
}

impl SampleType {
    /// The name that documentation dumps use.
    pub const fn name(self) -> &'static str {
        match self {
            SampleType::Any => "any",
            SampleType::Same => "same",
            SampleType::Bool => "bool",
            SampleType::Int => "sint",
            SampleType::Addr => "addr",
            SampleType::Ipv4 => "ipv4",
            SampleType::Ipv6 => "ipv6",
            SampleType::Str => "str",
            SampleType::Bin => "bin",
            SampleType::Method => "meth",
        }
    }
}

/// Flags of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleFlags(u8);

impl SampleFlags {
    /// The value may change without new data (a clock, a counter).
    pub const VOLATILE: SampleFlags = SampleFlags(1);
    /// The value may change when more data arrives (a body that is not complete).
    pub const MAY_CHANGE: SampleFlags = SampleFlags(2);

    /// No flag.
    pub const fn empty() -> SampleFlags {
        SampleFlags(0)
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: SampleFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags that are not in `other`.
    #[must_use]
    pub const fn without(self, other: SampleFlags) -> SampleFlags {
        SampleFlags(self.0 & !other.0)
    }

    /// Both sets of flags.
    #[must_use]
    pub const fn with(self, other: SampleFlags) -> SampleFlags {
        SampleFlags(self.0 | other.0)
    }
}

/// A value with its flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<'a> {
    pub value: Value<'a>,
    pub flags: SampleFlags,
}

impl<'a> Sample<'a> {
    /// A stable sample.
    pub const fn new(value: Value<'a>) -> Self {
        Sample { value, flags: SampleFlags::empty() }
    }

    /// The same sample with more flags.
    #[must_use]
    pub fn with(mut self, flags: SampleFlags) -> Self {
        self.flags = self.flags.with(flags);
        self
    }

    /// Copies borrowed data, so that the sample is independent of its source.
    pub fn into_owned(self) -> Sample<'static> {
        Sample { value: self.value.into_owned(), flags: self.flags }
    }
}

impl<'a> From<Value<'a>> for Sample<'a> {
    fn from(value: Value<'a>) -> Self {
        Sample::new(value)
    }
}

impl<'a> Value<'a> {
    /// A borrowed string.
    pub const fn str(bytes: &'a [u8]) -> Self {
        Value::Str(Cow::Borrowed(bytes))
    }

    /// A borrowed binary.
    pub const fn bin(bytes: &'a [u8]) -> Self {
        Value::Bin(Cow::Borrowed(bytes))
    }

    /// A borrowed method.
    pub const fn method(name: &'a [u8]) -> Self {
        Value::Method(Cow::Borrowed(name))
    }

    /// The type of the value.
    pub const fn kind(&self) -> SampleType {
        match self {
            Value::Bool(_) => SampleType::Bool,
            Value::Int(_) => SampleType::Int,
            Value::Ipv4(_) => SampleType::Ipv4,
            Value::Ipv6(_) => SampleType::Ipv6,
            Value::Str(_) => SampleType::Str,
            Value::Bin(_) => SampleType::Bin,
            Value::Method(_) => SampleType::Method,
        }
    }

    /// The bytes of a string, binary or method.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Copies borrowed data into a recycled buffer, so that the value is independent of its source.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Ipv4(value) => Value::Ipv4(value),
            Value::Ipv6(value) => Value::Ipv6(value),
            Value::Str(bytes) => Value::Str(owned(bytes)),
            Value::Bin(bytes) => Value::Bin(owned(bytes)),
            Value::Method(bytes) => Value::Method(owned(bytes)),
        }
    }
}

impl From<IpAddr> for Value<'_> {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Value::Ipv4(address),
            IpAddr::V6(address) => Value::Ipv6(address),
        }
    }
}

fn owned(bytes: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
    match bytes {
        Cow::Owned(bytes) => Cow::Owned(bytes),
        Cow::Borrowed(bytes) => {
            let mut copy = crate::scratch::take();
            copy.extend_from_slice(bytes);
            Cow::Owned(copy)
        }
    }
}
