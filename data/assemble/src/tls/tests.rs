//! Compares defaults with the manual.

use weir_config::vocabulary::{DefaultValue, WordPlace, words};
use weir_stream::KEYWORDS;

/// Covers the numeric defaults.
#[test]
fn tls_cache_and_ocsp_defaults_match_the_manual() {
    let updates = weir_model::OcspUpdates::default();
    let tls = weir_model::GlobalTls::default();
    let words = words(&KEYWORDS);
    for (name, value) in [
        ("tune.ssl.cachesize", tls.sessions.into()),
        ("tune.ssl.ssl-ctx-cache-size", tls.generated_certificates.into()),
        ("tune.ssl.lifetime", tls.session_lifetime.as_secs()),
        ("ocsp-update.mindelay", updates.least_delay.into()),
        ("ocsp-update.maxdelay", updates.most_delay.into()),
        ("tune.ssl.ocsp-update.mindelay", updates.least_delay.into()),
        ("tune.ssl.ocsp-update.maxdelay", updates.most_delay.into()),
    ] {
        let word = words.iter().find(|word| word.place == WordPlace::Global && word.name == name);
        let documented = word.and_then(|word| word.default);
        let is_documented =
            matches!(documented, Some(DefaultValue::Described(text)) if text == format!("`{value}`"));
        assert!(is_documented, "{name}: {documented:?}, not {value}");
    }
}
