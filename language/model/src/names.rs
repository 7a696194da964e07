//! Canonical forms of fields that name objects.
//!
//! A live object, such as a backend or a ring, is encoded by its name; a mere declaration, such as a `healthcheck` section, by its
//! content.

use std::sync::Arc;

use weir_expr::Location;
use weir_fingerprint::{Canonical, FormEncoder, ObjectKind, Referent};

use super::address::Host;

/// A section of this kind, if one is named.
fn named(kind: ObjectKind, name: Option<&str>, out: &mut FormEncoder<'_>) {
    name.is_some().encode(out);
    if let Some(name) = name {
        out.named(kind, name);
    }
}

pub(super) fn resolvers(name: &Option<Arc<str>>, out: &mut FormEncoder<'_>) {
    named(ObjectKind::Resolvers, name.as_deref(), out);
}

pub(super) fn client_resolvers(said: &Option<(Box<str>, Location)>, out: &mut FormEncoder<'_>) {
    named(ObjectKind::Resolvers, said.as_ref().map(|(name, _)| &**name), out);
}

pub(super) fn mailers(name: &Option<Arc<str>>, out: &mut FormEncoder<'_>) {
    named(ObjectKind::Mailers, name.as_deref(), out);
}

pub(super) fn peers(name: &Option<Box<str>>, out: &mut FormEncoder<'_>) {
    named(ObjectKind::Peers, name.as_deref(), out);
}

pub(super) fn written_table(name: &Option<Box<str>>, out: &mut FormEncoder<'_>) {
    named(ObjectKind::Table, name.as_deref(), out);
}

pub(super) fn ring(name: &Arc<str>, out: &mut FormEncoder<'_>) {
    out.named(ObjectKind::Ring, name);
}

pub(super) fn log_backend(name: &Arc<str>, out: &mut FormEncoder<'_>) {
    out.referent(Referent::LogBackend(name));
}

/// Encodes the content of the section: its checks.
pub(super) fn health_check(name: &Option<Arc<str>>, out: &mut FormEncoder<'_>) {
    name.is_some().encode(out);
    if let Some(name) = name {
        out.referent(Referent::HealthCheck(name));
    }
}

pub(super) fn proxy_of_updates(proxy: &Option<(Host, u16, Location)>, out: &mut FormEncoder<'_>) {
    proxy.as_ref().map(|(host, port, _)| (host, *port)).encode(out);
}

pub(super) fn own_server(server: &u32, out: &mut FormEncoder<'_>) {
    out.referent(Referent::OwnServer(*server));
}
