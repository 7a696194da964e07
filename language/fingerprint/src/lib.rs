//! Canonical forms of values, and their fingerprints.
//!
//! Two values with the same meaning have the same canonical form, whatever their spelling and location. [`Canonical`] is derived: a new
//! field is part of the form by default, and a field without a meaning is excluded explicitly. The [`FormEncoder`] hashes the form to
//! 128 bits while it writes the form, and stores nothing. References by number are encoded by name, which [`Referents`] supplies.
//!
//! The crate refuses to know the configuration: it knows values, names and a hash. Fingerprints are comparable within one process only.
//! Begin with [`FormEncoder`].

// The derive uses this name for the crate, also in the crate's own tests.
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
    /// The fingerprint of a file's content.
    pub fn of_file(bytes: &[u8]) -> Fingerprint {
        Fingerprint(xxhash_rust::xxh3::xxh3_128(bytes))
    }
}

impl Canonical for Fingerprint {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        self.0.encode(out);
    }
}

/// A value with a canonical form. Values with the same meaning have the same form, all other values have different forms.
pub trait Canonical {
    /// Writes the form. A form must not be a prefix of another form of the same type.
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
