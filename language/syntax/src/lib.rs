//! The lexer: lines, words, quoting, environment, conditions, and diagnostics with spans.
