//! Notes for checks at the end of a section, because `mode log` may follow the lines that depend on it.

use weir_syntax::Span;

use crate::server::is_for_log_streams;

/// Words of a section that depend on its mode. Only the first use of each keyword is recorded.
#[derive(Debug, Default)]
pub(crate) struct LogNotes {
    pub(crate) keywords: Vec<(&'static str, Span)>,
    pub(crate) options: Vec<(&'static str, Span)>,
    pub(crate) server_words: Vec<(&'static str, Span)>,
    /// Servers that take datagrams: the name in messages, and the span of the address.
    pub(crate) datagrams: Vec<(Box<str>, Span)>,
    /// Connection words on the lines of such servers.
    pub(crate) idle_words: Vec<(&'static str, Span)>,
}

impl LogNotes {
    /// Records the keyword of a line.
    pub(crate) fn note_keyword(&mut self, name: &'static str, span: Span) {
        note(&mut self.keywords, name, span);
    }

    /// Records an enabled option.
    pub(crate) fn note_option(&mut self, name: &'static str, span: Span) {
        note(&mut self.options, name, span);
    }

    /// Records the words of a server line. `datagrams` is the span of the address if the server takes datagrams.
    pub(crate) fn note_server(
        &mut self,
        subject: &str,
        datagrams: Option<Span>,
        words: Vec<(&'static str, Span)>,
    ) {
        if let Some(span) = datagrams {
            self.datagrams.push((subject.into(), span));
        }
        for (name, span) in words {
            if datagrams.is_some() && is_for_log_streams(name) {
                note(&mut self.idle_words, name, span);
            }
            note(&mut self.server_words, name, span);
        }
    }

    pub(crate) fn keyword(&self, name: &str) -> Option<Span> {
        place(&self.keywords, name)
    }
}

fn note(list: &mut Vec<(&'static str, Span)>, name: &'static str, span: Span) {
    if place(list, name).is_none() {
        list.push((name, span));
    }
}

pub(crate) fn place(list: &[(&'static str, Span)], name: &str) -> Option<Span> {
    list.iter().find(|(known, _)| *known == name).map(|(_, span)| *span)
}
