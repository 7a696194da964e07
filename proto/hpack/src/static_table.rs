//! The static table (RFC 7541, appendix A).

use weir_http::KnownName;

use crate::token::Token;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaticField {
    pub token: Token,
    pub name: &'static str,
    pub value: &'static str,
}

/// The number of rows. Index 1 is the first row, and [`LENGTH`] plus one the newest of the dynamic table.
pub(crate) const LENGTH: usize = ROWS.len();

/// The row with this index, which counts from 1.
#[inline]
pub(crate) fn row(index: usize) -> Option<&'static StaticField> {
    ROWS.get(index.checked_sub(1)?)
}

/// The index of the first row with this name; `None` without one.
#[inline]
pub(crate) fn index_of_name(token: Token, name: &[u8]) -> Option<usize> {
    let index = match token {
        Token::Authority => 1,
        Token::Method => 2,
        Token::Path => 4,
        Token::Scheme => 6,
        Token::Status => 8,
        Token::Protocol | Token::UnknownPseudo => return None,
        Token::Field(KnownName::Other) => return index_of_other(name),
        Token::Field(known) => usize::from(BY_KNOWN_NAME[known as usize]),
    };
    (index != 0).then_some(index)
}

/// The index of the row with this value and the same name as row `first`, the first one with the name.
#[inline]
pub(crate) fn index_of_value(first: usize, value: &[u8]) -> Option<usize> {
    let token = row(first)?.token;
    // Only these names have values.
    if !token.is_pseudo() && token != Token::Field(KnownName::AcceptEncoding) {
        return None;
    }
    let same = ROWS[first - 1..].iter().take_while(|row| row.token == token);
    same.enumerate().find(|(_, row)| row.value.as_bytes() == value).map(|(ahead, _)| first + ahead)
}

#[cold]
fn index_of_other(name: &[u8]) -> Option<usize> {
    let other =
        |row: &StaticField| row.token == Token::Field(KnownName::Other) && row.name.as_bytes() == name;
    ROWS.iter().position(other).map(|position| position + 1)
}

const fn pseudo(token: Token, name: &'static str, value: &'static str) -> StaticField {
    StaticField { token, name, value }
}

const fn field(known: KnownName, name: &'static str, value: &'static str) -> StaticField {
    StaticField { token: Token::Field(known), name, value }
}

const fn known(known: KnownName) -> StaticField {
    field(known, known.as_str(), "")
}

static ROWS: [StaticField; 61] = [
    pseudo(Token::Authority, ":authority", ""),
    pseudo(Token::Method, ":method", "GET"),
    pseudo(Token::Method, ":method", "POST"),
    pseudo(Token::Path, ":path", "/"),
    pseudo(Token::Path, ":path", "/index.html"),
    pseudo(Token::Scheme, ":scheme", "http"),
    pseudo(Token::Scheme, ":scheme", "https"),
    pseudo(Token::Status, ":status", "200"),
    pseudo(Token::Status, ":status", "204"),
    pseudo(Token::Status, ":status", "206"),
    pseudo(Token::Status, ":status", "304"),
    pseudo(Token::Status, ":status", "400"),
    pseudo(Token::Status, ":status", "404"),
    pseudo(Token::Status, ":status", "500"),
    field(KnownName::Other, "accept-charset", ""),
    field(KnownName::AcceptEncoding, "accept-encoding", "gzip, deflate"),
    known(KnownName::AcceptLanguage),
    field(KnownName::Other, "accept-ranges", ""),
    known(KnownName::Accept),
    field(KnownName::Other, "access-control-allow-origin", ""),
    known(KnownName::Age),
    field(KnownName::Other, "allow", ""),
    known(KnownName::Authorization),
    known(KnownName::CacheControl),
    field(KnownName::Other, "content-disposition", ""),
    known(KnownName::ContentEncoding),
    field(KnownName::Other, "content-language", ""),
    known(KnownName::ContentLength),
    field(KnownName::Other, "content-location", ""),
    field(KnownName::Other, "content-range", ""),
    known(KnownName::ContentType),
    known(KnownName::Cookie),
    known(KnownName::Date),
    known(KnownName::Etag),
    known(KnownName::Expect),
    known(KnownName::Expires),
    field(KnownName::Other, "from", ""),
    known(KnownName::Host),
    field(KnownName::Other, "if-match", ""),
    known(KnownName::IfModifiedSince),
    known(KnownName::IfNoneMatch),
    field(KnownName::Other, "if-range", ""),
    field(KnownName::Other, "if-unmodified-since", ""),
    known(KnownName::LastModified),
    field(KnownName::Other, "link", ""),
    known(KnownName::Location),
    field(KnownName::Other, "max-forwards", ""),
    known(KnownName::ProxyAuthenticate),
    known(KnownName::ProxyAuthorization),
    known(KnownName::Range),
    known(KnownName::Referer),
    field(KnownName::Other, "refresh", ""),
    field(KnownName::Other, "retry-after", ""),
    known(KnownName::Server),
    known(KnownName::SetCookie),
    known(KnownName::StrictTransportSecurity),
    known(KnownName::TransferEncoding),
    known(KnownName::UserAgent),
    known(KnownName::Vary),
    known(KnownName::Via),
    known(KnownName::WwwAuthenticate),
];

/// The index of the first row of each known name; 0 for those that the table does not have.
static BY_KNOWN_NAME: [u8; 256] = {
    let mut indices = [0; 256];
    let mut at = ROWS.len();
    while at > 0 {
        if let Token::Field(known) = ROWS[at - 1].token {
            indices[known as usize] = at as u8;
        }
        at -= 1;
    }
    indices[KnownName::Other as usize] = 0;
    indices
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_static_table_row_is_found_by_its_name_token() {
        for (position, row) in ROWS.iter().enumerate() {
            assert_eq!(row.token, Token::of(row.name.as_bytes()), "{}", row.name);
            let first = index_of_name(row.token, row.name.as_bytes()).expect("a row");
            assert_eq!(self::row(first).map(|first| first.name), Some(row.name));
            if !row.value.is_empty() {
                assert_eq!(index_of_value(first, row.value.as_bytes()), Some(position + 1), "{row:?}");
            }
            assert_eq!(index_of_value(first, b"no such value"), None);
        }
        assert!(row(0).is_none() && row(LENGTH + 1).is_none());
        assert_eq!(index_of_name(Token::of(b"x-mine"), b"x-mine"), None);
        assert_eq!(index_of_name(Token::of(b"upgrade"), b"upgrade"), None);
        assert_eq!(index_of_name(Token::Protocol, b":protocol"), None);
    }
}
