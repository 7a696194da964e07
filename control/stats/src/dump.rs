//! A complete dump, written in bounded pieces.

use std::ops::ControlFlow;

use crate::render::{Format, write_csv, write_csv_header, write_json, write_typed};
use crate::row::StatsRow;
use crate::source::{RowCursor, RowSelection, StatsSource};

/// Whether a dump is complete after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpProgress {
    /// More output follows. Make room and call again.
    More,
    /// The dump is complete.
    Done,
}

/// The progress of a dump through the selected rows.
#[derive(Debug)]
pub(crate) struct RowWalk {
    pub selection: RowSelection,
    cursor: RowCursor,
    state: WalkState,
    /// Whether any row has been written.
    pub has_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkState {
    Header,
    Rows,
    Done,
}

impl RowWalk {
    /// A walk at the first row.
    pub(crate) fn new(selection: RowSelection) -> RowWalk {
        RowWalk { selection, cursor: RowCursor::default(), state: WalkState::Header, has_written: false }
    }
}

/// A format that writes the rows of a dump, and the text around them.
pub(crate) trait WritesRows {
    fn walk(&mut self) -> &mut RowWalk;
    fn begin(&mut self, out: &mut Vec<u8>);
    fn row(&mut self, row: &StatsRow, out: &mut Vec<u8>);
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Appends rows until `out` holds at least `enough` bytes, plus at most one row. `scratch` is a reusable row.
pub(crate) fn advance(
    dump: &mut impl WritesRows,
    source: &dyn StatsSource,
    scratch: &mut StatsRow,
    enough: usize,
    out: &mut Vec<u8>,
) -> DumpProgress {
    if dump.walk().state == WalkState::Header {
        dump.begin(out);
        dump.walk().state = WalkState::Rows;
    }
    if dump.walk().state == WalkState::Done {
        return DumpProgress::Done;
    }
    if out.len() >= enough {
        return DumpProgress::More;
    }
    let (mut cursor, selection) = (dump.walk().cursor, std::mem::take(&mut dump.walk().selection));
    let mut left = OBJECTS_PER_PIECE;
    let progress = visit_rows(source, &mut cursor, &selection, scratch, &mut left, |row| {
        dump.row(row, out);
        out.len() >= enough
    });
    (dump.walk().cursor, dump.walk().selection) = (cursor, selection);
    if progress == DumpProgress::Done {
        dump.walk().state = WalkState::Done;
        dump.end(out);
    }
    progress
}

/// Visits the selected rows from the cursor on, until `visit` breaks or `left` objects were visited, matching or not.
pub(crate) fn visit_rows<S: StatsSource + ?Sized>(
    source: &S,
    cursor: &mut RowCursor,
    selection: &RowSelection,
    scratch: &mut StatsRow,
    left: &mut usize,
    mut visit: impl FnMut(&StatsRow) -> bool,
) -> DumpProgress {
    let ended = source.visit_rows(cursor, selection, scratch, &mut |row| {
        let has_enough = selection.wants(row) && visit(row);
        *left = left.saturating_sub(1);
        if has_enough || *left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if ended.is_continue() { DumpProgress::Done } else { DumpProgress::More }
}

/// Maximum number of objects visited per piece, matching or not. A selection without matches must not block the worker.
pub(crate) const OBJECTS_PER_PIECE: usize = 256;

/// `show stat` in progress.
#[derive(Debug)]
pub struct StatsDump {
    format: Format,
    descriptions: bool,
    legends: bool,
    walk: RowWalk,
}

impl StatsDump {
    /// A dump at the first row. `legends` includes addresses, cookies and algorithms.
    pub fn new(format: Format, descriptions: bool, legends: bool, selection: RowSelection) -> Self {
        Self { format, descriptions, legends, walk: RowWalk::new(selection) }
    }

    /// Appends rows until `out` holds at least `enough` bytes, plus at most one row (less than 1 kB in CSV, about 20 kB typed, 40 kB in
    /// JSON). `scratch` is a reusable row.
    pub fn advance(
        &mut self,
        source: &dyn StatsSource,
        scratch: &mut StatsRow,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> DumpProgress {
        advance(self, source, scratch, enough, out)
    }
}

impl WritesRows for StatsDump {
    fn walk(&mut self) -> &mut RowWalk {
        &mut self.walk
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        match self.format {
            Format::Csv => write_csv_header(out),
            Format::Json => out.push(b'['),
            Format::Typed => {}
        }
    }

    fn row(&mut self, row: &StatsRow, out: &mut Vec<u8>) {
        match self.format {
            Format::Csv => write_csv(row, self.legends, out),
            Format::Typed => write_typed(row, self.legends, self.descriptions, out),
            Format::Json => {
                if self.walk.has_written {
                    out.push(b',');
                }
                write_json(row, self.legends, out);
            }
        }
        self.walk.has_written = true;
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.format == Format::Json {
            out.extend_from_slice(b"]\n");
        }
    }
}
