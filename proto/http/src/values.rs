//! Comma-separated lists: the values of a field, one by one.

/// The comma-separated values of one field line. White space around each is dropped, commas inside double quotes do not
/// separate, and a backslash inside quotes escapes. Empty elements are included. An empty line has one, so that rules
/// can match an empty field.
#[derive(Clone, Debug)]
pub struct ListMembers<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> ListMembers<'a> {
    /// The values of this line.
    #[inline]
    pub fn new(line: &'a [u8]) -> ListMembers<'a> {
        ListMembers { rest: Some(line) }
    }
}

impl<'a> Iterator for ListMembers<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = value_end(rest);
        self.rest = rest.get(end + 1..);
        Some(trim(&rest[..end]))
    }
}

/// Offset of the end of the first value of a list: at a comma outside of quotes, or at the end.
#[inline]
pub fn value_end(list: &[u8]) -> usize {
    match memchr::memchr2(b',', b'"', list) {
        Some(at) if list[at] == b',' => at,
        Some(at) => value_end_quoted(list, at),
        None => list.len(),
    }
}

fn value_end_quoted(list: &[u8], mut at: usize) -> usize {
    let mut quoted = false;
    while at < list.len() {
        match list[at] {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b',' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    list.len()
}

/// The text without spaces and tabs around it.
#[inline]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, want: &[&str]) {
        let values: Vec<&[u8]> = ListMembers::new(line.as_bytes()).collect();
        let want: Vec<&[u8]> = want.iter().map(|text| text.as_bytes()).collect();
        assert_eq!(values, want, "{line:?}");
    }

    #[test]
    fn field_values_are_split_at_commas_outside_of_quotes() {
        check("", &[""]);
        check("a", &["a"]);
        check("a,b", &["a", "b"]);
        check(" a , b\t", &["a", "b"]);
        check("a,,b", &["a", "", "b"]);
        check("a,", &["a", ""]);
        check("\"a,b\",c", &["\"a,b\"", "c"]);
        check("x=\"a\\\",b\", c", &["x=\"a\\\",b\"", "c"]);
        check("\"open, never closed", &["\"open, never closed"]);
        check("a\\,b", &["a\\", "b"]);
    }
}
