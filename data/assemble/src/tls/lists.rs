//! Lists of certificates at run time: their lines, and the certificates that listeners have from them.

use weir_model::{Bind, CertificateSource};
use weir_tls::ListenerCertificate;
use weir_tls::views::{ListLine, ListRefusal};

use super::live::LiveBind;
use super::{ListedLine, TlsBuilder, based};

/// The lists of a builder. A list file is one, and so is a folder.
pub(super) struct CertificateLists<'b> {
    builder: &'b mut TlsBuilder,
}

impl<'b> CertificateLists<'b> {
    pub(super) fn new(builder: &'b mut TlsBuilder) -> Self {
        CertificateLists { builder }
    }

    /// The names of the lists, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.builder.lists.keys().map(ToString::to_string).collect()
    }

    /// The lines of a list, in order. `None` for an unknown list.
    pub(super) fn lines(&mut self, name: &str) -> Option<Vec<ListLine>> {
        let name = &*self.full_name(name);
        let lines = self.builder.lists.get(name)?.clone();
        let options = weir_model::TlsOptions::default();
        let shown = lines.iter().filter_map(|line| {
            let parsed = self.builder.parse_line(name, line, &options).ok()?;
            Some(ListLine {
                number: parsed.number,
                certificate: parsed.path.into(),
                options: parsed.written.into(),
                filters: parsed.filters.into_iter().map(Into::into).collect(),
            })
        });
        Some(shown.collect())
    }

    /// Adds a line to a list, and its certificates to the listeners with the list. Returns the path of its certificate. After a failure
    /// nothing is published.
    pub(super) fn add_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal> {
        let list = &*self.full_name(list);
        let lines = self.builder.lists.get(list).ok_or(ListRefusal::UnknownList)?;
        let number = lines.last().map_or(0, |line| line.number) + 1;
        let line =
            ListedLine { number, text: line.into(), is_path: self.builder.certificates.contains_key(line) };
        let parsed = self.builder.parse_line(list, &line, &weir_model::TlsOptions::default());
        let name = parsed.map_err(ListRefusal::Unfit)?.path;
        match self.builder.certificates.get(&name) {
            None => return Err(ListRefusal::UnknownCertificate),
            Some(None) => return Err(ListRefusal::Empty),
            Some(Some(_)) => {}
        }
        let base = self.builder.defaults.global.certificate_base.clone();
        let mut binds = std::mem::take(&mut self.builder.binds);
        let mut fault = None;
        let mut made: Vec<(&mut LiveBind, Vec<ListenerCertificate>)> = Vec::new();
        for bind in binds.iter_mut().filter(|bind| has_list(&bind.bind, list, base.as_deref())) {
            let Some(tls) = bind.bind.options.tls.clone() else { continue };
            self.builder.authorities.forget_used();
            match self.builder.listed(&bind.bind, &tls.options, list, &line, &mut None) {
                Ok(entries) => {
                    bind.files.extend(self.builder.authorities.used());
                    made.push((bind, entries));
                }
                Err(found) => fault = found,
            }
        }
        let fault = fault.or(self.builder.take_fault());
        if fault.is_none() {
            for (bind, new) in made {
                let now = bind.live.now();
                bind.live.publish(now.with_entries(now.entries().iter().cloned().chain(new)));
            }
        }
        self.builder.binds = binds;
        if let Some(fault) = fault {
            return Err(ListRefusal::Unfit(fault));
        }
        if let Some(lines) = self.builder.lists.get_mut(list) {
            lines.push(line);
        }
        Ok(name.into())
    }

    /// Deletes a line of a list, and its certificates from the listeners with the list. The number selects one of several lines with this
    /// certificate.
    pub(super) fn delete_line(
        &mut self,
        list: &str,
        name: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal> {
        let list = &*self.full_name(list);
        let lines = self.builder.lists.get(list).ok_or(ListRefusal::UnknownList)?.clone();
        if !self.builder.certificates.contains_key(name) {
            return Err(ListRefusal::UnknownCertificate);
        }
        let options = weir_model::TlsOptions::default();
        let base = self.builder.defaults.global.certificate_base.clone();
        let names_it = |line: &&ListedLine| {
            let parsed = self.builder.parse_line(list, line, &options);
            parsed.is_ok_and(|parsed| *parsed.path == *name || based(&parsed.path, base.as_deref()) == *name)
        };
        let found: Vec<usize> = lines.iter().filter(names_it).map(|line| line.number).collect();
        let number = match (number, &found[..]) {
            (_, []) => return Err(ListRefusal::NotListed),
            (None, [only]) => *only,
            (None, _) => return Err(ListRefusal::Several(found)),
            (Some(number), _) if found.contains(&number) => number,
            (Some(_), _) => return Err(ListRefusal::WrongLine(found)),
        };
        let is_of = |entry: &&ListenerCertificate| {
            let line = entry.part().line.as_ref();
            line.is_some_and(|(of, at)| **of == *list && *at == number)
        };
        let has_it_first = |bind: &&LiveBind| bind.live.now().implicit_default().as_ref().is_some_and(is_of);
        let holders: Vec<String> =
            self.builder.binds.iter().filter(has_it_first).map(|bind| bind.bind.at.to_string()).collect();
        if !holders.is_empty() {
            return Err(ListRefusal::Default(holders));
        }
        for bind in &self.builder.binds {
            let now = bind.live.now();
            if now.entries().iter().any(|entry| is_of(&entry)) {
                let kept: Vec<ListenerCertificate> =
                    now.entries().iter().filter(|entry| !is_of(entry)).cloned().collect();
                bind.live.publish(now.with_entries(kept));
            }
        }
        if let Some(lines) = self.builder.lists.get_mut(list) {
            lines.retain(|line| line.number != number);
        }
        self.forget_files(lines.iter().filter(|line| line.number == number));
        Ok(())
    }

    /// The configured name of a list. Trailing slashes of a folder are ignored.
    fn full_name(&self, name: &str) -> Box<str> {
        let bare = |name: &str| name.trim_end_matches('/').len();
        let mut known = self.builder.lists.keys();
        let found = known.find(|known| known[..bare(known)] == name[..bare(name)]);
        found.cloned().unwrap_or_else(|| name.into())
    }

    /// Call after lines were removed. Authority and revocation files that only these lines used can then be deleted.
    fn forget_files<'l>(&mut self, mut lines: impl Iterator<Item = &'l ListedLine>) {
        // Most lines use no such file, and rebuilding a listener with thousands of certificates takes long.
        if !lines.any(|line| line.text.contains("ca-") || line.text.contains("crl-")) {
            return;
        }
        let mut binds = std::mem::take(&mut self.builder.binds);
        for bind in &mut binds {
            self.builder.authorities.forget_used();
            // The listener does not change. It is rebuilt only to record which files it uses.
            if self.builder.make_listener(&bind.bind).is_some() {
                bind.files = self.builder.authorities.used();
            }
        }
        self.builder.binds = binds;
        let _ = self.builder.take_fault();
    }
}

fn has_list(bind: &Bind, list: &str, base: Option<&str>) -> bool {
    let sources = bind.options.tls.iter().flat_map(|tls| &tls.certificates);
    sources.into_iter().any(|source| match source {
        CertificateSource::List(path) => **path == *list,
        CertificateSource::Path(path) => based(path, base) == *list,
    })
}

#[cfg(test)]
mod tests {
    use weir_syntax::{NoFiles, SharedFiles};

    use super::*;

    /// The list of a folder, with certificates that are still empty.
    fn builder() -> TlsBuilder {
        let mut builder = TlsBuilder::new(&weir_model::Global::default(), &[], SharedFiles::new(NoFiles));
        let texts = ["a.pem", "b.pem", "a.pem [alpn h2]"];
        let lines =
            (1..).zip(texts).map(|(number, text)| ListedLine { number, text: text.into(), is_path: false });
        builder.lists.insert("/certs/".into(), lines.collect());
        for name in ["a.pem", "b.pem"] {
            builder.certificates.insert(name.into(), None);
        }
        builder
    }

    fn numbers(lists: &mut CertificateLists<'_>, name: &str) -> Option<Vec<usize>> {
        Some(lists.lines(name)?.iter().map(|line| line.number).collect())
    }

    #[test]
    fn slashes_at_the_end_of_a_folder_are_optional() {
        let mut builder = builder();
        let mut lists = CertificateLists::new(&mut builder);
        for name in ["/certs", "/certs/", "/certs//"] {
            assert_eq!(numbers(&mut lists, name), Some(vec![1, 2, 3]), "{name}");
        }
        assert_eq!(numbers(&mut lists, "/cert"), None);
    }

    #[test]
    fn a_line_is_deleted_by_its_certificate_and_its_number() {
        let mut builder = builder();
        let mut lists = CertificateLists::new(&mut builder);
        let mut delete = |name, number| lists.delete_line("/certs", name, number);
        assert_eq!(delete("c.pem", None), Err(ListRefusal::UnknownCertificate));
        assert_eq!(delete("a.pem", None), Err(ListRefusal::Several(vec![1, 3])));
        assert_eq!(delete("a.pem", Some(2)), Err(ListRefusal::WrongLine(vec![1, 3])));
        assert_eq!(delete("a.pem", Some(3)), Ok(()));
        assert_eq!(delete("a.pem", None), Ok(()));
        assert_eq!(delete("a.pem", None), Err(ListRefusal::NotListed));
        assert_eq!(numbers(&mut lists, "/certs"), Some(vec![2]));
    }

    #[test]
    fn a_line_needs_a_list_and_a_certificate_with_contents() {
        let mut builder = builder();
        let mut lists = CertificateLists::new(&mut builder);
        assert_eq!(lists.add_line("/none", "a.pem"), Err(ListRefusal::UnknownList));
        assert_eq!(lists.add_line("/certs", "c.pem"), Err(ListRefusal::UnknownCertificate));
        assert_eq!(lists.add_line("/certs", "a.pem"), Err(ListRefusal::Empty));
        assert_eq!(numbers(&mut lists, "/certs"), Some(vec![1, 2, 3]));
    }
}
