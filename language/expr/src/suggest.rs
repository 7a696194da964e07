//! "Did you mean": the closest known word.

/// The candidate closest to `word`, if it is close enough to be a likely typing mistake.
pub(crate) fn closest<'n>(word: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = (word.len() / 3).clamp(1, 3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= limit)
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        // The first by name of those that are as near: the candidates come from a hash map, in any order.
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance where swapping two neighbours costs one.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![vec![0usize; width]; 3];
    for (j, cell) in rows[1].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let substitution = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<&str>) {
        assert_eq!(
            closest(word, ["path", "path_beg", "src", "hdr", "query"].into_iter()),
            expected,
            "{word}"
        );
    }

    #[test]
    fn typing_mistakes_are_recognised_and_strangers_are_not() {
        check("paht", Some("path"));
        check("pathbeg", Some("path_beg"));
        check("scr", Some("src"));
        check("elephant", None);
        check("", None);
    }
}
