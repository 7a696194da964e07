//! The choice of an algorithm by Accept-Encoding (RFC 9110, 12.5.3).

use weir_model::CompressionAlgorithm;

/// The configured algorithm that the client prefers. `values` are the values of all its Accept-Encoding lines. Of equal weights, the first
/// algorithm of [`CompressionAlgorithm::ALL`] wins. `None` if the client accepts none of them, or prefers none to be used.
///
/// `identity` needs no acceptance. It is chosen only if nothing else is.
pub fn preferred_algorithm<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    configured: &[CompressionAlgorithm],
) -> Option<CompressionAlgorithm> {
    let mut weights = Weights::default();
    for entry in values.flat_map(|value| value.split(|byte| *byte == b',')) {
        weights.add(entry.trim_ascii());
    }
    let best = CompressionAlgorithm::ALL
        .into_iter()
        .filter(|algorithm| *algorithm != CompressionAlgorithm::Identity)
        .filter_map(|algorithm| Some((listed(algorithm, configured)?, weights.of(algorithm))))
        .filter(|(_, weight)| *weight > 0)
        // The last of equals wins, so the order is reversed.
        .rev()
        .max_by_key(|(_, weight)| *weight);
    match best {
        Some((algorithm, weight)) if weights.identity.is_none_or(|identity| identity <= weight) => {
            Some(algorithm)
        }
        _ => listed(CompressionAlgorithm::Identity, configured),
    }
}

/// The algorithm, if it is configured and no earlier algorithm has the same coding.
fn listed(
    algorithm: CompressionAlgorithm,
    configured: &[CompressionAlgorithm],
) -> Option<CompressionAlgorithm> {
    let first = configured.iter().find(|other| other.coding() == algorithm.coding());
    first.copied().filter(|first| *first == algorithm)
}

/// The weights of the codings, in thousandths. `None` for a coding that the client does not name.
#[derive(Default)]
struct Weights {
    gzip: Option<u16>,
    deflate: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl Weights {
    /// Adds one entry of the list. A coding that is named twice has the higher weight.
    fn add(&mut self, entry: &[u8]) {
        let mut parts = entry.split(|byte| *byte == b';');
        let coding = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.find_map(weight_of).unwrap_or(WHOLE);
        let place = match coding.to_ascii_lowercase().as_slice() {
            b"gzip" => &mut self.gzip,
            b"deflate" => &mut self.deflate,
            b"br" => &mut self.brotli,
            b"zstd" => &mut self.zstd,
            b"identity" => &mut self.identity,
            b"*" => &mut self.any,
            _ => return,
        };
        *place = (*place).max(Some(weight));
    }

    fn of(&self, algorithm: CompressionAlgorithm) -> u16 {
        let named = match algorithm {
            CompressionAlgorithm::Gzip => self.gzip,
            CompressionAlgorithm::Deflate | CompressionAlgorithm::RawDeflate => self.deflate,
            CompressionAlgorithm::Brotli => self.brotli,
            CompressionAlgorithm::Zstd => self.zstd,
            CompressionAlgorithm::Identity => self.identity,
        };
        named.or(self.any).unwrap_or(0)
    }
}

/// The weight 1.
const WHOLE: u16 = 1000;

/// The weight of a `q` parameter in thousandths. An invalid weight counts as 1, as in HAProxy. `None` for other parameters.
fn weight_of(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at(parameter.iter().position(|byte| *byte == b'=')?);
    if !name.trim_ascii().eq_ignore_ascii_case(b"q") {
        return None;
    }
    let (whole, digits) = match value[1..].trim_ascii() {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return Some(WHOLE),
    };
    if whole != b'0' || !digits.iter().all(u8::is_ascii_digit) {
        return Some(WHOLE);
    }
    let thousandths = (0..3).map(|at| digits.get(at).map_or(0, |digit| u16::from(digit - b'0')));
    Some(thousandths.fold(0, |sum, digit| sum * 10 + digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::CompressionAlgorithm::*;

    #[track_caller]
    fn check(lines: &[&str], configured: &[CompressionAlgorithm], want: Option<CompressionAlgorithm>) {
        let values = lines.iter().map(|line| line.as_bytes());
        assert_eq!(preferred_algorithm(values, configured), want, "{lines:?} {configured:?}");
    }

    #[test]
    fn the_highest_weight_wins() {
        check(&["gzip;q=0.5, deflate"], &[Gzip, Deflate], Some(Deflate));
        check(&["deflate, gzip;q=0.9"], &[Gzip, Deflate], Some(Deflate));
        check(&["br;q=0.1, gzip;q=0.2"], &[Brotli, Gzip], Some(Gzip));
        check(&["gzip;q=0.001"], &[Gzip], Some(Gzip));
        check(&["gzip ; q=1"], &[Gzip], Some(Gzip));
        check(&["gzip;level=9;q=0.2, br;q=0.3"], &[Gzip, Brotli], Some(Brotli));
    }

    #[test]
    fn equal_weights_follow_the_order_of_preference() {
        check(&["gzip, deflate, br, zstd"], &[Deflate, Gzip, Brotli, Zstd], Some(Zstd));
        check(&["gzip, deflate, br, zstd"], &[Deflate, Gzip, Brotli], Some(Brotli));
        check(&["deflate, gzip"], &[Deflate, Gzip], Some(Gzip));
        check(&["*"], &[Gzip, Brotli], Some(Brotli));
    }

    #[test]
    fn weight_zero_refuses_a_coding() {
        check(&["gzip;q=0"], &[Gzip], None);
        check(&["gzip;q=0.000"], &[Gzip], None);
        check(&["gzip;q=0, *"], &[Gzip, Deflate], Some(Deflate));
        check(&["*;q=0"], &[Gzip], None);
        check(&["*;q=0, gzip"], &[Gzip, Brotli], Some(Gzip));
    }

    #[test]
    fn a_preferred_identity_is_respected() {
        check(&["identity, gzip;q=0.5"], &[Gzip], None);
        check(&["identity;q=0.5, gzip;q=0.5"], &[Gzip], Some(Gzip));
        check(&["identity;q=0"], &[Gzip], None);
        check(&["identity;q=0, *;q=0.1"], &[Gzip], Some(Gzip));
    }

    #[test]
    fn unknown_codings_and_empty_lists_accept_nothing() {
        check(&[], &[Gzip], None);
        check(&[""], &[Gzip], None);
        check(&[", ,;q=1,"], &[Gzip], None);
        check(&["x-gzip, compress"], &[Gzip], None);
        check(&["gzip"], &[], None);
        check(&["br"], &[Gzip], None);
    }

    #[test]
    fn an_invalid_weight_counts_as_one() {
        for weight in ["abc", "1.5", "2", "0.1234", "", "-1"] {
            check(&[&format!("gzip;q={weight}")], &[Gzip], Some(Gzip));
        }
    }

    #[test]
    fn all_lines_count_and_names_ignore_case() {
        check(&["br", "GZIP"], &[Gzip], Some(Gzip));
        check(&["gzip;q=0", "gzip"], &[Gzip], Some(Gzip));
        check(&["gzip;Q=0"], &[Gzip], None);
    }

    #[test]
    fn identity_is_the_last_choice() {
        check(&[], &[Gzip, Identity], Some(Identity));
        check(&["gzip"], &[Identity, Gzip], Some(Gzip));
        check(&["identity;q=0"], &[Identity], Some(Identity));
    }

    #[test]
    fn the_first_algorithm_of_the_coding_deflate_is_used() {
        check(&["deflate"], &[RawDeflate, Deflate], Some(RawDeflate));
        check(&["deflate"], &[Deflate, RawDeflate], Some(Deflate));
    }

    #[test]
    fn long_lists_are_read_to_their_end() {
        let long = format!("{}gzip", "x,".repeat(8_000));
        check(&[&long], &[Gzip], Some(Gzip));
    }
}
