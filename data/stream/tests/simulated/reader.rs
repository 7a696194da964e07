//! Reads HTTP/1 messages for scripts. The parser is independent, so that the engine under test does not check its own output.

/// The head of a message.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub first: String,
    fields: Vec<(String, String)>,
}

impl Head {
    /// The only field with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        assert!(found.next().is_none(), "two {name} in {self:?}");
        Some(value)
    }

    /// The status of a response.
    pub(crate) fn status(&self) -> u16 {
        let status = self.first.split(' ').nth(1).and_then(|word| word.parse().ok());
        status.unwrap_or_else(|| panic!("{:?} is no status line", self.first))
    }
}

/// The next part of the input.
#[derive(Debug)]
pub(crate) enum Part {
    Head(Head),
    Data(Vec<u8>),
    /// The message is complete.
    End,
}

/// Cuts the input of a connection into messages.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    held: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(usize),
    ChunkSize,
    Chunk(usize),
    ChunkEnd,
    Trailers,
    UntilClose,
}

impl Reader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Sets the framing of the last head's body. A response without a length ends with the connection.
    pub(crate) fn body_follows(&mut self, head: &Head, is_response: bool) {
        let chunked = head.field("transfer-encoding").is_some();
        let length = head.field("content-length").map(|length| length.parse().expect("a number"));
        assert!(!(chunked && length.is_some()), "two lengths in {head:?}");
        self.state = match length {
            _ if chunked => State::ChunkSize,
            Some(length) => State::Length(length),
            None if is_response => State::UntilClose,
            None => State::Length(0),
        };
    }

    /// The last message does not have a body.
    pub(crate) fn no_body_follows(&mut self) {
        self.state = State::Length(0);
    }

    /// The rest of the input, which belongs to no message.
    pub(crate) fn take_raw(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Whether the current message is delimited by EOF.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// The next part, if it has arrived.
    pub(crate) fn next(&mut self) -> Option<Part> {
        loop {
            match self.state {
                State::Head => {
                    let end = self.held.windows(4).position(|window| window == b"\r\n\r\n")?;
                    let bytes: Vec<u8> = self.held.drain(..end + 4).collect();
                    return Some(Part::Head(parse(&bytes)));
                }
                State::Length(0) => {
                    self.state = State::Head;
                    return Some(Part::End);
                }
                State::Length(left) => {
                    let data = self.take(left)?;
                    self.state = State::Length(left - data.len());
                    return Some(Part::Data(data));
                }
                State::ChunkSize => {
                    let line = self.line()?;
                    let size = line.split(';').next().unwrap_or_default();
                    let size = usize::from_str_radix(size.trim(), 16);
                    let size = size.unwrap_or_else(|_| panic!("{line:?} is no chunk size"));
                    self.state = if size == 0 { State::Trailers } else { State::Chunk(size) };
                }
                State::Chunk(0) => self.state = State::ChunkEnd,
                State::Chunk(left) => {
                    let data = self.take(left)?;
                    self.state = State::Chunk(left - data.len());
                    return Some(Part::Data(data));
                }
                State::ChunkEnd => {
                    let line = self.line()?;
                    assert!(line.is_empty(), "{line:?} follows a chunk");
                    self.state = State::ChunkSize;
                }
                State::Trailers => {
                    if self.line()?.is_empty() {
                        self.state = State::Head;
                        return Some(Part::End);
                    }
                }
                State::UntilClose => return self.take(usize::MAX).map(Part::Data),
            }
        }
    }

    fn take(&mut self, most: usize) -> Option<Vec<u8>> {
        let count = self.held.len().min(most);
        (count > 0).then(|| self.held.drain(..count).collect())
    }

    fn line(&mut self) -> Option<String> {
        let end = self.held.windows(2).position(|window| window == b"\r\n")?;
        let line: Vec<u8> = self.held.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

fn parse(bytes: &[u8]) -> Head {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.trim_end().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let fields = lines.map(|line| {
        let (name, value) =
            line.split_once(':').unwrap_or_else(|| panic!("{line:?} is no field of {text:?}"));
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    Head { first, fields: fields.collect() }
}
