//! Canonical forms of values, and their fingerprints.
//!
//! Two values with the same meaning have the same canonical form, however and wherever they were written. [`Canonical`] is
//! derived: a new field is part of the form by itself, and a field without a meaning is left out explicitly. The [`FormEncoder`] hashes
//! the form to 128 bits while it is written, and nothing is stored. References by number are encoded by name; the
//! [`Referents`] know the names.
//!
//! The crate refuses to know the configuration: it has values, names and a hash. Fingerprints can be compared within
//! one process only. Begin with [`FormEncoder`].

// The derive names this crate, also in its tests.
extern crate self as weir_fingerprint;

mod encoder;
mod object;
mod values;

pub use encoder::{CanonicalForm, FormEncoder, FormPart, Referents, SharedValue, shared, unordered};
pub use object::{ObjectKind, ObjectName, Referent};
pub use weir_fingerprint_derive::Canonical;

/// The fingerprint of a canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// That of a file.
    pub fn of_file(bytes: &[u8]) -> Fingerprint {
        Fingerprint(xxhash_rust::xxh3::xxh3_128(bytes))
    }
}

impl Canonical for Fingerprint {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.0.encode(out);
    }
}

/// A value that has a canonical form: values with the same meaning have the same form, any others have different forms.
pub trait Canonical {
    /// Writes the form. No form may be the beginning of another form of the same type.
    fn encode(&self, out: &mut FormEncoder<'_>);

    /// Writes the forms of several values, without their number.
    fn encode_all(values: &[Self], out: &mut FormEncoder<'_>)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.encode(out));
    }
}

#[cfg(test)]
mod tests;
