//! The English excerpts of a file, by kind of text.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use crate::SourceFile;

/// The kinds of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Lines of Rust that begin with `///` or `//!`.
    DocComment,
    /// Other lines of Rust that begin with `//`.
    InlineComment,
    /// Names of test functions in Rust.
    TestName,
    /// Strings of at least four words in the crates with messages for operators.
    Message,
    /// Comments, first lines of docstrings, and long function names in Python.
    Python,
    /// The manual.
    Manual,
    /// All other Markdown: design notes and the pages of the root folder.
    Page,
}

impl fmt::Display for TextKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::DocComment => "doc comments",
            Self::InlineComment => "inline comments",
            Self::TestName => "test names",
            Self::Message => "messages",
            Self::Python => "python",
            Self::Manual => "manual",
            Self::Page => "design and root pages",
        })
    }
}

/// A text of one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The kind of text.
    pub kind: TextKind,
    /// The line's number, from 1.
    pub line: usize,
    /// The text without the comment marker. Names are split into words, separated by spaces.
    pub text: String,
}

/// The folders of crates with messages for operators.
const SPEAKING: [&str; 3] = ["bin/", "control/", "language/"];
const MANUAL: &str = "doc/manual/";
/// Minimum number of words of a message. Shorter strings are mostly keywords.
const MESSAGE_WORDS: usize = 4;
/// Maximum number of lines from `#[test]` to its function.
const ATTRIBUTE_LINES: usize = 5;

/// A string literal of at least 12 characters. After a shorter literal it may match code, which rarely contains four words.
static STRING: LazyLock<Regex> = LazyLock::new(|| regex(r#""((?:[^"\\]|\\.){12,})""#));
static RUST_NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"^\s*(?:async )?fn (\w+)"));
static PYTHON_NAME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^def (test_\w+|an?_\w+|the_\w+|\w+_\w+_\w+_\w+)\("));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a regular expression of this file")
}

/// The excerpts of a file, in order.
pub(super) fn excerpts(file: &SourceFile) -> Vec<Excerpt> {
    let mut found = Excerpts(Vec::new());
    match file.path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => rust(file, &mut found),
        Some("py") => python(file, &mut found),
        Some("md") => {
            let kind = if file.path.starts_with(MANUAL) { TextKind::Manual } else { TextKind::Page };
            file.text.lines().enumerate().for_each(|(line, text)| found.add(kind, line, text));
        }
        _ => {}
    }
    found.0
}

struct Excerpts(Vec<Excerpt>);

impl Excerpts {
    /// Adds the text of a line, counted from 0.
    fn add(&mut self, kind: TextKind, line: usize, text: &str) {
        self.0.push(Excerpt { kind, line: line + 1, text: text.to_owned() });
    }

    fn add_name(&mut self, kind: TextKind, line: usize, name: &str) {
        self.add(kind, line, &name.replace('_', " "));
    }
}

fn rust(file: &SourceFile, found: &mut Excerpts) {
    let speaks = SPEAKING.iter().any(|folder| file.path.starts_with(folder));
    let lines = Vec::from_iter(file.text.lines());
    for (number, line) in lines.iter().enumerate() {
        let code = line.trim();
        if let Some(text) = code.strip_prefix("///").or_else(|| code.strip_prefix("//!")) {
            found.add(TextKind::DocComment, number, text);
        } else if let Some(text) = code.strip_prefix("//") {
            found.add(TextKind::InlineComment, number, text);
        } else if ["#[test]", "#[tokio::test]"].iter().any(|mark| code.starts_with(mark)) {
            let after = lines.iter().enumerate().skip(number + 1).take(ATTRIBUTE_LINES);
            let name = after.filter_map(|(number, line)| Some((number, RUST_NAME.captures(line)?))).next();
            if let Some((number, name)) = name {
                found.add_name(TextKind::TestName, number, &name[1]);
            }
        } else if speaks && code.contains('"') {
            for string in STRING.captures_iter(line) {
                if string[1].split_whitespace().nth(MESSAGE_WORDS - 1).is_some() {
                    found.add(TextKind::Message, number, &string[1]);
                }
            }
        }
    }
}

fn python(file: &SourceFile, found: &mut Excerpts) {
    for (number, line) in file.text.lines().enumerate() {
        let code = line.trim();
        let comment = ["#", "\"\"\"", "'''"].iter().find_map(|mark| code.strip_prefix(mark));
        if let Some(text) = comment {
            found.add(TextKind::Python, number, text);
        } else if let Some(name) = PYTHON_NAME.captures(code) {
            found.add_name(TextKind::Python, number, &name[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(TextKind, usize, &str)]) {
        let file = SourceFile { path: path.into(), text: text.into() };
        let excerpts = excerpts(&file);
        let found =
            Vec::from_iter(excerpts.iter().map(|found| (found.kind, found.line, found.text.as_str())));
        assert_eq!(found, expected, "{path}: {text}");
    }

    #[test]
    fn distinguishes_doc_and_inline_comments() {
        check(
            "data/x/src/a.rs",
            "//! One.\n\nfn f() {\n    /// Two.\n    // Three.\n    let x = 1; // Four.\n}\n",
            &[
                (TextKind::DocComment, 1, " One."),
                (TextKind::DocComment, 4, " Two."),
                (TextKind::InlineComment, 5, " Three."),
            ],
        );
    }

    #[test]
    fn splits_rust_test_names_into_words() {
        check("a.rs", "#[test]\n#[ignore]\nfn a_b() {}\nfn c_d() {}\n", &[(TextKind::TestName, 3, "a b")]);
        check("a.rs", "  #[tokio::test]\n  async fn a_b() {}\n", &[(TextKind::TestName, 2, "a b")]);
        check("a.rs", "#[test]\n\n\n\n\n\nfn a_b() {}\n", &[]);
    }

    #[test]
    fn collects_string_messages_only_of_operator_facing_crates() {
        let text = "    let text = format!(\"the \\\"file\\\" is there\", \"and a second one\");\n";
        let messages =
            [(TextKind::Message, 1, "the \\\"file\\\" is there"), (TextKind::Message, 1, "and a second one")];
        for folder in ["bin/weir", "control/cli", "language/expr"] {
            check(&format!("{folder}/src/a.rs"), text, &messages);
        }
        check("data/x/src/a.rs", text, &[]);
        check("bin/weir/src/a.rs", "\"only three words\"", &[]);
        check("bin/weir/src/a.rs", "\"a b c d\"", &[]);
    }

    #[test]
    fn collects_python_comments_docstrings_and_long_function_names() {
        check(
            "tests/a.py",
            "# One.\n\"\"\"Two.\nThree.\n\"\"\"\n\'\'\'Four.\'\'\'\ndef test_five(x):\n",
            &[
                (TextKind::Python, 1, " One."),
                (TextKind::Python, 2, "Two."),
                (TextKind::Python, 4, ""),
                (TextKind::Python, 5, "Four.\'\'\'"),
                (TextKind::Python, 6, "test five"),
            ],
        );
        check(
            "tests/a.py",
            "def a_server(x):\n  def the_server():",
            &[(TextKind::Python, 1, "a server"), (TextKind::Python, 2, "the server")],
        );
        check(
            "tests/a.py",
            "def one_two_three_four():\ndef one_two_three():\n",
            &[(TextKind::Python, 1, "one two three four")],
        );
    }

    #[test]
    fn distinguishes_the_manual_from_other_markdown_pages() {
        check("doc/manual/src/a.md", "One.\n", &[(TextKind::Manual, 1, "One.")]);
        check("doc/design/a.md", "One.\n", &[(TextKind::Page, 1, "One.")]);
        check("README.md", "One.\n", &[(TextKind::Page, 1, "One.")]);
    }
}
