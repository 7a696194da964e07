//! The cryptographic library: its version, for `-vv` and for configuration conditions, and its per-thread initialization.

use std::sync::LazyLock;

/// Name and version as a program built for OpenSSL sees them: `OpenSSL 1.1.1 (compatible; AWS-LC <version>)`.
pub const BUILT: &str = text(aws_lc_sys::OPENSSL_VERSION_TEXT);
/// The OpenSSL version that the library is compatible with, in OpenSSL's encoding.
pub const OPENSSL: u32 = aws_lc_sys::OPENSSL_VERSION_NUMBER.cast_unsigned();
/// The version of AWS-LC's own API.
pub const API: u32 = aws_lc_sys::AWSLC_API_VERSION.cast_unsigned();
/// The version that the library reports at run time: `AWS-LC <version>`.
pub static RUNNING: LazyLock<String> =
    LazyLock::new(|| format!("AWS-LC {}", text(aws_lc_sys::AWSLC_VERSION_NUMBER_STRING)));

/// Prepares the current thread for TLS. The first random number of a thread takes some 50 ms, because the library seeds a generator
/// per thread. Without this call, a handshake would wait for that.
pub fn prepare_thread() {
    // A failure is ignored here. The next use of random numbers reports it.
    let _ = aws_lc_rs::rand::fill(&mut [0; 32]);
}

/// A C string without its NUL byte.
const fn text(bytes: &'static [u8]) -> &'static str {
    match std::ffi::CStr::from_bytes_with_nul(bytes) {
        Ok(text) => match text.to_str() {
            Ok(text) => text,
            Err(_) => panic!("the library's version is text"),
        },
        Err(_) => panic!("a C string ends with a NUL"),
    }
}
