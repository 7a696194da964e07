//! `http-errors` sections: error messages that several proxies share (manual, section "HTTP-errors").

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line};

use crate::reply::read_error_file;
use crate::resources::Resources;
use crate::rows::{Handler, Row, Table};
use crate::words::{Parsed, Words, fault, prefixed};
use weir_model::{ErrorReplies, ErrorReply, HttpErrors, Location};

/// Every `http-errors` section by name.
#[derive(Debug, Default)]
pub(crate) struct HttpErrorsSections {
    sections: BTreeMap<Box<str>, (Location, Arc<ErrorReplies>)>,
}

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct HttpErrorsReader {
    name: Box<str>,
    at: Location,
    replies: ErrorReplies,
}

/// Reads one line of the section.
pub(crate) type HttpErrorsKeyword = fn(&mut HttpErrorsReader, Resources<'_>, &mut Words<'_>) -> Parsed;

/// Every word of the section.
pub(crate) static HTTP_ERRORS_KEYWORDS: Table<HttpErrorsKeyword> = Table::new(&[&[Row::ready(
    "errorfile",
    "<code> <file>",
    "503 /dev/null",
    "a file that holds the response to an error",
    |reader, resources, words| reader.error_file(resources, words),
)]]);

impl HttpErrorsSections {
    /// The messages of the section with this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<ErrorReplies>> {
        self.sections.get(name).map(|(_, replies)| replies.clone())
    }

    /// Starts the section of a section line.
    pub(crate) fn begin(&self, line: &Line, at: Location) -> Parsed<HttpErrorsReader> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing name for http-errors section.")?;
        words.end("http-errors")?;
        if let Some((other, _)) = self.sections.get(name.text()) {
            let message = format!("http-errors section '{name}' already exists (declared at {other}).");
            return Err(Box::new(Diagnostic::alert(name.span(), message).layout(Layout::ParsingTight)));
        }
        Ok(HttpErrorsReader { name: name.text().into(), at, replies: ErrorReplies::default() })
    }

    /// All sections, by name.
    pub(crate) fn into_sections(self) -> Vec<HttpErrors> {
        let sections = self.sections.into_iter();
        sections.map(|(name, (at, replies))| HttpErrors { name, at, replies }).collect()
    }

    /// Stores a finished section.
    pub(crate) fn end(&mut self, reader: HttpErrorsReader) {
        self.sections.insert(reader.name, (reader.at, Arc::new(reader.replies)));
    }
}

impl HttpErrorsReader {
    /// Reads one line.
    pub(crate) fn line(&mut self, line: &Line, resources: Resources<'_>, diagnostics: &mut Diagnostics) {
        let keyword = line.keyword();
        let Some(row) = HTTP_ERRORS_KEYWORDS.find(keyword.text()) else {
            let message = format!("unknown keyword '{keyword}' in 'http-errors' section");
            let nearest = HTTP_ERRORS_KEYWORDS.nearest(keyword.text());
            diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
            return;
        };
        let Handler::Ready(read) = row.handler else { return };
        if let Err(fault) = read(self, resources, &mut Words::new(line, 1)) {
            diagnostics.push(*fault);
        }
    }

    fn error_file(&mut self, resources: Resources<'_>, words: &mut Words<'_>) -> Parsed {
        let expects = "errorfile: expects <status_code> and <file> as arguments.";
        let code = words.expect(expects)?;
        let path = words.expect(expects)?;
        let status = code.text().parse().ok().filter(|status| ErrorReplies::STATUSES.contains(status));
        let Some(status) = status else {
            return Err(fault(code.span(), format!("errorfile : status code '{code}' not handled.")));
        };
        let message =
            read_error_file(resources.loader, path).map_err(|fault| prefixed(fault, "errorfile : "))?;
        words.end("errorfile")?;
        self.replies.set(status, ErrorReply::Message(message));
        Ok(())
    }
}
