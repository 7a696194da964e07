//! The header fields that a caller adds to a request.

use std::fmt;

/// Header fields of a request, all valid. The client itself writes the fields of the framing and of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields(Vec<RequestField>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestField {
    /// In lower case.
    name: Box<[u8]>,
    value: Box<[u8]>,
}

/// Why a field was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidField {
    Name,
    Value,
}

impl RequestFields {
    /// Adds a field, with its name in lower case. A second `host` replaces the first one. Fields that the client writes itself are dropped.
    ///
    /// # Errors
    /// A name or value that could end its line, or the head.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        if !weir_http::is_token(name) {
            return Err(InvalidField::Name);
        }
        if value.iter().any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f) {
            return Err(InvalidField::Value);
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Ok(());
        }
        if name.eq_ignore_ascii_case(b"host") {
            self.0.retain(|field| *field.name != *b"host");
        }
        let (name, value) = (name.to_ascii_lowercase().into(), value.trim_ascii().into());
        self.0.push(RequestField { name, value });
        Ok(())
    }

    /// Whether there is a field with this name, which is in lower case.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|field| *field.name == *name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|field| (&*field.name, &*field.value))
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            InvalidField::Name => "the name of a header is not valid",
            InvalidField::Value => "the value of a header has a control character",
        })
    }
}

/// Fields that the client writes itself, and those of features that it lacks.
const OWN: [&[u8]; 8] = [
    b"connection",
    b"content-length",
    b"expect",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_could_smuggle_a_request_are_refused() {
        let mut fields = RequestFields::default();
        for name in ["", "a b", "a:", "a\r\n", "a\0"] {
            assert_eq!(fields.add(name.as_bytes(), b"v"), Err(InvalidField::Name), "{name}");
        }
        for value in ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "\u{7f}"] {
            assert_eq!(fields.add(b"x", value.as_bytes()), Err(InvalidField::Value), "{value}");
        }
        for name in OWN {
            assert_eq!(fields.add(&name.to_ascii_uppercase(), b"v"), Ok(()));
        }
        assert_eq!(fields, RequestFields::default());
    }

    #[test]
    fn a_request_has_one_host() {
        let mut fields = RequestFields::default();
        for (name, value) in [("Host", "a"), ("x", "1"), ("x", " 2\t"), ("host", "b")] {
            fields.add(name.as_bytes(), value.as_bytes()).expect("a field");
        }
        let shown: Vec<(&[u8], &[u8])> = fields.iter().collect();
        assert_eq!(shown, [(&b"x"[..], &b"1"[..]), (b"x", b"2"), (b"host", b"b")]);
    }
}
