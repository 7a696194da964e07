//! Cookies: pairs in `Cookie`, one pair and its attributes in `Set-Cookie` (RFC 6265).
//!
//! Names are case-sensitive. A pair without `=`, and a name that begins with `$` (an attribute in RFC 2109),
//! are skipped. Quotes belong to the value, and hide separators. `Cookie` pairs may be separated by commas too,
//! as old clients did.

use crate::values::{ListMembers, trim};

/// A cookie and its offsets in its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie<'a> {
    pub name: &'a [u8],
    /// Its value, quotes included.
    pub value: &'a [u8],
    /// Offset of the name in the line.
    pub name_start: usize,
    /// Offset of the value in the line.
    pub value_start: usize,
}

/// The cookies of one `Cookie` line.
#[derive(Clone, Debug)]
pub struct RequestCookies<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> RequestCookies<'a> {
    /// The cookies of this line.
    pub fn new(line: &'a [u8]) -> RequestCookies<'a> {
        RequestCookies { line, at: 0 }
    }
}

impl<'a> Iterator for RequestCookies<'a> {
    type Item = Cookie<'a>;

    fn next(&mut self) -> Option<Cookie<'a>> {
        while self.at < self.line.len() {
            let start = self.at;
            let end = start + pair_end(&self.line[start..], true);
            self.at = end + 1;
            if let Some(cookie) = pair(self.line, start, end) {
                return Some(cookie);
            }
        }
        None
    }
}

/// The cookies of one `Set-Cookie` line: usually one, but some old servers join several with commas. Attributes are not cookies.
#[derive(Clone, Debug)]
pub struct ResponseCookies<'a> {
    line: &'a [u8],
    values: ListMembers<'a>,
    at: usize,
}

impl<'a> ResponseCookies<'a> {
    /// The cookies of this line.
    pub fn new(line: &'a [u8]) -> ResponseCookies<'a> {
        ResponseCookies { line, values: ListMembers::new(line), at: 0 }
    }
}

impl<'a> Iterator for ResponseCookies<'a> {
    type Item = Cookie<'a>;

    fn next(&mut self) -> Option<Cookie<'a>> {
        loop {
            self.values.next()?;
            let start = self.at;
            let length = crate::values::value_end(&self.line[start..]);
            self.at = (start + length + 1).min(self.line.len());
            let part = &self.line[start..start + length];
            if let Some(cookie) = pair(self.line, start, start + pair_end(part, false)) {
                return Some(cookie);
            }
        }
    }
}

/// Offset of the end of a pair: at a `;`, or also at a `,`, outside of quotes.
fn pair_end(text: &[u8], at_comma: bool) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b';' if !quoted => return at,
            b',' if at_comma && !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn pair(line: &[u8], start: usize, end: usize) -> Option<Cookie<'_>> {
    let text = &line[start..end];
    let equals = memchr::memchr(b'=', text)?;
    let (name, value) = (trim(&text[..equals]), trim(&text[equals + 1..]));
    if name.first() == Some(&b'$') {
        return None;
    }
    let blank = |text: &[u8]| text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Some(Cookie {
        name,
        value,
        name_start: start + blank(text),
        value_start: start + equals + 1 + blank(&text[equals + 1..]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<'a>(cookies: impl Iterator<Item = Cookie<'a>>, line: &'a str) -> Vec<(&'a str, &'a str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        cookies
            .map(|cookie| {
                assert!(line.as_bytes()[cookie.name_start..].starts_with(cookie.name));
                assert!(line.as_bytes()[cookie.value_start..].starts_with(cookie.value));
                (text(cookie.name), text(cookie.value))
            })
            .collect()
    }

    #[track_caller]
    fn request(line: &str, want: &[(&str, &str)]) {
        assert_eq!(pairs(RequestCookies::new(line.as_bytes()), line), want);
    }

    #[track_caller]
    fn response(line: &str, want: &[(&str, &str)]) {
        assert_eq!(pairs(ResponseCookies::new(line.as_bytes()), line), want);
    }

    #[test]
    fn parses_cookie_fields_of_requests() {
        request("A=1; B=2", &[("A", "1"), ("B", "2")]);
        request("A=1;A=2", &[("A", "1"), ("A", "2")]);
        request("B=1, A=2", &[("B", "1"), ("A", "2")]);
        request("A=\"x;y\"; B=1", &[("A", "\"x;y\""), ("B", "1")]);
        request(" A = 3 ", &[("A", "3")]);
        request("A=", &[("A", "")]);
        request("A=1=2", &[("A", "1=2")]);
        request("B;A=2", &[("A", "2")]);
        request(";; A=4;", &[("A", "4")]);
        request("$Version=1; A=2", &[("A", "2")]);
        request("=1; A=2", &[("", "1"), ("A", "2")]);
        request("A", &[]);
        request("", &[]);
    }

    #[test]
    fn parses_set_cookie_fields_of_responses() {
        response("A=1; Path=/", &[("A", "1")]);
        response("B=1, A=2; path=/", &[("B", "1"), ("A", "2")]);
        response("B=1; expires=Wed, 21 Oct 2015 07:28:00 GMT", &[("B", "1")]);
        response("A=\"x;y\"; b", &[("A", "\"x;y\"")]);
        response("A = 1 ;", &[("A", "1")]);
        response("A=; Path=/", &[("A", "")]);
        response("A", &[]);
        response("", &[]);
    }
}
