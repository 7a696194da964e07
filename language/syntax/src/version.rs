//! Version numbers, and the version of the language that weir implements.

use std::cmp::Ordering;
use std::fmt;

/// `major.minor[.patch]` or `major.minor-dev<n>`. A development version is older than the release with its number.
///
/// A form like `3.5-dev5-50872d-2` is accepted too. The part after the version is a build, which is not compared.
/// The default is version zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReleaseVersion {
    major: u32,
    minor: u32,
    patch: u32,
    development: Option<u32>,
}

/// The language that weir implements: HAProxy's, as of 3.5. `version_atleast()` and `version_before()` compare with this version, not
/// with weir's own, so that configurations for HAProxy choose the same branches. It is the release and not a development version, so
/// that all tests for `3.5-dev<n>` and `3.5` are true.
pub const LANGUAGE_VERSION: ReleaseVersion =
    ReleaseVersion { major: 3, minor: 5, patch: 0, development: None };

impl ReleaseVersion {
    /// Parses a version. Missing components are zero. `None` if the text is not a version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut version = ReleaseVersion::default();
        let mut rest;
        (version.major, rest) = number(text)?;
        if let Some(after) = rest.strip_prefix('.') {
            (version.minor, rest) = number(after)?;
        }
        if let Some(after) = rest.strip_prefix('.') {
            (version.patch, rest) = number(after)?;
        }
        if let Some(after) = rest.strip_prefix("-dev") {
            let (development, after) = number(after)?;
            version.development = Some(development);
            rest = after;
        }
        (rest.is_empty() || rest.starts_with('-') || rest.starts_with('+')).then_some(version)
    }

    fn key(&self) -> (u32, u32, u32, u32) {
        (self.major, self.minor, self.patch, self.development.unwrap_or(u32::MAX))
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

impl PartialOrd for ReleaseVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReleaseVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.development {
            Some(number) => write!(formatter, "{}.{}-dev{number}", self.major, self.minor),
            None => write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(older: &str, newer: &str) {
        assert!(
            ReleaseVersion::parse(older).unwrap() < ReleaseVersion::parse(newer).unwrap(),
            "{older} < {newer}"
        );
    }

    #[test]
    fn release_versions_are_ordered() {
        check("2.4", "3.0");
        check("2.4-dev19", "2.4");
        check("2.4-dev9", "2.4-dev19");
        check("2.4.9", "2.4.10");
        check("2.4.1", "2.5-dev0");
        assert_eq!(ReleaseVersion::parse("2.6.12-1+deb12u4"), ReleaseVersion::parse("2.6.12"));
        assert_eq!(ReleaseVersion::parse("3.5-dev5-50872d-2"), ReleaseVersion::parse("3.5-dev5"));
        for bad in ["", "x", "v3.5", "3.", "3..5", "3.5 ", "3.5x", "99999999999"] {
            assert_eq!(ReleaseVersion::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_language_version_is_3_5() {
        for text in ["3.5-dev1", "3.5-dev99", "3.5", "2.9"] {
            assert!(LANGUAGE_VERSION >= ReleaseVersion::parse(text).unwrap(), "{text}");
        }
        assert!(LANGUAGE_VERSION < ReleaseVersion::parse("3.6-dev0").unwrap());
        assert_eq!(LANGUAGE_VERSION.to_string(), "3.5.0");
    }
}
