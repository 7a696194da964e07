//! A complete dump, a bounded piece at a time.

use crate::render::{Format, write_csv, write_csv_header, write_json, write_typed};
use crate::row::Row;
use crate::source::{Cursor, Selection, StatsSource};

/// The progress of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more: make room and call again.
    More,
    /// The dump is complete.
    Done,
}

/// `show stat` in progress.
#[derive(Debug)]
pub struct StatsDump {
    format: Format,
    descriptions: bool,
    legends: bool,
    selection: Selection,
    cursor: Cursor,
    state: DumpState,
}

/// ```text
/// Header ──► Rows { none written } ──► Rows { some } ──► Done
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DumpState {
    Header,
    Rows { written: bool },
    Done,
}

/// How many objects one piece visits, matching or not: a selection without matches among thousands must not block a worker.
pub(crate) const OBJECTS_PER_PIECE: usize = 256;

impl StatsDump {
    /// A dump of which nothing was written. `legends` shows addresses, cookies and algorithms.
    pub fn new(format: Format, descriptions: bool, legends: bool, selection: Selection) -> Self {
        Self { format, descriptions, legends, selection, cursor: Cursor::default(), state: DumpState::Header }
    }

    /// Appends rows until `out` holds at least `enough` bytes, at most one row more (a row is under 1 kB in CSV, some
    /// 20 kB typed, 40 kB in JSON). `scratch` is a row to work in.
    pub fn advance(
        &mut self,
        source: &dyn StatsSource,
        scratch: &mut Row,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> Progress {
        if self.state == DumpState::Header {
            self.begin(out);
        }
        for _ in 0..OBJECTS_PER_PIECE {
            if self.state == DumpState::Done {
                return Progress::Done;
            }
            if out.len() >= enough {
                return Progress::More;
            }
            if source.next_row(&mut self.cursor, &self.selection, scratch) {
                if self.selection.wants(scratch) {
                    self.row(scratch, out);
                }
            } else {
                self.end(out);
            }
        }
        if self.state == DumpState::Done { Progress::Done } else { Progress::More }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        match self.format {
            Format::Csv => write_csv_header(out),
            Format::Json => out.push(b'['),
            Format::Typed => {}
        }
        self.state = DumpState::Rows { written: false };
    }

    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        match self.format {
            Format::Csv => write_csv(row, self.legends, out),
            Format::Typed => write_typed(row, self.legends, self.descriptions, out),
            Format::Json => {
                if self.state == (DumpState::Rows { written: true }) {
                    out.push(b',');
                }
                write_json(row, self.legends, out);
            }
        }
        self.state = DumpState::Rows { written: true };
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.format == Format::Json {
            out.extend_from_slice(b"]\n");
        }
        self.state = DumpState::Done;
    }
}
