//! ACL keywords: names that stand for a fetch with a match method.

use crate::fetch::AclKeyword;
use crate::pattern::MatchMethod::{self, Beg, Bin, Dir, Dom, End, Int, Len, Reg, Str, Sub};

/// Keywords that exist with every suffix of [`SUFFIXES`]: the keyword and its fetch.
const FAMILIES: [(&str, &str); 8] = [
    ("base", "base"),
    ("cook", "req.cook"),
    ("hdr", "req.hdr"),
    ("path", "path"),
    ("scook", "res.cook"),
    ("shdr", "res.hdr"),
    ("url", "url"),
    ("urlp", "urlp"),
];

/// Suffixes and the match methods that they imply.
const SUFFIXES: [(&str, MatchMethod); 8] = [
    ("", Str),
    ("_beg", Beg),
    ("_dir", Dir),
    ("_dom", Dom),
    ("_end", End),
    ("_len", Len),
    ("_reg", Reg),
    ("_sub", Sub),
];

/// Keywords without suffixes.
const SINGLE: [(&str, &str, MatchMethod); 14] = [
    ("http_auth_group", "http_auth_group", Str),
    ("method", "method", Str),
    ("payload", "req.payload", Bin),
    ("payload_lv", "req.payload_lv", Bin),
    ("req.ssl_ver", "req.ssl_ver", Int),
    ("req_rdp_cookie", "req.rdp_cookie", Str),
    ("req_rdp_cookie_cnt", "req.rdp_cookie_cnt", Int),
    ("req_ssl_sni", "req.ssl_sni", Str),
    ("req_ssl_ver", "req.ssl_ver", Int),
    ("req_ver", "req.ver", Str),
    ("resp_ver", "res.ver", Str),
    ("ssl_fc_sni_end", "ssl_fc_sni", End),
    ("ssl_fc_sni_reg", "ssl_fc_sni", Reg),
    ("urlp", "urlp", Str),
];

/// All keywords.
pub(crate) fn keywords() -> impl Iterator<Item = AclKeyword> {
    let families = FAMILIES.into_iter().flat_map(|(family, fetch)| {
        SUFFIXES.into_iter().map(move |(suffix, method)| {
            // Leaked for each registry. A process makes only a few registries.
            let name = String::leak(format!("{family}{suffix}"));
            AclKeyword { name, fetch, method, dotted: false }
        })
    });
    let single = SINGLE.into_iter().map(|(name, fetch, method)| {
        let dotted = fetch == "req.ssl_ver";
        AclKeyword { name, fetch, method, dotted }
    });
    families.chain(single)
}

/// Predefined ACLs (manual, 7.4): the name and the words of the definition.
pub(crate) const PREDEFINED: [(&str, &[&str]); 23] = [
    ("FALSE", &["always_false"]),
    ("HTTP", &["req.proto_http"]),
    ("HTTP_1.0", &["req.ver", "1.0"]),
    ("HTTP_1.1", &["req.ver", "1.1"]),
    ("HTTP_2.0", &["req.ver", "2.0"]),
    ("HTTP_3.0", &["req.ver", "3.0"]),
    ("HTTP_CONTENT", &["req.hdr_val(content-length)", "gt", "0"]),
    ("HTTP_URL_ABS", &["url_reg", "^[^/:]*://"]),
    ("HTTP_URL_SLASH", &["url_beg", "/"]),
    ("HTTP_URL_STAR", &["url", "*"]),
    ("LOCALHOST", &["src", "127.0.0.1/8", "::1"]),
    ("METH_CONNECT", &["method", "CONNECT"]),
    ("METH_DELETE", &["method", "DELETE"]),
    ("METH_GET", &["method", "GET", "HEAD"]),
    ("METH_HEAD", &["method", "HEAD"]),
    ("METH_OPTIONS", &["method", "OPTIONS"]),
    ("METH_POST", &["method", "POST"]),
    ("METH_PUT", &["method", "PUT"]),
    ("METH_TRACE", &["method", "TRACE"]),
    ("RDP_COOKIE", &["req.rdp_cookie_cnt", "gt", "0"]),
    ("REQ_CONTENT", &["req.len", "gt", "0"]),
    ("TRUE", &["always_true"]),
    ("WAIT_END", &["wait_end"]),
];
