//! A complete dump, a bounded piece at a time.

use std::ops::ControlFlow;

use crate::render::{Format, write_csv, write_csv_header, write_json, write_typed};
use crate::row::StatsRow;
use crate::source::{RowCursor, RowSelection, StatsSource};

/// The progress of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpProgress {
    /// There is more: make room and call again.
    More,
    /// The dump is complete.
    Done,
}

/// The walk of a dump over the rows of its selection.
#[derive(Debug)]
pub(crate) struct RowWalk {
    pub selection: RowSelection,
    cursor: RowCursor,
    state: WalkState,
    /// Whether a row was written.
    pub has_written: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkState {
    Header,
    Rows,
    Done,
}

impl RowWalk {
    /// A walk at its beginning.
    pub(crate) fn new(selection: RowSelection) -> RowWalk {
        RowWalk { selection, cursor: RowCursor::default(), state: WalkState::Header, has_written: false }
    }
}

/// The writer of a dump's rows, and of the text around them.
pub(crate) trait WritesRows {
    fn walk(&mut self) -> &mut RowWalk;
    fn begin(&mut self, out: &mut Vec<u8>);
    fn row(&mut self, row: &StatsRow, out: &mut Vec<u8>);
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Appends rows until `out` holds at least `enough` bytes, at most one row more. `scratch` is a row to work in.
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

/// Shows `visit` the rows of a selection, from the cursor on, until it has enough or `left` objects were visited, matching or not.
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

/// How many objects one piece visits, matching or not: a selection without matches among thousands must not block a worker.
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
    /// A dump at its beginning. `legends` shows addresses, cookies and algorithms.
    pub fn new(format: Format, descriptions: bool, legends: bool, selection: RowSelection) -> Self {
        Self { format, descriptions, legends, walk: RowWalk::new(selection) }
    }

    /// Appends rows until `out` holds at least `enough` bytes, at most one row more (a row is under 1 kB in CSV, some
    /// 20 kB typed, 40 kB in JSON). `scratch` is a row to work in.
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
