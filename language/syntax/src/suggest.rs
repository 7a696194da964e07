//! "Did you mean": the nearest known word, if one is near enough.

/// The candidate that `word` probably means. `None` if no candidate is near enough. Near are an abbreviation (`set-hdr`) and a typing
/// error, about one edit for every three letters. Of equally near candidates, the one with the fewest edits wins, then the more used one,
/// then the first by name. The order of `candidates` does not matter.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > MAX_SUGGESTED_BYTES {
        return None;
    }
    let mut limit = (word.len() / 3).clamp(1, MAX_EDITS);
    let mut best: Option<(usize, usize, bool, &str)> = None;
    for candidate in candidates {
        // Replacing all letters of a short word is not a typing error.
        let possible = |distance: &usize| *distance < candidate.len().min(word.len());
        let typed = edit_distance(word, candidate, limit).filter(possible);
        // An abbreviation is intentional: it counts as one edit at most.
        let distance = if is_abbreviation(word, candidate) { Some(typed.unwrap_or(1).min(1)) } else { typed };
        if let Some(distance) = distance {
            let edits = typed.unwrap_or(usize::MAX);
            let found = (distance, edits, !USED_MOST.contains(&candidate), candidate);
            best = Some(best.map_or(found, |best| best.min(found)));
            limit = limit.min(distance.max(1));
        }
    }
    best.map(|(_, _, _, candidate)| candidate)
}

/// Whether `word` shortens `whole` part by part: `set-hdr` for `set-header`, `def_backend` for `default_backend`. Each part
/// keeps its first letter, at least two letters, and their order.
fn is_abbreviation(word: &str, whole: &str) -> bool {
    let parts = |text: &'_ str| text.split(['-', '_', '.']).map(str::to_ascii_lowercase).collect::<Vec<_>>();
    let (short, long) = (parts(word), parts(whole));
    word.len() < whole.len()
        && short.len() == long.len()
        && short.iter().zip(&long).all(|(short, long)| {
            let mut rest = long.bytes();
            let ordered = short.bytes().all(|byte| rest.any(|other| other == byte));
            short == long
                || (short.len() >= 2 && short.as_bytes().first() == long.as_bytes().first() && ordered)
        })
}

/// The number of edits (insert, delete, replace, swap of neighbours) between two words. `None` above `limit`.
/// Compares letters without case. `-` and `_` are equal.
pub fn edit_distance(left: &str, right: &str, limit: usize) -> Option<usize> {
    let left: Vec<u8> = left.bytes().map(fold).collect();
    let right: Vec<u8> = right.bytes().map(fold).collect();
    if left.len().abs_diff(right.len()) > limit || left.len().max(right.len()) > MAX_SUGGESTED_BYTES {
        return None;
    }
    let mut before = vec![0; right.len() + 1];
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    let mut current = vec![0; right.len() + 1];
    for (i, &a) in left.iter().enumerate() {
        current[0] = i + 1;
        for (j, &b) in right.iter().enumerate() {
            let replaced = previous[j] + usize::from(a != b);
            let mut cost = replaced.min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                cost = cost.min(before[j - 1] + 1);
            }
            current[j + 1] = cost;
        }
        if current.iter().min().is_some_and(|&least| least > limit) {
            return None;
        }
        std::mem::swap(&mut before, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    let distance = previous[right.len()];
    (distance <= limit).then_some(distance)
}

fn fold(byte: u8) -> u8 {
    match byte {
        b'_' => b'-',
        other => other.to_ascii_lowercase(),
    }
}

/// The most used words. Of two equally near words, a word in this list wins.
const USED_MOST: [&str; 44] = [
    "acl",
    "add-header",
    "allow",
    "backend",
    "backup",
    "balance",
    "bind",
    "capture",
    "check",
    "chroot",
    "client",
    "connect",
    "cookie",
    "daemon",
    "default_backend",
    "defaults",
    "del-header",
    "deny",
    "errorfile",
    "forwardfor",
    "frontend",
    "global",
    "group",
    "http-keep-alive",
    "http-request",
    "http-response",
    "httplog",
    "listen",
    "log",
    "maxconn",
    "mode",
    "option",
    "redirect",
    "redispatch",
    "return",
    "server",
    "set-header",
    "set-path",
    "set-var",
    "stats",
    "timeout",
    "use_backend",
    "user",
    "weight",
];

/// The longest word that gets a suggestion. Longer words are values, not keywords. It also bounds the cost of one comparison.
const MAX_SUGGESTED_BYTES: usize = 64;

/// The limit of edits for words of any length.
const MAX_EDITS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_changes_up_to_a_maximum() {
        assert_eq!(edit_distance("maxcon", "maxconn", 3), Some(1));
        assert_eq!(edit_distance("maxocnn", "maxconn", 3), Some(1));
        assert_eq!(edit_distance("default-backend", "default_backend", 3), Some(0));
        assert_eq!(edit_distance("abc", "xyz", 2), None);
        assert_eq!(edit_distance("", "ab", 2), Some(2));
    }

    #[test]
    fn did_you_mean_suggests_the_closest_word() {
        let words = ["maxconn", "maxconnrate", "mode", "bind", "log"];
        assert_eq!(did_you_mean("maxcon", words), Some("maxconn"));
        assert_eq!(did_you_mean("moed", words), Some("mode"));
        assert_eq!(did_you_mean("bnid", words), Some("bind"));
        assert_eq!(did_you_mean("frobnicate", words), None);
        assert_eq!(did_you_mean("x", words), None);
        assert_eq!(did_you_mean("", words), None);
        assert_eq!(did_you_mean("uid", ["uuid", "pid"]), Some("pid"));
        assert_eq!(did_you_mean("uid", ["pid", "uuid"]), Some("pid"));
    }

    #[test]
    fn did_you_mean_prefers_abbreviations_and_frequent_words() {
        let actions =
            ["set-dst", "set-header", "set-src", "set-tos", "set-uri", "set-var", "add-header", "del-header"];
        assert_eq!(did_you_mean("set-hdr", actions), Some("set-header"));
        assert_eq!(did_you_mean("add-hdr", actions), Some("add-header"));
        assert_eq!(did_you_mean("set-vra", actions), Some("set-var"));
        assert_eq!(did_you_mean("sethdr", actions), None);
        assert_eq!(did_you_mean("def_backend", ["default_backend", "use_backend"]), Some("default_backend"));
        assert_eq!(did_you_mean("srv", ["source", "server", "stats"]), Some("server"));
        // An abbreviation of both: the one with fewer edits.
        assert_eq!(did_you_mean("sc_rat", ["sc0_rate", "sc_rate"]), Some("sc_rate"));
        // One edit from both: the one that is used more.
        assert_eq!(did_you_mean("logg", ["logs", "log"]), Some("log"));
        assert_eq!(did_you_mean("denx", ["deny", "dena"]), Some("deny"));
    }
}
