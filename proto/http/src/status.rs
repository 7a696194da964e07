//! Status codes and their usual reasons.

/// The default reason phrase of a status code, as in HAProxy, which may differ from the registered one. Codes without a
/// phrase get the name of their class.
pub fn reason(status: u16) -> &'static str {
    if let Ok(at) = REASONS.binary_search_by_key(&status, |row| row.0) {
        return REASONS[at].1;
    }
    match status / 100 {
        1 => "Informational",
        2 => "Success",
        3 => "Redirection",
        4 => "Client Error",
        5 => "Server Error",
        _ => "Other",
    }
}

/// The reason phrase in a redirect, which differs for some codes.
pub fn redirect_reason(status: u16) -> &'static str {
    if status == 302 { "Found" } else { reason(status) }
}

/// Whether a response with this status never has a body, whatever its fields announce (RFC 9112, 6.3).
#[inline]
pub fn is_bodyless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

const REASONS: &[(u16, &str)] = &[
    (100, "Continue"),
    (101, "Switching Protocols"),
    (102, "Processing"),
    (103, "Early Hints"),
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (203, "Non-Authoritative Information"),
    (204, "No Content"),
    (205, "Reset Content"),
    (206, "Partial Content"),
    (207, "Multi-Status"),
    (210, "Content Different"),
    (226, "IM Used"),
    (300, "Multiple Choices"),
    (301, "Moved Permanently"),
    (302, "Moved Temporarily"),
    (303, "See Other"),
    (304, "Not Modified"),
    (305, "Use Proxy"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (310, "Too many Redirects"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (407, "Proxy Authentication Required"),
    (408, "Request Time-out"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (412, "Precondition Failed"),
    (413, "Request Entity Too Large"),
    (414, "Request-URI Too Long"),
    (415, "Unsupported Media Type"),
    (416, "Requested range unsatisfiable"),
    (417, "Expectation failed"),
    (418, "I'm a teapot"),
    (421, "Misdirected Request"),
    (422, "Unprocessable Content"),
    (423, "Locked"),
    (424, "Method failure"),
    (425, "Too Early"),
    (426, "Upgrade Required"),
    (428, "Precondition Required"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (449, "Retry With"),
    (450, "Blocked by Windows Parental Controls"),
    (451, "Unavailable For Legal Reasons"),
    (456, "Unrecoverable Error"),
    (499, "client has closed connection"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway or Proxy Error"),
    (503, "Service Unavailable"),
    (504, "Gateway Time-out"),
    (505, "HTTP Version not supported"),
    (506, "Variant also negotiate"),
    (507, "Insufficient storage"),
    (508, "Loop detected"),
    (509, "Bandwidth Limit Exceeded"),
    (510, "Not extended"),
    (511, "Network authentication required"),
    (520, "Web server is returning an unknown error"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_reasons_are_sorted_and_found() {
        assert!(REASONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (status, want) in
            [(200, "OK"), (302, "Moved Temporarily"), (299, "Success"), (599, "Server Error"), (700, "Other")]
        {
            assert_eq!(reason(status), want);
        }
        assert_eq!((redirect_reason(302), redirect_reason(301)), ("Found", "Moved Permanently"));
    }
}
