//! Whether caches between weir and the client may store a response, for `option checkcache` and for the `nocache` of cookies.

use weir_http::{Head, Method};

/// The permissions of a cache, from the method, the status and the fields of a response (RFC 9111, 3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caching {
    /// A cache may store the response: the method and status allow it, or the response is `public`, and no later directive forbids it.
    allowed: bool,
    /// A cache may also store the cookies: no directive restricts them to one client.
    cookies: bool,
    /// The response has an age or a validator, so storing it is useful.
    lasts: bool,
}

impl Caching {
    /// Evaluates a response to a request with this method. Of contradicting directives the last one counts.
    pub(crate) fn of(method: Method, head: &Head, raw: &[u8]) -> Caching {
        let by_default = method.is_safe() && CACHEABLE.contains(&head.status());
        let lasts = [&b"etag"[..], b"last-modified", b"expires"].iter().any(|name| head.has(raw, name));
        let mut caching = Caching { allowed: by_default, cookies: true, lasts };
        for directive in head.values(raw, b"cache-control") {
            caching.hear(&directive.to_ascii_lowercase());
        }
        let mut pragmas = head.values(raw, b"pragma");
        caching.allowed &= !pragmas.any(|value| value.eq_ignore_ascii_case(b"no-cache"));
        caching
    }

    /// Whether a cache may store the response and benefits from it.
    pub(crate) fn keeps(self) -> bool {
        self.allowed && self.lasts
    }

    /// Whether a cache may store the response with its cookies, if only by heuristics (RFC 9111, 4.2.2).
    pub(crate) fn may_keep_cookies(self) -> bool {
        self.allowed && self.cookies
    }

    fn hear(&mut self, directive: &[u8]) {
        match directive {
            b"public" => (self.allowed, self.cookies) = (true, true),
            b"private" | b"no-cache" | b"no-store" | b"max-age=0" | b"s-maxage=0" => self.allowed = false,
            other if other.starts_with(b"no-cache=\"set-cookie") => self.cookies = false,
            other => self.lasts |= other.starts_with(b"max-age=") || other.starts_with(b"s-maxage="),
        }
    }
}

/// Statuses that caches store by default (RFC 9110, 15.1).
const CACHEABLE: [u16; 11] = [200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501];

#[cfg(test)]
mod tests {
    use super::*;

    fn caching(method: Method, status: u16, fields: &[(&str, &str)]) -> Caching {
        let mut head = Head::new();
        head.start_response(weir_http::Version::HTTP_11, status, b"").expect("room");
        for (name, value) in fields {
            head.add(name.as_bytes(), value.as_bytes()).expect("room");
        }
        Caching::of(method, &head, b"")
    }

    /// The behaviour of HAProxy 2.6.
    #[test]
    fn a_response_is_cached_if_it_is_cacheable_with_max_age_or_validator() {
        #[track_caller]
        fn check(method: Method, status: u16, fields: &[(&str, &str)], expected: bool) {
            assert_eq!(caching(method, status, fields).keeps(), expected, "{method:?} {status} {fields:?}");
        }
        let tag = ("ETag", "\"x\"");
        let cache_control = |directives: &'static str| [tag, ("Cache-Control", directives)];
        check(Method::Get, 200, &[], false);
        check(Method::Get, 200, &[tag], true);
        check(Method::Get, 200, &[("Expires", "0")], true);
        check(Method::Get, 200, &[("Cache-Control", "max-age=10")], true);
        check(Method::Get, 200, &[("Cache-Control", "public")], false);
        check(Method::Head, 404, &[tag], true);
        check(Method::Post, 200, &[tag], false);
        check(Method::Other, 200, &[tag], false);
        check(Method::Get, 302, &[tag], false);
        check(Method::Get, 503, &[tag], false);
        check(Method::Get, 200, &cache_control("public"), true);
        check(Method::Delete, 200, &cache_control("public"), true);
        check(Method::Post, 500, &cache_control("private, public"), true);
        check(Method::Post, 200, &cache_control("public, private"), false);
        check(Method::Get, 201, &cache_control("max-age=5"), false);
        check(Method::Get, 201, &cache_control("max-age=5, public"), true);
        check(Method::Get, 200, &cache_control("no-cache, public"), true);
        check(Method::Get, 200, &cache_control("PRIVATE"), false);
        check(Method::Get, 200, &cache_control("private, max-age=5"), false);
        check(Method::Get, 200, &cache_control("max-age=0, s-maxage=5"), false);
        check(Method::Get, 200, &cache_control("max-age=5, s-maxage=0"), false);
        check(Method::Get, 200, &cache_control("no-cache=\"set-cookie\""), true);
        check(Method::Get, 200, &[tag, ("Pragma", "no-cache"), ("Cache-Control", "public")], false);
    }

    /// The manual's list ("option checkcache"): a cookie may be stored by mistake even without a validator.
    #[test]
    fn checkcache_detects_cookies_that_a_cache_may_store() {
        #[track_caller]
        fn check(method: Method, status: u16, directives: &str, expected: bool) {
            let caching = caching(method, status, &[("Cache-Control", directives)]);
            assert_eq!(caching.may_keep_cookies(), expected, "{method:?} {status} {directives}");
        }
        check(Method::Get, 200, "", true);
        check(Method::Post, 200, "", false);
        check(Method::Post, 200, "public", true);
        check(Method::Get, 201, "", false);
        check(Method::Get, 201, "public", true);
        check(Method::Get, 200, "private", false);
        check(Method::Get, 200, "no-cache=\"set-cookie\"", false);
        check(Method::Get, 200, "public, no-cache=\"set-cookie\"", false);
        check(Method::Get, 200, "no-cache=\"x\"", true);
        assert!(
            !caching(Method::Get, 200, &[("Cache-Control", "public"), ("Pragma", "no-cache")])
                .may_keep_cookies()
        );
    }
}
