//! The six patterns of indirect English, each with its remedy.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

/// A pattern of indirect English.
#[derive(Debug)]
pub(super) struct PhrasePattern {
    /// Better words.
    pub remedy: &'static str,
    regex: &'static str,
}

/// Every pattern. They are independent: the same words may match several of them.
pub(super) const PATTERNS: [PhrasePattern; 6] = [
    PhrasePattern {
        remedy: "name the actor: the client, the caller, the worker",
        regex: r"(?:(?:^|[.,;:] |\b(?:to|for|by|of|and|that) )[Ww]ho(?:ever)? [a-z]+)|\b[Ww]hoever\b",
    },
    PhrasePattern {
        remedy: "name the thing with a noun: the bytes read, the error, the effect",
        regex: r"\b[Ww]hat (?:is|was|are|were|has|had|a|an|the|it|they|one|others?|comes?|came|leaves?|remains?|waits?|rarely|another|each|this|that|arrives?|stands?|nobody|somebody|everybody|its|their|no|all|many|several|two|does|did|makes?|follows|goes|begins|ends|became|belongs?|happens?|happened|would|may|can|must|shall|will|wants?|we)\b",
    },
    PhrasePattern {
        remedy: "negate the verb, not the noun: is not valid, does not wait, without a name",
        regex: r"\b(?:is|are|was|were|has|have|had|of|be|been) (?:no|none)\b|\b[Nn]obody\b",
    },
    PhrasePattern {
        remedy: "use the verb of the operation: receives, sends, reports, requests, checks whether",
        regex: r"\b(?:is|are|was|be) (?:told|said|asked)\b|\btells?\b|\btold\b|\b[Ss]ays? so\b|\basks? (?:for|of|whether)\b",
    },
    PhrasePattern {
        remedy: "use `with`, `of the` or a second sentence",
        regex: r"\b[Ww]hose\b|\bof which\b|\b(?:for|to|by|of) whom\b",
    },
    PhrasePattern {
        remedy: "state the condition: unchanged, verbatim, in arrival order",
        regex: r"\bas (?:it|they) (?:is|are|was|were|came?|comes?|stands?|stood|has|have)\b",
    },
];

static REGEXES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compiled = |pattern: &PhrasePattern| Regex::new(pattern.regex).expect("a regular expression");
    PATTERNS.iter().map(compiled).collect()
});
/// All patterns in one search, which is fast for the usual text without a match.
static ANY: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(PATTERNS.iter().map(|pattern| pattern.regex)).expect("regular expressions")
});

/// The matches in a text: each one's pattern and words.
pub(super) fn matches(text: &str) -> Vec<(&'static PhrasePattern, &str)> {
    let mut found = Vec::new();
    for index in ANY.matches(text) {
        for hit in REGEXES[index].find_iter(text) {
            if !is_question(hit.as_str(), &text[hit.end()..]) {
                found.push((&PATTERNS[index], hit.as_str().trim()));
            }
        }
    }
    found
}

/// Whether a match of the first pattern is the question "who is it", which is direct. (The crate regex lacks look-ahead.)
fn is_question(hit: &str, after: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    ["who is", "Who is"].iter().any(|question| hit.ends_with(question))
        && after.strip_prefix(" it").is_some_and(|rest| !rest.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the matches of a text: the pattern's number, from 1, and the words.
    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let number = |pattern: &PhrasePattern| {
            1 + PATTERNS.iter().position(|known| known.regex == pattern.regex).expect("a known pattern")
        };
        let found: Vec<(usize, &str)> =
            matches(text).into_iter().map(|(pattern, words)| (number(pattern), words)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn finds_actors_without_a_noun() {
        check("who asks first", &[(1, "who asks")]);
        check("bytes; who sends them, and to whoever reads", &[(1, "; who sends"), (1, "to whoever reads")]);
        check("answers for who waits, by who came", &[(1, "for who waits"), (1, "by who came")]);
        check("Whoever", &[(1, "Whoever")]);
        check("the client who asks", &[]);
    }

    #[test]
    fn ignores_the_server_question_who_is_it() {
        check("says to who is it", &[]);
        check("to who is italic", &[(1, "to who is")]);
        check("to who is there", &[(1, "to who is")]);
        check("Whoever is it", &[(1, "Whoever is")]);
    }

    #[test]
    fn finds_free_relative_clauses_used_as_nouns() {
        check("What is read, and what the peer does", &[(2, "What is"), (2, "what the")]);
        check("what others wrote of what happened", &[(2, "what others"), (2, "what happened")]);
        check("what we want, somewhat is whatever it is", &[(2, "what we")]);
        check("what comes and what does not", &[(2, "what comes"), (2, "what does")]);
    }

    #[test]
    fn finds_negated_nouns() {
        check("it is no string", &[(3, "is no")]);
        check(
            "has none of no use, nobody had no time",
            &[(3, "has none"), (3, "of no"), (3, "nobody"), (3, "had no")],
        );
        check("there was nothing, this noon", &[]);
    }

    #[test]
    fn finds_verbs_of_speech() {
        check("the name is told, it tells more, told so", &[(4, "is told"), (4, "tells"), (4, "told")]);
        check(
            "Says so. It asks whether, and asks for",
            &[(4, "Says so"), (4, "asks whether"), (4, "asks for")],
        );
        check("are asked, was said", &[(4, "are asked"), (4, "was said")]);
        check("teller, saying, asks nothing", &[]);
    }

    #[test]
    fn finds_clauses_of_possession() {
        check("a server whose name, of which two", &[(5, "whose"), (5, "of which")]);
        check("Whose, and to whom", &[(5, "Whose"), (5, "to whom")]);
        check("which of them, whom", &[]);
    }

    #[test]
    fn finds_unnamed_conditions_after_as() {
        check("sent as it is, as they came", &[(6, "as it is"), (6, "as they came")]);
        check("as it stands, as it has been", &[(6, "as it stands"), (6, "as it has")]);
        check("as it reads, as its", &[]);
    }

    #[test]
    fn counts_a_phrase_once_for_each_matching_pattern() {
        check("nobody knows what nobody says", &[(2, "what nobody"), (3, "nobody"), (3, "nobody")]);
    }
}
