//! The encoder: hashes a canonical form while it is written.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::object::{ObjectKind, ObjectName, Referent};
use crate::{Canonical, Fingerprint};

/// Writes canonical forms and hashes them. Most values are a few bytes: one call of a one-shot hash is several times as fast as a hash with
/// state.
///
/// The hash is XXH3 with 128 bits: different forms collide by chance once in 2^64 objects. A cryptographic hash would not add protection:
/// write access to a file of the configuration already allows any content.
pub struct FormEncoder<'r> {
    /// The forms of the values in progress. An inner form follows the form around it.
    buffer: Vec<u8>,
    /// Offset of the innermost form.
    start: usize,
    referents: &'r dyn Referents,
    /// The live objects that the form refers to.
    references: BTreeSet<ObjectName>,
    /// The parts of the outermost value. None if the caller does not need them.
    parts: Option<Vec<FormPart>>,
    /// The prefix of the labels.
    prefix: &'static str,
    /// Shared values that were encoded before, by address. Each is kept alive, so that its address is not reused.
    known: HashMap<usize, EncodedValue>,
}

/// A shared value that was encoded.
struct EncodedValue {
    _value: Arc<dyn Any + Send + Sync>,
    form: CanonicalForm,
}

/// The canonical form of a value, hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonicalForm {
    pub fingerprint: Fingerprint,
    /// The live objects that the form refers to.
    pub references: BTreeSet<ObjectName>,
    /// The parts of the value, in order.
    pub parts: Vec<FormPart>,
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormPart {
    /// The prefix of the label.
    pub prefix: &'static str,
    /// The word of the configuration, or a description of the part.
    pub label: &'static str,
    pub fingerprint: Fingerprint,
}

impl<'r> FormEncoder<'r> {
    /// An encoder that resolves references through `referents`.
    pub fn new(referents: &'r dyn Referents) -> Self {
        FormEncoder {
            buffer: Vec::new(),
            start: 0,
            referents,
            references: BTreeSet::new(),
            parts: None,
            prefix: "",
            known: HashMap::new(),
        }
    }

    /// The form of a value, with its parts.
    pub fn form(&mut self, value: &(impl Canonical + ?Sized)) -> CanonicalForm {
        self.nested(Some(Vec::new()), |out| value.encode(out))
    }

    /// The form of the value that `write` writes.
    fn nested(&mut self, parts: Option<Vec<FormPart>>, write: impl FnOnce(&mut Self)) -> CanonicalForm {
        let start = std::mem::replace(&mut self.start, self.buffer.len());
        let references = std::mem::take(&mut self.references);
        let outer_parts = std::mem::replace(&mut self.parts, parts);
        let prefix = std::mem::take(&mut self.prefix);
        write(self);
        self.prefix = prefix;
        let fingerprint = self.fold();
        self.start = start;
        CanonicalForm {
            fingerprint,
            references: std::mem::replace(&mut self.references, references),
            parts: std::mem::replace(&mut self.parts, outer_parts).unwrap_or_default(),
        }
    }

    /// Begins a structure.
    pub fn begin(&mut self, type_name: &'static str) {
        self.text(type_name);
    }

    /// Begins a variant of an enumeration.
    pub fn begin_variant(&mut self, type_name: &'static str, variant: &'static str) {
        self.text(type_name);
        self.text(variant);
    }

    /// Writes a field under its label.
    pub fn field(&mut self, label: &'static str, value: &(impl Canonical + ?Sized)) {
        self.field_with(label, |out| value.encode(out));
    }

    /// Writes a field as a function encodes it.
    pub fn field_with(&mut self, label: &'static str, write: impl FnOnce(&mut Self)) {
        if self.parts.is_none() {
            return write(self);
        }
        let prefix = self.prefix;
        let CanonicalForm { fingerprint, mut references, .. } = self.nested(None, write);
        self.references.append(&mut references);
        self.fingerprint(fingerprint);
        if let Some(parts) = &mut self.parts {
            parts.push(FormPart { prefix, label, fingerprint });
        }
    }

    /// Writes a field. Its parts become parts of the outer value.
    pub fn flat(&mut self, prefix: &'static str, value: &(impl Canonical + ?Sized)) {
        let outer = std::mem::replace(&mut self.prefix, prefix);
        value.encode(self);
        self.prefix = outer;
    }

    /// Writes a shared value, encoded only once.
    pub fn shared<T: Canonical + Any + Send + Sync>(&mut self, value: &Arc<T>) {
        let address = Arc::as_ptr(value).cast::<()>().addr();
        let form = match self.known.get(&address) {
            Some(known) => known.form.clone(),
            None => {
                let form = self.nested(None, |out| value.encode(out));
                let known = EncodedValue { _value: Arc::clone(value) as _, form: form.clone() };
                self.known.insert(address, known);
                form
            }
        };
        self.references.extend(form.references);
        self.fingerprint(form.fingerprint);
    }

    /// Writes the fingerprint of a value, as [`FormEncoder::shared`] does.
    pub fn hashed(&mut self, value: &(impl Canonical + ?Sized)) {
        let CanonicalForm { fingerprint, mut references, .. } = self.nested(None, |out| value.encode(out));
        self.references.append(&mut references);
        self.fingerprint(fingerprint);
    }

    /// Writes values as a set: neither order nor repetition counts.
    pub fn set<T: Canonical>(&mut self, values: impl IntoIterator<Item = T>) {
        let mut fingerprints = Vec::new();
        for value in values {
            let CanonicalForm { fingerprint, mut references, .. } =
                self.nested(None, |out| value.encode(out));
            self.references.append(&mut references);
            fingerprints.push(fingerprint);
        }
        fingerprints.sort_unstable();
        fingerprints.dedup();
        self.count(fingerprints.len());
        fingerprints.into_iter().for_each(|fingerprint| self.fingerprint(fingerprint));
    }

    /// Writes values in their order.
    pub fn list<T: Canonical>(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.count(values.len());
        values.for_each(|value| value.encode(self));
    }

    /// Writes the name of a live object, and records the reference.
    pub fn object(&mut self, object: ObjectName) {
        self.text(object.kind.word());
        self.text(&object.name);
        self.references.insert(object);
    }

    /// Writes the name of a live object of this kind.
    pub fn named(&mut self, kind: ObjectKind, name: &str) {
        self.object(ObjectName::new(kind, name));
    }

    /// Records a reference to a live object. For an object named within a string.
    pub fn note(&mut self, kind: ObjectKind, name: &str) {
        self.references.insert(ObjectName::new(kind, name));
    }

    /// Writes a referenced object, through [`Referents`].
    pub fn referent(&mut self, referent: Referent<'_>) {
        self.referents.encode(referent, self);
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes bytes after their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Writes the number of the values that follow.
    pub fn count(&mut self, count: usize) {
        self.raw(&(count as u64).to_le_bytes());
    }

    /// Writes bytes without their number.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() - self.start > LONGEST {
            let fingerprint = self.fold();
            self.buffer.extend_from_slice(&fingerprint.0.to_le_bytes());
        }
    }

    /// Replaces the innermost form by its fingerprint. Equal values are folded at equal positions, so their forms stay equal.
    fn fold(&mut self) -> Fingerprint {
        let fingerprint = Fingerprint(xxh3_128(&self.buffer[self.start..]));
        self.buffer.truncate(self.start);
        fingerprint
    }

    fn fingerprint(&mut self, fingerprint: Fingerprint) {
        self.raw(&fingerprint.0.to_le_bytes());
    }
}

/// The longest form in bytes that is hashed at once: a map may have many megabytes.
const LONGEST: usize = 1 << 16;

/// Resolves the objects that values refer to.
pub trait Referents {
    /// Encodes the object: by name, or by content if the content counts.
    fn encode(&self, referent: Referent<'_>, out: &mut FormEncoder<'_>);
}

/// No references.
impl Referents for () {
    fn encode(&self, _: Referent<'_>, _: &mut FormEncoder<'_>) {}
}

impl fmt::Debug for FormEncoder<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "FormEncoder({} references)", self.references.len())
    }
}

/// A shared value, encoded once: see [`FormEncoder::shared`].
#[derive(Clone, Copy, Debug)]
pub struct SharedValue<'s, T>(pub &'s Arc<T>);

impl<T: Canonical + Any + Send + Sync> Canonical for SharedValue<'_, T> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.shared(self.0);
    }
}

/// Encodes a shared field, for `#[canonical(with = shared)]`.
pub fn shared<T: Canonical + Any + Send + Sync>(value: &Arc<T>, out: &mut FormEncoder<'_>) {
    out.shared(value);
}

/// Encodes a list as a set, for `#[canonical(with = unordered)]`.
pub fn unordered<'v, V: ?Sized>(values: &'v V, out: &mut FormEncoder<'_>)
where
    &'v V: IntoIterator<Item: Canonical>,
{
    out.set(values);
}
