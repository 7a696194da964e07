//! The entries of a set, ordered by identifier, in chunks. Deleted ones are removed chunk by chunk, so that no caller waits for a pass
//! over all entries.

use std::sync::Arc;

use super::entry::PatternEntry;

/// A list of entries. New entries are appended.
#[derive(Debug, Default)]
pub(super) struct EntryList {
    /// No chunk is empty.
    chunks: Vec<Vec<Arc<PatternEntry>>>,
    length: usize,
}

impl EntryList {
    /// The number of entries, including deleted ones.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PatternEntry>> {
        self.chunks.iter().flatten()
    }

    pub(super) fn push(&mut self, entry: Arc<PatternEntry>) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(entry),
            None => self.chunks.push(vec![entry]),
        }
        self.length += 1;
    }

    /// The entry with this identifier.
    pub(super) fn find(&self, id: u64) -> Option<&Arc<PatternEntry>> {
        self.after(id.checked_sub(1)?).next().filter(|entry| entry.id() == id)
    }

    /// The entries with larger identifiers.
    pub(super) fn after(&self, id: u64) -> impl Iterator<Item = &Arc<PatternEntry>> {
        let passed = |chunk: &Vec<Arc<PatternEntry>>| chunk.last().is_some_and(|entry| entry.id() <= id);
        let chunks = &self.chunks[self.chunks.partition_point(passed)..];
        let within = chunks.first().map_or(0, |first| first.partition_point(|entry| entry.id() <= id));
        chunks.iter().flatten().skip(within)
    }

    /// Removes the deleted entries of one chunk. Returns their number, and whether the chunk still exists. None if the chunk does not exist.
    pub(super) fn sweep(&mut self, at: usize) -> Option<(usize, bool)> {
        let chunk = self.chunks.get_mut(at)?;
        let before = chunk.len();
        chunk.retain(|entry| entry.is_alive());
        chunk.shrink_to_fit();
        let (left, stays) = (chunk.len(), !chunk.is_empty());
        if !stays {
            self.chunks.remove(at);
        }
        self.length -= before - left;
        Some((before - left, stays))
    }

    /// The chunks, for freeing one by one.
    pub(super) fn into_chunks(self) -> Vec<Vec<Arc<PatternEntry>>> {
        self.chunks
    }
}

impl FromIterator<Arc<PatternEntry>> for EntryList {
    fn from_iter<I: IntoIterator<Item = Arc<PatternEntry>>>(entries: I) -> Self {
        let mut all = EntryList::default();
        entries.into_iter().for_each(|entry| all.push(entry));
        all.chunks.iter_mut().for_each(Vec::shrink_to_fit);
        all.chunks.shrink_to_fit();
        all
    }
}

/// Entries of a chunk. Sweeping one chunk takes some hundred microseconds.
const CHUNK: usize = 8_192;
