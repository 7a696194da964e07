use std::sync::Arc;

use crate::{
    Canonical, CanonicalForm, Fingerprint, FormEncoder, ObjectKind, ObjectName, Referent, Referents, shared,
    unordered,
};

#[derive(Canonical)]
struct Sample {
    /// `word ...`: the label is in the documentation.
    first: u32,
    second_field: Option<Box<str>>,
    #[canonical(skip = "a place")]
    at: u32,
    #[canonical(with = unordered)]
    set: Vec<u8>,
    #[canonical(flat = "inner ")]
    inner: Inner,
}

#[derive(Clone, Canonical)]
struct Inner {
    third: Choice,
}

#[derive(Clone, Canonical)]
enum Choice {
    Nothing,
    Text(Box<str>),
    Both { left: u8, right: u8 },
}

fn sample() -> Sample {
    Sample { first: 1, second_field: None, at: 7, set: vec![1, 2], inner: Inner { third: Choice::Nothing } }
}

fn form(value: &(impl Canonical + ?Sized)) -> CanonicalForm {
    FormEncoder::new(&()).form(value)
}

fn fingerprint(value: &(impl Canonical + ?Sized)) -> Fingerprint {
    form(value).fingerprint
}

#[test]
fn every_field_that_is_not_skipped_changes_the_fingerprint() {
    let before = fingerprint(&sample());
    assert_eq!(sample().at, 7);
    assert_eq!(fingerprint(&Sample { at: 8, ..sample() }), before);
    assert_eq!(fingerprint(&Sample { set: vec![2, 1, 1], ..sample() }), before);
    assert_ne!(fingerprint(&Sample { first: 2, ..sample() }), before);
    assert_ne!(fingerprint(&Sample { second_field: Some("".into()), ..sample() }), before);
    assert_ne!(fingerprint(&Sample { set: vec![1], ..sample() }), before);
    for third in [Choice::Text("".into()), Choice::Text("a".into()), Choice::Both { left: 1, right: 2 }] {
        let inner = Inner { third };
        assert_ne!(fingerprint(&Sample { inner, ..sample() }), before);
    }
}

#[test]
fn canonical_parts_have_labels_from_the_field_documentation() {
    let labels =
        |form: &CanonicalForm| Vec::from_iter(form.parts.iter().map(|part| (part.prefix, part.label)));
    let before = form(&sample());
    assert_eq!(labels(&before), [("", "word"), ("", "second field"), ("", "set"), ("inner ", "third")]);
    let inner = Inner { third: Choice::Both { left: 1, right: 2 } };
    let after = form(&Sample { inner, ..sample() });
    let same = before.parts.iter().zip(&after.parts).map(|(a, b)| a == b);
    assert_eq!(Vec::from_iter(same), [true, true, true, false]);
}

#[test]
fn adjacent_values_have_unambiguous_fingerprints() {
    assert_ne!(fingerprint(&("a", "bc")), fingerprint(&("ab", "c")));
    assert_ne!(fingerprint(&vec![vec![1u8], vec![]]), fingerprint(&vec![vec![], vec![1u8]]));
    assert_ne!(fingerprint(&(Some(1u8), None::<u8>)), fingerprint(&(None::<u8>, Some(1u8))));
    assert_ne!(fingerprint(&Choice::Nothing), fingerprint(&Choice::Text("".into())));
}

/// Maps positions to names of objects.
struct ProxyNameList(&'static [&'static str]);

impl Referents for ProxyNameList {
    fn encode(&self, referent: Referent<'_>, out: &mut FormEncoder<'_>) {
        let Referent::Proxy(index) = referent else { panic!("{referent:?}") };
        out.named(ObjectKind::Backend, self.0[index as usize]);
    }
}

struct ProxyReference(u32);

impl Canonical for ProxyReference {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        out.referent(Referent::Proxy(self.0));
    }
}

#[derive(Canonical)]
struct Holder(
    #[canonical(with = shared)] Arc<ProxyReference>,
    #[canonical(with = shared)] Arc<ProxyReference>,
);

#[test]
fn references_are_fingerprinted_by_name_and_recorded() {
    let (before, after) = (ProxyNameList(&["a", "b"]), ProxyNameList(&["b", "a"]));
    let chosen = Arc::new(ProxyReference(0));
    let mut encoder = FormEncoder::new(&before);
    let form = encoder.form(&Holder(Arc::clone(&chosen), chosen));
    assert_eq!(Vec::from_iter(&form.references), [&ObjectName::new(ObjectKind::Backend, "a")]);
    let moved = Arc::new(ProxyReference(1));
    assert_eq!(FormEncoder::new(&after).form(&Holder(Arc::clone(&moved), Arc::clone(&moved))), form);
    // A cached form equals a new one, and the references of one object do not leak into the next.
    let other = encoder.form(&Holder(Arc::new(ProxyReference(0)), moved));
    assert_eq!(other.references.len(), 2);
    assert_ne!(other.fingerprint, form.fingerprint);
    assert!(encoder.form(&1u8).references.is_empty());
}

/// A form longer than the buffer is hashed in pieces, to its end.
#[test]
fn forms_longer_than_the_buffer_are_hashed_completely() {
    let long = |last: &str| {
        Vec::from_iter((0..100_000).map(|number| format!("entry {number}")).chain([last.to_owned()]))
    };
    assert_eq!(fingerprint(&long("a")), fingerprint(&long("a")));
    assert_ne!(fingerprint(&long("a")), fingerprint(&long("b")));
    assert_ne!(fingerprint(&(long("a"), "x")), fingerprint(&(long("a"), "y")));
}
