//! The complete response to a `GET` of the statistics, in any format.

use crate::dump::{DumpProgress, StatsDump};
use crate::page::{PageDump, PageSettings};
use crate::row::StatsRow;
use crate::schema::SCHEMA;
use crate::source::StatsSource;
use crate::uri::{StatsRequest, What};

/// A response in progress. Its header fields: `Content-Type` from [`StatsRequest::content_type`], `Cache-Control: no-cache`, and
/// `Refresh` if [`PageSettings::refresh`] returns a value.
#[derive(Debug)]
pub struct StatsAnswer {
    body: AnswerBody,
    row: StatsRow,
}

#[derive(Debug)]
enum AnswerBody {
    Page { dump: Box<PageDump>, text: String },
    Statistics(StatsDump),
    Schema { sent: usize },
}

impl StatsAnswer {
    /// A response before its first output.
    pub fn new(settings: PageSettings, request: StatsRequest) -> Self {
        let body = match request.what {
            What::Page => {
                AnswerBody::Page { dump: Box::new(PageDump::new(settings, request)), text: String::new() }
            }
            What::Statistics(format) => {
                let selection = settings.selection(&request);
                AnswerBody::Statistics(StatsDump::new(format, false, settings.legends, selection))
            }
            What::Schema => AnswerBody::Schema { sent: 0 },
        };
        Self { body, row: StatsRow::default() }
    }

    /// Appends to `out` until it holds at least `enough` bytes, plus at most one row.
    pub fn advance(&mut self, source: &dyn StatsSource, enough: usize, out: &mut Vec<u8>) -> DumpProgress {
        match &mut self.body {
            AnswerBody::Page { dump, text } => {
                text.clear();
                let progress = dump.advance(source, &mut self.row, enough.saturating_sub(out.len()), text);
                out.extend_from_slice(text.as_bytes());
                progress
            }
            AnswerBody::Statistics(dump) => dump.advance(source, &mut self.row, enough, out),
            AnswerBody::Schema { sent } => {
                let rest = &SCHEMA.as_bytes()[*sent..];
                let piece = &rest[..rest.len().min(enough.saturating_sub(out.len()))];
                out.extend_from_slice(piece);
                *sent += piece.len();
                if piece.len() == rest.len() { DumpProgress::Done } else { DumpProgress::More }
            }
        }
    }
}
