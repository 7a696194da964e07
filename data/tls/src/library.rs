//! The cryptographic library: its name, for `-vv` and for conditions of configurations, and the preparation of threads
//! for it.

use std::sync::LazyLock;

/// Its name and version as programs that are built for OpenSSL see it: `OpenSSL 1.1.1 (compatible; AWS-LC <version>)`.
pub const BUILT: &str = text(aws_lc_sys::OPENSSL_VERSION_TEXT);
/// The version of OpenSSL with the same interface, encoded as OpenSSL does.
pub const OPENSSL: u32 = aws_lc_sys::OPENSSL_VERSION_NUMBER.cast_unsigned();
/// The version of its own interface.
pub const API: u32 = aws_lc_sys::AWSLC_API_VERSION.cast_unsigned();
/// The name that the library gives at run time: `AWS-LC <version>`.
pub static RUNNING: LazyLock<String> =
    LazyLock::new(|| format!("AWS-LC {}", text(aws_lc_sys::AWSLC_VERSION_NUMBER_STRING)));

/// Prepares the current thread for TLS. A thread's first random number takes the library some 50 ms, because its
/// generator collects entropy of its own then: no handshake should wait for that.
pub fn prepare_thread() {
    // A failure is ignored: it shows when a random number is needed.
    let _ = aws_lc_rs::rand::fill(&mut [0; 32]);
}

/// A C string without its NUL.
const fn text(bytes: &'static [u8]) -> &'static str {
    match std::ffi::CStr::from_bytes_with_nul(bytes) {
        Ok(text) => match text.to_str() {
            Ok(text) => text,
            Err(_) => panic!("the library's version is text"),
        },
        Err(_) => panic!("a C string ends with a NUL"),
    }
}
