//! Parameters in a query string, or in a body with the same coding (`application/x-www-form-urlencoded`).

/// A parameter as written, without decoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// An iterator over the parameters of a query. They are separated by `&`, `;` and the delimiter; a part without `=` is not a parameter.
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Parameters<'a> {
    /// The default delimiter of a query.
    pub const DELIMITER: u8 = b'?';

    /// The parameters of a query string or a body.
    pub fn new(query: &'a [u8]) -> Parameters<'a> {
        Parameters { rest: Some(query), delimiter: Parameters::DELIMITER }
    }

    /// The parameters of a request target, which begin after the first `delimiter` of its path and query.
    pub fn of_target(path_and_query: &'a [u8], delimiter: u8) -> Parameters<'a> {
        let start = memchr::memchr(delimiter, path_and_query);
        Parameters { rest: start.map(|at| &path_and_query[at + 1..]), delimiter }
    }

    /// The value of the first parameter with this name, case-sensitive unless `ignore_case`; an empty name means any.
    pub fn find(mut self, name: &[u8], ignore_case: bool) -> Option<&'a [u8]> {
        self.find_map(|parameter| parameter.is_named(name, ignore_case).then_some(parameter.value))
    }
}

impl Parameter<'_> {
    /// Whether the parameter has this name. An empty `name` matches any.
    pub fn is_named(&self, name: &[u8], ignore_case: bool) -> bool {
        name.is_empty() || self.name == name || (ignore_case && self.name.eq_ignore_ascii_case(name))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        loop {
            let rest = self.rest?;
            let end = memchr::memchr3(b'&', b';', self.delimiter, rest).unwrap_or(rest.len());
            self.rest = rest.get(end + 1..);
            let part = &rest[..end];
            if let Some(equals) = memchr::memchr(b'=', part) {
                return Some(Parameter { name: &part[..equals], value: &part[equals + 1..] });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, delimiter: u8, name: &str, want: Option<&str>) {
        let value = Parameters::of_target(target.as_bytes(), delimiter).find(name.as_bytes(), false);
        assert_eq!(value, want.map(str::as_bytes), "{name} in {target}");
    }

    #[test]
    fn url_parameters_are_found_like_in_haproxy() {
        check("/?b=1&a=2&c", b'?', "a", Some("2"));
        check("/?aa=1&a=5", b'?', "a", Some("5"));
        check("/?xa=1", b'?', "a", None);
        check("/?b=1;a=2", b'?', "a", Some("2"));
        check("/?b=1?a=2", b'?', "a", Some("2"));
        check("/?&&a=2", b'?', "", Some("2"));
        check("/?=1", b'?', "", Some("1"));
        check("/?a&b", b'?', "", None);
        check("/?a=", b'?', "a", Some(""));
        check("/", b'?', "", None);
        check("/;a=3?a=1&a=2", b';', "a", Some("3?a=1"));
        check("/;a=3?a=1&a=2", b'?', "a", Some("1"));
        check("/?b=1;a=2", b';', "a", Some("2"));
        check("/?a=1", b';', "a", None);
        assert_eq!(Parameters::new(b"a=1&B=2").find(b"b", true), Some(&b"2"[..]));
        assert_eq!(Parameters::new(b"a=1&B=2").find(b"b", false), None);
    }
}
