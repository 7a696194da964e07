//! The objects of a configuration and their fingerprints, for the comparison of two configurations.
//!
//! Kind and name identify an object. Its fingerprint covers its meaning: inherited settings, expanded environment variables,
//! the content of maps, error files and lists of users. It does not cover comments, the order of sections, or the spelling of
//! values. Another live object (a backend, a table, a ring) counts by its name; [`CanonicalForm::references`] lists those
//! names. `doc/design/fingerprints.md` has the reasons.
//!
//! Nothing is computed while a configuration is read. Objects are taken right after that: the runtime API changes maps and ACLs.

use std::collections::{BTreeMap, BTreeSet};

use weir_expr::VariableNames;
use weir_fingerprint::{Canonical, CanonicalForm, FormEncoder, ObjectKind, ObjectName, Referent, Referents};

use crate::{
    Bind, CertificateUse, Config, GlobalTls, LineDefaults, ListenAddress, Location, Proxy, ProxySection,
    Server, TlsDefaults, TraceLine,
};

/// An object of a configuration.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its kind and name.
    pub name: ObjectName,
    /// Location of the object. The file is empty if the object is not in one place.
    pub at: Location,
    /// Its fingerprint, its parts and the objects that it names.
    pub form: CanonicalForm,
}

/// A difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    pub object: ObjectName,
    /// Location in the new configuration, or in the old one if the object was removed.
    pub at: Location,
    /// Whether the object was added, removed or changed.
    pub kind: ChangeKind,
}

/// Whether an object was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    /// The meaning changed. Contains the labels of the parts that differ.
    Changed(Vec<String>),
}

/// Every object of a configuration, by kind and name. `variables` has the names of the configuration's variables.
pub fn objects(config: &Config, variables: &VariableNames) -> Vec<Object> {
    // A new list of the configuration must be added below.
    let Config {
        global,
        userlists,
        proxies,
        tables,
        rings,
        resolvers,
        certificate_stores,
        log_forwards,
        mailers,
        peers,
        http_errors,
        health_checks,
        applications,
        traces,
    } = config;
    let names = ConfigNames { config, variables, proxy: 0.into() };
    let mut list = ObjectList { config, encoder: FormEncoder::new(&names), objects: Vec::new() };
    list.add(ObjectKind::Global, "", &Location::default(), global);
    list.binds("global", &global.sockets, &[]);
    for (index, proxy) in proxies.iter().enumerate() {
        names.proxy.set(index as u32);
        list.add(kind_of(proxy), &proxy.name, &proxy.at, proxy);
        list.binds(&proxy.name, &proxy.binds, &proxy.certificates);
        for server in &proxy.servers {
            let name = name_of_server(proxy, server);
            let line = ServerWithDefaults { server, tls: global.tls.above(&config.global.files, &server.at) };
            list.add(ObjectKind::Server, &name, &server.at, &line);
        }
    }
    for table in tables {
        list.add(ObjectKind::Table, &table.declaration.name, &table.at, table);
    }
    for section in userlists {
        list.add(ObjectKind::Userlist, &section.name, &section.at, section);
    }
    for section in resolvers {
        list.add(ObjectKind::Resolvers, &section.name, &section.at, section);
    }
    for section in peers {
        list.add(ObjectKind::Peers, &section.name, &section.at, section);
        list.binds(&format!("peers {}", section.name), section.bind.as_slice(), &[]);
    }
    for section in mailers {
        list.add(ObjectKind::Mailers, &section.name, &section.at, section);
    }
    for section in rings {
        list.add(ObjectKind::Ring, &section.name, &section.at, section);
    }
    for section in log_forwards {
        list.add(ObjectKind::LogForward, &section.name, &section.at, section);
        list.binds(&section.name, &section.binds, &[]);
        list.binds(&section.name, &section.datagram_binds, &[]);
    }
    for section in http_errors {
        list.add(ObjectKind::HttpErrors, &section.name, &section.at, section);
    }
    for section in certificate_stores {
        list.add(ObjectKind::CrtStore, &section.name, &section.at, section);
    }
    for section in health_checks {
        list.add(ObjectKind::HealthCheck, &section.name, &section.at, section);
    }
    for section in applications {
        list.add(ObjectKind::FcgiApp, &section.name, &section.at, &**section);
    }
    if let Some(TraceLine { at, .. }) = traces.first() {
        list.add(ObjectKind::Traces, "", at, traces);
    }
    list.finish()
}

/// The differences, in the order of kinds and names. Both lists are as [`objects`] returns them.
pub fn differences(old: &[Object], new: &[Object]) -> Vec<ObjectChange> {
    let known: BTreeMap<&ObjectName, &Object> = old.iter().map(|object| (&object.name, object)).collect();
    let present: BTreeSet<&ObjectName> = new.iter().map(|object| &object.name).collect();
    let change =
        |object: &Object, kind| ObjectChange { object: object.name.clone(), at: object.at.clone(), kind };
    let mut changes = Vec::new();
    for object in old.iter().filter(|object| !present.contains(&object.name)) {
        changes.push(change(object, ChangeKind::Removed));
    }
    for object in new {
        match known.get(&object.name) {
            None => changes.push(change(object, ChangeKind::Added)),
            Some(former) if former.form.fingerprint == object.form.fingerprint => {}
            Some(former) => {
                let parts = changed_parts(&former.form, &object.form);
                changes.push(change(object, ChangeKind::Changed(parts)));
            }
        }
    }
    changes.sort_by(|a, b| a.object.cmp(&b.object));
    changes
}

/// The labels of the parts that differ, each once.
fn changed_parts(old: &CanonicalForm, new: &CanonicalForm) -> Vec<String> {
    let differs = |part: &&weir_fingerprint::FormPart| !old.parts.contains(part) || !new.parts.contains(part);
    let mut labels = Vec::new();
    for part in new.parts.iter().chain(&old.parts).filter(differs) {
        let label = format!("{}{}", part.prefix, part.label);
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

fn kind_of(proxy: &Proxy) -> ObjectKind {
    match proxy.section {
        ProxySection::Frontend => ObjectKind::Frontend,
        ProxySection::Backend => ObjectKind::Backend,
        ProxySection::Listen => ObjectKind::Listen,
    }
}

fn name_of_server(proxy: &Proxy, server: &Server) -> Box<str> {
    format!("{}/{}", proxy.name, server.name).into()
}

/// The objects found so far.
struct ObjectList<'c, 'n> {
    config: &'c Config,
    encoder: FormEncoder<'n>,
    objects: Vec<Object>,
}

impl ObjectList<'_, '_> {
    fn add(&mut self, kind: ObjectKind, name: &str, at: &Location, value: &impl Canonical) {
        let form = self.encoder.form(value);
        self.objects.push(Object { name: ObjectName::new(kind, name), at: at.clone(), form });
    }

    fn binds(&mut self, owner: &str, binds: &[Bind], certificates: &[CertificateUse]) {
        for bind in binds {
            let line = BindWithDefaults {
                bind,
                tls: self.config.global.tls.above(&self.config.global.files, &bind.at),
                certificates,
                config: self.config,
            };
            self.add(ObjectKind::Bind, &format!("{owner}/{}", bind.label()), &bind.at, &line);
        }
    }

    /// Numbers lines with the same name, in an order that does not depend on the file.
    fn finish(mut self) -> Vec<Object> {
        let key = |object: &Object| (object.name.clone(), object.form.fingerprint);
        self.objects.sort_by_cached_key(key);
        let mut number = 1;
        let mut former = None;
        for object in &mut self.objects {
            number = if former.as_ref() == Some(&object.name) { number + 1 } else { 1 };
            former = Some(object.name.clone());
            if number > 1 {
                object.name.name = format!("{} ({number})", object.name.name).into();
            }
        }
        self.objects
    }
}

/// TLS settings of enclosing sections that apply to a line.
struct TlsAbove<'c> {
    global: &'c GlobalTls,
    defaults: &'c TlsDefaults,
}

impl GlobalTls {
    fn above(&self, files: &[std::sync::Arc<str>], line: &Location) -> TlsAbove<'_> {
        let count = self.count_of_defaults_above(files, line);
        TlsAbove { global: self, defaults: self.defaults_below(count) }
    }
}

impl TlsAbove<'_> {
    /// The base folders of relative paths, and the sources of missing files.
    fn encode_files(&self, out: &mut FormEncoder<'_>) {
        let GlobalTls {
            certificate_base, key_base, authority_base, chain_folders, skips_self_issued, ..
        } = self.global;
        (certificate_base, key_base, authority_base).encode(out);
        out.set(chain_folders);
        skips_self_issued.encode(out);
        self.defaults.extra_files.encode(out);
        self.defaults.replaces_extension.encode(out);
    }
}

/// A `server` line with the settings of the global section that apply to it.
struct ServerWithDefaults<'c> {
    server: &'c Server,
    tls: TlsAbove<'c>,
}

impl Canonical for ServerWithDefaults<'_> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let ServerWithDefaults { server, tls } = self;
        server.encode(out);
        if let Some(line) = &server.settings.tls {
            let defaults: &LineDefaults = &tls.defaults.server;
            out.flat("", &defaults.under(&line.options));
            out.field("ssl-server-verify", &tls.global.server_verify);
            out.field_with("files of certificates", |out| tls.encode_files(out));
        }
    }
}

/// A `bind` line with the settings of the global section and of its own section that apply to it.
struct BindWithDefaults<'c> {
    bind: &'c Bind,
    tls: TlsAbove<'c>,
    /// `ssl-f-use` lines of the section.
    certificates: &'c [CertificateUse],
    config: &'c Config,
}

impl Canonical for BindWithDefaults<'_> {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let BindWithDefaults { bind, tls, certificates, config } = self;
        bind.encode(out);
        if let Some(line) = &bind.options.tls {
            let TlsDefaults { extra_files: _, replaces_extension: _, strict_names, listener, server: _ } =
                tls.defaults;
            out.flat("", &listener.under(&line.options));
            out.field("strict-sni", strict_names);
            out.field("ssl-f-use", *certificates);
            out.field_with("files of certificates", |out| tls.encode_files(out));
        }
        if bind.addresses.iter().any(|address| matches!(address, ListenAddress::Unix(_))) {
            out.field("unix-bind", &config.global.unix_bind);
        }
    }
}

/// The names of the objects of a configuration.
struct ConfigNames<'c> {
    config: &'c Config,
    variables: &'c VariableNames,
    /// The position of the proxy that is being encoded.
    proxy: std::cell::Cell<u32>,
}

impl ConfigNames<'_> {
    fn proxy(&self, index: u32) -> Option<&Proxy> {
        self.config.proxies.get(index as usize)
    }

    fn server(&self, proxy: u32, server: u32) -> Option<ObjectName> {
        let proxy = self.proxy(proxy)?;
        let server = proxy.servers.get(server as usize)?;
        Some(ObjectName::new(ObjectKind::Server, name_of_server(proxy, server)))
    }

    fn object(&self, referent: Referent<'_>) -> Option<ObjectName> {
        match referent {
            Referent::Proxy(index) => {
                let proxy = self.proxy(index)?;
                Some(ObjectName::new(kind_of(proxy), &*proxy.name))
            }
            Referent::Server(proxy, server) => self.server(proxy, server),
            Referent::OwnServer(server) => self.server(self.proxy.get(), server),
            Referent::Table(index) => {
                let table = self.config.tables.get(index as usize)?;
                Some(ObjectName::new(ObjectKind::Table, &*table.declaration.name))
            }
            Referent::LogBackend(name) => {
                let mut backends = self.config.proxies.iter().filter(|proxy| proxy.is_backend());
                let proxy = backends.find(|proxy| *proxy.name == *name)?;
                Some(ObjectName::new(kind_of(proxy), name))
            }
            Referent::FcgiApplication(name) => Some(ObjectName::new(ObjectKind::FcgiApp, name)),
            Referent::Variable(_) | Referent::Userlist(_) | Referent::HealthCheck(_) => None,
        }
    }
}

impl Referents for ConfigNames<'_> {
    fn encode(&self, referent: Referent<'_>, out: &mut FormEncoder<'_>) {
        match referent {
            Referent::Variable(number) => out.text(&self.variables.name(number)),
            Referent::Userlist(index) => self.config.userlists.get(index as usize).encode(out),
            Referent::HealthCheck(name) => {
                name.encode(out);
                let mut sections = self.config.health_checks.iter();
                sections.find(|section| *section.name == *name).encode(out);
            }
            // In a valid configuration, every named object exists.
            referent => match self.object(referent) {
                Some(object) => out.object(object),
                None => out.text(""),
            },
        }
    }
}
