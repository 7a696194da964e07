//! "Did you mean": the nearest known word, when one is near enough to be meant.

/// The candidate nearest to `word`, or `None` when nothing is close enough to be a slip of the fingers: about one
/// edit for every three letters. Of several that are as near, the first by name, whatever the order of `candidates`.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.is_empty() || word.len() > MAX_SUGGESTED_BYTES {
        return None;
    }
    let mut limit = (word.len() / 3).clamp(1, MAX_EDITS);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        // Replacing all of a short word is not a typing mistake.
        let possible = |distance: &usize| *distance < candidate.len().min(word.len());
        if let Some(distance) = edit_distance(word, candidate, limit).filter(possible) {
            let found = (distance, candidate);
            best = Some(best.map_or(found, |best| best.min(found)));
            limit = limit.min(distance);
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other, `None` above `limit`.
/// Letters compare without case, `-` and `_` are the same.
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

/// Longer words are payloads, not keywords; this also bounds the work of one comparison.
const MAX_SUGGESTED_BYTES: usize = 64;

/// However long the word, more edits than this is another word.
const MAX_EDITS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edit_distance("maxcon", "maxconn", 3), Some(1));
        assert_eq!(edit_distance("maxocnn", "maxconn", 3), Some(1));
        assert_eq!(edit_distance("default-backend", "default_backend", 3), Some(0));
        assert_eq!(edit_distance("abc", "xyz", 2), None);
        assert_eq!(edit_distance("", "ab", 2), Some(2));
    }

    #[test]
    fn suggestions() {
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
}
