//! Fake TLS files that hold only their text, and one certificate list.

use weir_cli::target::*;

use super::Toy;

/// A toy's TLS state.
pub(crate) struct ToyTls {
    /// Kind, name, text, and whether it is in use.
    files: Vec<(TlsFileKind, String, String, bool)>,
    pending: Option<(TlsFileKind, String, String)>,
    lines: Vec<ListLine>,
    ticket_keys: Vec<TicketKeyFile>,
}

impl Default for ToyTls {
    fn default() -> Self {
        let file = |kind, name: &str| (kind, name.to_owned(), format!("Serial: {name}\n"), true);
        let line = |number| ListLine {
            number,
            certificate: "a.pem".to_owned(),
            options: "verify none".to_owned(),
            filters: vec!["*.example".to_owned(), "!b.example".to_owned()],
        };
        let keys = |file: &str| TicketKeyFile {
            file: file.to_owned(),
            secrets: vec!["one".to_owned(), "two".to_owned()],
        };
        ToyTls {
            files: vec![
                file(TlsFileKind::Certificate, "*star.pem"),
                file(TlsFileKind::Certificate, "a.pem"),
                file(TlsFileKind::Authorities, "ca.pem"),
            ],
            pending: None,
            lines: vec![line(2), line(4)],
            ticket_keys: ["b.keys", "a.keys"].map(keys).into(),
        }
    }
}

impl ToyTls {
    fn find(&self, kind: TlsFileKind, name: &str) -> Option<usize> {
        self.files.iter().position(|file| file.0 == kind && file.1 == name)
    }

    fn check_pending(&self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        match &self.pending {
            Some(pending) if pending.0 == kind && pending.1 == name => Ok(()),
            Some(pending) if pending.0 == kind => Err(TlsRefusal::Other(pending.1.clone())),
            _ => Err(TlsRefusal::Idle),
        }
    }
}

impl TlsTarget for Toy {
    fn tls_files(&self, kind: TlsFileKind) -> (Option<TlsFileName>, Vec<TlsFileName>) {
        let named = |name: &String| TlsFileName { name: name.clone(), count: 1 };
        let pending = self.tls.pending.as_ref().filter(|pending| pending.0 == kind);
        let held = self.tls.files.iter().filter(|file| file.0 == kind).map(|file| named(&file.1));
        (pending.map(|pending| named(&pending.1)), held.collect())
    }

    fn tls_file(&self, kind: TlsFileKind, name: &str, pending: bool) -> Option<TlsFileView> {
        if pending {
            self.tls.check_pending(kind, name).ok()?;
            let text = self.tls.pending.as_ref()?.2.clone();
            return Some(TlsFileView { used: true, parts: vec![text], ..TlsFileView::default() });
        }
        let (.., text, used) = &self.tls.files[self.tls.find(kind, name)?];
        let parts = if text.is_empty() { Vec::new() } else { vec![text.clone(), text.clone()] };
        let parts =
            if kind == TlsFileKind::Certificate { parts.into_iter().take(1).collect() } else { parts };
        Some(TlsFileView { used: *used, parts, ..TlsFileView::default() })
    }

    fn certificate_pem(&self, name: &str, pending: bool) -> Option<String> {
        self.tls_file(TlsFileKind::Certificate, name, pending).map(|view| view.parts.concat())
    }

    fn new_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        if self.tls.find(kind, name).is_some() {
            return Err(TlsRefusal::Exists);
        }
        self.tls.files.push((kind, name.to_owned(), String::new(), false));
        Ok(())
    }

    fn set_tls_file(
        &mut self,
        kind: TlsFileKind,
        name: &str,
        text: &str,
        add: bool,
    ) -> Result<bool, TlsRefusal> {
        let begun = match self.tls.check_pending(kind, name) {
            Err(TlsRefusal::Idle) => true,
            checked => checked.map(|()| false)?,
        };
        let at = self.tls.find(kind, name).ok_or(TlsRefusal::Unknown)?;
        if text.trim() == "garbage" {
            return Err(TlsRefusal::Unfit("Invalid payload".to_owned()));
        }
        let before = if add { self.tls.files[at].2.clone() } else { String::new() };
        self.tls.pending = Some((kind, name.to_owned(), before + text));
        Ok(begun)
    }

    fn commit_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<usize, TlsRefusal> {
        self.tls.check_pending(kind, name)?;
        let at = self.tls.find(kind, name).ok_or(TlsRefusal::Unknown)?;
        self.tls.files[at].2 = self.tls.pending.take().ok_or(TlsRefusal::Idle)?.2;
        Ok(if self.tls.files[at].3 { 2 } else { 0 })
    }

    fn abort_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        self.tls.check_pending(kind, name)?;
        self.tls.pending = None;
        Ok(())
    }

    fn delete_tls_file(&mut self, kind: TlsFileKind, name: &str) -> Result<(), TlsRefusal> {
        let at = self.tls.find(kind, name).ok_or(TlsRefusal::Unknown)?;
        if self.tls.files[at].3 {
            return Err(TlsRefusal::Used);
        }
        self.tls.files.remove(at);
        Ok(())
    }

    fn certificate_lists(&self) -> Vec<String> {
        vec!["sites".to_owned()]
    }

    fn certificate_list(&self, name: &str) -> Option<Vec<ListLine>> {
        (name == "sites").then(|| self.tls.lines.clone())
    }

    fn add_list_line(&mut self, list: &str, line: &str) -> Result<String, ListRefusal> {
        if list != "sites" {
            return Err(ListRefusal::UnknownList);
        }
        let certificate = line.split(' ').next().unwrap_or_default().to_owned();
        let at =
            self.tls.find(TlsFileKind::Certificate, &certificate).ok_or(ListRefusal::UnknownCertificate)?;
        if self.tls.files[at].2.is_empty() {
            return Err(ListRefusal::Empty);
        }
        Ok(certificate)
    }

    fn delete_list_line(
        &mut self,
        list: &str,
        certificate: &str,
        number: Option<usize>,
    ) -> Result<(), ListRefusal> {
        if list != "sites" {
            return Err(ListRefusal::UnknownList);
        }
        self.tls.find(TlsFileKind::Certificate, certificate).ok_or(ListRefusal::UnknownCertificate)?;
        let found: Vec<usize> = self
            .tls
            .lines
            .iter()
            .filter(|line| line.certificate == certificate)
            .map(|line| line.number)
            .collect();
        let number = match number {
            _ if found.is_empty() => return Err(ListRefusal::NotListed),
            None if found.len() > 1 => return Err(ListRefusal::Several(found)),
            None => found[0],
            Some(number) if found.contains(&number) => number,
            Some(_) => return Err(ListRefusal::WrongLine(found)),
        };
        // The list is the first on two `bind` lines.
        if self.tls.lines.len() == 1 {
            return Err(ListRefusal::Default(vec!["a.cfg:3".to_owned(), "a.cfg:9".to_owned()]));
        }
        self.tls.lines.retain(|line| line.number != number);
        Ok(())
    }

    fn ocsp_responses(&self) -> Vec<OcspEntry> {
        let entry = |key: &str| OcspEntry {
            key: key.to_owned(),
            path: format!("{key}.pem"),
            id: "   Serial Number: 7\n".to_owned(),
        };
        ["30aa", "30bb"].map(entry).into()
    }

    fn ocsp_response(&self, name: &str, pending: bool) -> Option<OcspView> {
        let known = ["30aa", "30aa.pem"].contains(&name) || (pending && name == "b.pem");
        known.then(|| OcspView { text: format!("of {name}\n"), base64: "QUJD".to_owned() })
    }

    fn set_ocsp_response(&mut self, text: &str) -> Result<(), OcspRefusal> {
        match text.trim() {
            "?" => Err(OcspRefusal::NotBase64),
            "QUJD" => Ok(()),
            _ => Err(OcspRefusal::Unfit("too old".to_owned())),
        }
    }

    fn ocsp_updates(&self) -> Vec<OcspUpdate> {
        let update = |key: &str, renewed, code, text: &str| OcspUpdate {
            key: key.to_owned(),
            path: format!("{key}.pem"),
            due: 1_795_467_626,
            renewed,
            successes: u64::from(renewed.is_some()),
            failures: u64::from(renewed.is_none()),
            code,
            text: text.to_owned(),
        };
        vec![
            update("30aa", Some(1_795_467_624), 1, "Update successful"),
            update("30bb", None, 4, "OCSP response check failure (why)"),
        ]
    }

    fn update_ocsp(&mut self, certificate: &str) -> Result<Box<dyn Later>, String> {
        match certificate {
            "30aa.pem" => Ok(Box::new(Soon(Some(format!("of {certificate}\n"))))),
            _ => Err("it is not known".to_owned()),
        }
    }

    fn request(&mut self, method: &str, url: &str) -> Result<Box<dyn Later>, String> {
        match url.strip_prefix("http://") {
            Some(rest) => Ok(Box::new(Soon(Some(format!("{method} {rest}\n"))))),
            None => Err("the URL has no scheme".to_owned()),
        }
    }

    fn ticket_keys(&self) -> Vec<TicketKeyFile> {
        self.tls.ticket_keys.clone()
    }

    fn push_ticket_key(&mut self, file: &str, key: &str) -> Result<(), TicketKeyRefusal> {
        let found = self.tls.ticket_keys.iter_mut().find(|keys| keys.file == file);
        let found = found.ok_or(TicketKeyRefusal::UnknownFile)?;
        match key {
            "?" => return Err(TicketKeyRefusal::NotBase64),
            "longer" => return Err(TicketKeyRefusal::WrongSize),
            key => found.secrets.push(key.to_owned()),
        }
        Ok(())
    }

    fn served_names(&self, frontend: Option<&str>, ending_before: Option<i64>) -> Option<Vec<ServedName>> {
        if frontend.is_some_and(|frontend| frontend != "f") {
            return None;
        }
        let name = ServedName {
            place: "f/a.cfg:3".to_owned(),
            name: "*.example".to_owned(),
            except: vec!["!b.example".to_owned()],
            algorithm: "rsa",
            certificate: "a.pem".to_owned(),
            not_before: format!("{ending_before:?}"),
            not_after: "then".to_owned(),
        };
        Some(vec![name])
    }
}

/// A result that is available immediately.
struct Soon(Option<String>);

impl Later for Soon {
    fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}
