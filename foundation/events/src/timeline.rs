//! The timeline of failed or slow streams: one entry per stream, with the time of each phase.
//!
//! Each worker has a ring of entries. A successful stream costs two comparisons. The ring contains encoded [`StreamRecord`]s
//! ([`StreamRecord::encode`], [`StreamRecord::decode`]). The reader formats them.

/// The record of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRecord {
    /// Start of the stream, in microseconds since 1970.
    pub began_us: u64,
    /// Number of the stream, unique in the process.
    pub number: u64,
    /// Number of the worker, from 1.
    pub worker: u32,
    /// Status of the response sent to the client. 0 for none.
    pub status: u32,
    /// Number of connection retries.
    pub retries: u32,
    /// Number of streams ahead in the queues of the server and the backend.
    pub queued: u32,
    /// Bytes from and to the client.
    pub bytes: [u64; 2],
    pub code: [u8; 4],
    /// Whether the stream was redispatched to another server.
    pub redispatched: bool,
    /// Time of each [`StreamMoment`] in milliseconds since the stream began. `None` if it was not reached.
    pub moments: [Option<u32>; StreamMoment::COUNT],
    /// Strings by [`StreamText`]. Empty for none.
    pub words: [Box<str>; StreamText::COUNT],
}

/// A phase boundary of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMoment {
    /// The first byte of the request.
    FirstByte,
    /// The request head was complete, and the body was awaited before the stream went on.
    BodyAwaited,
    /// The request was complete, as far as the stream waited for it.
    Request,
    /// A server was assigned.
    Assigned,
    /// The connection to the server was established.
    Connected,
    /// The response head was complete.
    Response,
    End,
}

impl StreamMoment {
    /// How many there are.
    pub const COUNT: usize = 7;
}

/// A text about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamText {
    Source,
    /// Name of the frontend.
    Frontend,
    /// Name of the backend.
    Backend,
    Server,
    /// The method of server selection.
    Chosen,
    Request,
    /// Location of the rule that decided the stream's outcome.
    Rule,
    /// The party that ended the stream, and the phase.
    Ending,
    /// The engine that failed to ask its agent (SPOE), when and why.
    Engine,
    /// The fault of the last connection to a server.
    Fault,
}

impl StreamText {
    /// How many there are.
    pub const COUNT: usize = 10;
}

impl StreamRecord {
    /// Time of a moment in milliseconds. `None` if it was not reached.
    pub fn moment(&self, moment: StreamMoment) -> Option<u32> {
        self.moments[moment as usize]
    }

    /// A text. Empty for none.
    pub fn word(&self, word: StreamText) -> &str {
        &self.words[word as usize]
    }

    /// Sets a string, truncated to 256 bytes.
    pub fn set_word(&mut self, word: StreamText, text: &str) {
        let mut end = text.len().min(LONGEST_WORD);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.words[word as usize] = text[..end].into();
    }

    /// Duration from the first byte of the request, in milliseconds.
    pub fn duration_ms(&self) -> u32 {
        let begin = self.moment(StreamMoment::FirstByte).unwrap_or(0);
        self.moment(StreamMoment::End).map_or(0, |end| end.saturating_sub(begin))
    }

    /// Appends the entry as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.began_us, self.number, self.bytes[0], self.bytes[1]] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.worker, self.status, self.retries, self.queued] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.code);
        out.push(u8::from(self.redispatched));
        for moment in self.moments {
            out.extend_from_slice(&moment.unwrap_or(u32::MAX).to_le_bytes());
        }
        for word in &self.words {
            let length = word.len().min(LONGEST_WORD) as u16;
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&word.as_bytes()[..usize::from(length)]);
        }
    }

    /// Decodes an entry. `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<StreamRecord> {
        let mut bytes = RecordBytes(bytes);
        let [began_us, number, received, sent] = bytes.numbers::<8, 4>()?.map(u64::from_le_bytes);
        let [worker, status, retries, queued] = bytes.numbers::<4, 4>()?.map(u32::from_le_bytes);
        let code = bytes.take()?;
        let [redispatched] = bytes.take()?;
        let moments = bytes.numbers::<4, { StreamMoment::COUNT }>()?.map(u32::from_le_bytes);
        let mut words = <[Box<str>; StreamText::COUNT]>::default();
        for word in &mut words {
            let length = usize::from(u16::from_le_bytes(bytes.take()?));
            let (text, rest) = bytes.0.split_at_checked(length)?;
            *word = std::str::from_utf8(text).ok()?.into();
            bytes.0 = rest;
        }
        Some(StreamRecord {
            began_us,
            number,
            worker,
            status,
            retries,
            queued,
            bytes: [received, sent],
            code,
            redispatched: redispatched != 0,
            moments: moments.map(|moment| Some(moment).filter(|moment| *moment != u32::MAX)),
            words,
        })
    }
}

struct RecordBytes<'b>(&'b [u8]);

impl RecordBytes<'_> {
    fn take<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn numbers<const SIZE: usize, const COUNT: usize>(&mut self) -> Option<[[u8; SIZE]; COUNT]> {
        let mut numbers = [[0; SIZE]; COUNT];
        for number in &mut numbers {
            *number = self.take()?;
        }
        Some(numbers)
    }
}

/// Maximum length of a string in bytes, so that an entry has at most about 2 kB.
const LONGEST_WORD: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// All numbers differ, so that swapped fields are detected.
    fn entry() -> StreamRecord {
        let mut entry = StreamRecord {
            began_us: u64::MAX - 1,
            number: 2,
            bytes: [3, 1 << 40],
            worker: 5,
            status: 6,
            retries: 7,
            queued: 8,
            code: *b"sH--",
            redispatched: true,
            moments: [Some(9), Some(11), Some(10), None, Some(0), None, Some(5009)],
            words: Default::default(),
        };
        entry.set_word(StreamText::Frontend, "web");
        entry.set_word(StreamText::Request, &"é".repeat(200));
        entry
    }

    #[test]
    fn stream_records_survive_encoding_and_decoding() {
        let mut bytes = Vec::new();
        entry().encode(&mut bytes);
        assert_eq!(StreamRecord::decode(&bytes), Some(entry()));
        for end in 0..bytes.len() {
            assert_eq!(StreamRecord::decode(&bytes[..end]), None);
        }
        assert_eq!((entry().duration_ms(), entry().word(StreamText::Request).len()), (5000, 256));
    }
}
