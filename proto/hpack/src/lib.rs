//! HPACK (RFC 7541): encoder and decoder of header fields.
//!
//! A [`Decoder`] takes the bytes of header blocks, whole or in pieces, and passes each field to its caller. A literal
//! name is recognized once. The tables store the recognized name ([`Token`]) and the defect of a field, so an indexed
//! field is neither compared nor validated again. An [`Encoder`] does the reverse.
//!
//! The crate does not know frames, messages or connections, nor the rules for a list of fields: `weir-h2` does. It
//! bounds memory: a table never exceeds the negotiated size. Begin with [`Decoder`].

pub mod decoder;
pub mod encoder;
pub mod huffman;
pub mod integer;
mod static_table;
mod table;
pub mod token;

pub use decoder::{DecodedField, Decoder, Error};
pub use encoder::{Encoder, Indexing};
pub use token::{Defect, Token};
