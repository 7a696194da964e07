//! Error files: whole HTTP/1 responses in files, parsed once with the configuration (manual, "errorfile").
//!
//! A response must suit clients of every protocol. weir supplies the framing, so a length must match the payload, and chunked encoding is
//! refused.

use weir_expr::literal::is_token_byte;

use weir_model::{ErrorField, ErrorResponse};

/// The response in a file. None for an empty file.
///
/// # Errors
/// The reason in HAProxy's words.
pub(crate) fn parse(raw: &[u8]) -> Result<Option<ErrorResponse>, String> {
    if raw.is_empty() {
        return Ok(None);
    }
    let head = read_head(raw).map_err(|at| format!("unable to parse headers (error offset: {at})"))?;
    let ErrorHead { is_http_10, status, reason, fields, end, length, is_chunked } = head;
    let body = &raw[end..];
    if status < 200 {
        return Err(format!("invalid http status code for an error message ({status})"));
    }
    if is_chunked {
        return Err("chunk-encoded payload not supported".into());
    }
    if matches!(status, 204 | 304) && !body.is_empty() {
        return Err("message payload not expected".into());
    }
    let size = body.len() as u64;
    if let Some(length) = length.filter(|length| *length != size) {
        return Err(format!("payload size does not match the announced content-length ({size} != {length})"));
    }
    Ok(Some(ErrorResponse { is_http_10, status, reason, fields, body: body.into() }))
}

struct ErrorHead {
    is_http_10: bool,
    status: u16,
    reason: Box<[u8]>,
    fields: Box<[ErrorField]>,
    /// Offset of the payload.
    end: usize,
    length: Option<u64>,
    is_chunked: bool,
}

/// Reads status line and fields. The error is the offset of the fault.
fn read_head(raw: &[u8]) -> Result<ErrorHead, usize> {
    let begin = raw.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(raw.len());
    if !raw[begin..].starts_with(b"HTTP/") {
        return Err(begin);
    }
    let mut lines = FileLines { raw, at: begin };
    let (at, line) = lines.next()?;
    let (is_http_10, status, reason) = status_line(line).ok_or(at)?;
    let mut fields: Vec<ErrorField> = Vec::new();
    let (mut length, mut is_chunked, mut value_end) = (None, false, 0);
    loop {
        let (at, line) = lines.next()?;
        if line.is_empty() {
            break;
        }
        // An obsolete line folding (RFC 9112, 5.2).
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            let field = fields.last_mut().ok_or(at)?;
            let rest = line.trim_ascii_start();
            // Each byte of the line ending and of the indentation becomes a space.
            let gap = vec![b' '; at + line.len() - rest.len() - value_end];
            value_end = at + line.trim_ascii_end().len();
            field.value = [&field.value, &gap[..], rest.trim_ascii_end()].concat().into();
            continue;
        }
        let name_end = line.iter().position(|byte| !is_token_byte(*byte)).ok_or(at)?;
        if name_end == 0 || line[name_end] != b':' {
            return Err(at + name_end);
        }
        let (name, value) = (&line[..name_end], line[name_end + 1..].trim_ascii_start());
        let value_at = at + line.len() - value.len();
        if let Some(bad) = value.iter().position(|byte| matches!(byte, 0 | b'\r')) {
            return Err(value_at + bad);
        }
        let value = value.trim_ascii_end();
        value_end = value_at + value.len();
        match name.to_ascii_lowercase().as_slice() {
            // Depends on the client's connection.
            b"connection" => {}
            b"content-length" => {
                let said =
                    std::str::from_utf8(value).ok().filter(|said| said.bytes().all(|b| b.is_ascii_digit()));
                let said = said.and_then(|said| said.parse().ok()).ok_or(value_at)?;
                if length.is_some_and(|length| length != said) {
                    return Err(value_at);
                }
                length = Some(said);
            }
            b"transfer-encoding" => is_chunked = true,
            _ => fields.push(ErrorField { name: name.into(), value: value.into() }),
        }
    }
    let reason = reason.into();
    Ok(ErrorHead { is_http_10, status, reason, fields: fields.into(), end: lines.at, length, is_chunked })
}

/// Whether it is HTTP/1.0, the status, and the reason.
fn status_line(line: &[u8]) -> Option<(bool, u16, &[u8])> {
    let (version, rest) = line.split_at_checked(line.iter().position(|byte| *byte == b' ')?)?;
    let [major, b'.', minor] = *version.strip_prefix(b"HTTP/")? else { return None };
    let rest = rest.trim_ascii();
    let (code, reason) = rest.split_at(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()));
    let is_sound = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    let numbers = [major, minor].iter().chain(code).all(u8::is_ascii_digit);
    if !numbers || code.len() != 3 || !reason.iter().all(is_sound) {
        return None;
    }
    let status = code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    Some(((major, minor) == (b'1', b'0'), status, reason.trim_ascii()))
}

/// The lines of a file with their offsets, without line endings.
struct FileLines<'r> {
    raw: &'r [u8],
    at: usize,
}

impl<'r> FileLines<'r> {
    /// The next line. An error at EOF.
    fn next(&mut self) -> Result<(usize, &'r [u8]), usize> {
        let (begin, rest) = (self.at, &self.raw[self.at..]);
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(self.raw.len())?;
        self.at += end + 1;
        let line = &rest[..end];
        Ok((begin, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status line, fields and payload, or the reason for the refusal.
    fn read(raw: &str) -> String {
        match parse(raw.as_bytes()) {
            Err(why) => why,
            Ok(None) => "none".into(),
            Ok(Some(response)) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields: Vec<String> = response
                    .fields
                    .iter()
                    .map(|field| format!(" {}={}", text(&field.name), text(&field.value)))
                    .collect();
                let version = if response.is_http_10 { "1.0" } else { "1.1" };
                let (reason, fields, body) = (text(&response.reason), fields.concat(), text(&response.body));
                format!("{version} {} '{reason}'{fields} '{body}'", response.status)
            }
        }
    }

    #[test]
    fn parses_complete_http_responses_of_error_files() {
        assert_eq!(read(""), "none");
        assert_eq!(read("HTTP/1.0 503 Down\r\nA: b\r\n\r\nbody"), "1.0 503 'Down' A=b 'body'");
        assert_eq!(read("HTTP/1.1 503\n\n"), "1.1 503 '' ''");
        assert_eq!(read("\r\n\r\nHTTP/2.0   503  Not now \n\nx"), "1.1 503 'Not now' 'x'");
        assert_eq!(
            read("HTTP/1.1 200 OK\r\nA:\r\nB:c\r\n\td\r\n  e\r\n\r\n"),
            "1.1 200 'OK' A= B=c   d    e ''"
        );
        assert_eq!(read("HTTP/1.1 204 No\r\n\r\n"), "1.1 204 'No' ''");
        let own = "Content-Length: 4\r\ncontent-length:4\r\nConnection: close\r\nconnection: x\r\nC: d\r\n";
        assert_eq!(read(&format!("HTTP/1.1 503 No\r\n{own}\r\nbody")), "1.1 503 'No' C=d 'body'");
    }

    #[test]
    fn malformed_error_files_are_rejected_with_the_offset_of_the_error() {
        for (raw, offset) in [
            ("root:x:0:0\n\n", 0),
            ("HTTP/1.0 5x3 Down\r\n\r\n", 0),
            ("HTTP/1.0 99 Down\r\n\r\n", 0),
            ("HTTP/1.10 503 Down\r\n\r\n", 0),
            ("HTTP/1.0 503 Do\x01wn\r\n\r\n", 0),
            ("HTTP/1.0 503 Down\r\nA b: c\r\n\r\n", 20),
            ("HTTP/1.0 503 Down\r\nA : c\r\n\r\n", 20),
            ("HTTP/1.0 503 Down\r\n: c\r\n\r\n", 19),
            ("HTTP/1.0 503 Down\r\nA\r\n\r\n", 19),
            ("HTTP/1.0 503 Down\r\n A: b\r\n\r\n", 19),
            ("HTTP/1.0 503 Down\r\nA: b\0\r\n\r\n", 23),
            ("not a response", 0),
            ("\n\nnot a response", 2),
            ("\n\n", 2),
            ("HTTP/1.0 503 Down\r\nContent-Length: +4\r\n\r\nbody", 35),
            ("HTTP/1.0 503 Down\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody", 54),
            ("HTTP/1.0 503 Down\r\nA: b\r\n", 25),
            ("HTTP/1.0 503 Down", 17),
        ] {
            assert_eq!(read(raw), format!("unable to parse headers (error offset: {offset})"), "{raw:?}");
        }
        let refused = |raw: &str, why: &str| assert_eq!(read(raw), why, "{raw:?}");
        refused("HTTP/1.1 103 Hints\r\n\r\n", "invalid http status code for an error message (103)");
        refused(
            "HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "chunk-encoded payload not supported",
        );
        refused("HTTP/1.1 204 No\r\n\r\nx", "message payload not expected");
        refused("HTTP/1.1 304 No\r\n\r\nx", "message payload not expected");
        let length = "payload size does not match the announced content-length (4 != 20)";
        refused("HTTP/1.1 503 No\r\nContent-Length: 20\r\n\r\nbody", length);
    }
}
