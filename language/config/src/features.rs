//! The features of `feature(<name>)` and `-vv`.
//!
//! The names are HAProxy's build options. A feature is absent (`-`) if weir does not support its words, even if weir provides the function by
//! other means: configurations test features to decide which words they may use.

/// Every name, and whether weir has the feature, in the order of `-vv`.
pub const FEATURES: &[(&str, bool)] = &[
    ("51DEGREES", false),
    ("ACCEPT4", true),
    ("ACME", false),
    ("BACKTRACE", true),
    ("CLOSEFROM", false),
    ("CPU_AFFINITY", true),
    ("CRYPT_H", true),
    ("DEVICEATLAS", false),
    ("DL", false),
    ("ECH", false),
    ("ENGINE", false),
    ("EPOLL", true),
    ("EVPORTS", false),
    ("FCGI", true),
    ("GETADDRINFO", true),
    ("H2", true),
    ("HAVE_TCP_MD5SIG", false),
    ("KQUEUE", false),
    ("KTLS", false),
    ("LIBATOMIC", false),
    ("LIBCRYPT", true),
    ("LINUX_CAP", false),
    ("LINUX_SPLICE", true),
    ("LINUX_TPROXY", true),
    ("LUA", true),
    ("MATH", true),
    ("MEMORY_PROFILING", false),
    ("NETFILTER", true),
    ("NS", false),
    ("OBSOLETE_LINKER", false),
    ("OPENSSL", true),
    ("OPENSSL_AWSLC", true),
    ("OPENSSL_WOLFSSL", false),
    ("PCRE", false),
    ("PCRE2", true),
    ("PCRE2_JIT", true),
    ("PCRE_JIT", false),
    ("POLL", false),
    ("PRCTL", true),
    ("PROCCTL", false),
    ("PROMEX", true),
    ("PTHREAD_EMULATION", false),
    ("QUIC", false),
    ("QUIC_OPENSSL_COMPAT", false),
    ("RT", true),
    ("SHM_OPEN", false),
    ("SLZ", false),
    ("SPOE", true),
    ("SSL", true),
    ("STATIC_PCRE", false),
    ("STATIC_PCRE2", true),
    ("TFO", true),
    ("THREAD", true),
    ("THREAD_DUMP", false),
    ("TPROXY", true),
    ("TRACE", false),
    ("WURFL", false),
    ("ZLIB", true),
];

/// Whether weir has the feature with this name.
pub fn has_feature(name: &str) -> bool {
    FEATURES.iter().any(|(known, present)| *known == name && *present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_names_are_sorted_and_found() {
        assert!(FEATURES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(has_feature("THREAD"));
        // The tests that guard lines about TLS in configurations for builds with and without it.
        assert!(has_feature("OPENSSL") && has_feature("SSL") && !has_feature("OPENSSL_WOLFSSL"));
        assert!(!has_feature("thread"));
    }
}
