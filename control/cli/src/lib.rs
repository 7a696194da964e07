//! The runtime API.
