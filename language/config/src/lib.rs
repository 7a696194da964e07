//! The typed configuration: sections and keywords as rows.
