//! HPACK, RFC 7541: header fields as indices and Huffman codes, and back.
//!
//! A [`Decoder`] takes the bytes of header blocks, whole or in pieces, and shows each field to its caller. A name is recognized
//! once, when it comes as text: the tables keep the recognized name ([`Token`]) and the defect of a field, so a field
//! that comes as an index is neither compared nor validated again. An [`Encoder`] does the reverse.
//!
//! The crate does not know frames, messages or connections, nor the rules for a list of fields: `weir-h2` does.
//! It bounds memory: a table never takes more than the size that was agreed on. Begin with [`Decoder`].

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
