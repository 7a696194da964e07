//! Turns a connection into streams.
