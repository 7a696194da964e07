//! Samples, converters, patterns, ACLs, variables and log-format strings.
