//! The query parameters of a scrape: `scope=`, `metrics=`, `no-maint`, `desc-labels`, `extra-counters`, `histograms`.

use weir_http::percent;

/// The scope of a metric: the kind of object, and a part of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricScope {
    Global,
    Frontend,
    /// Listeners, with `option socket-stats`.
    Listener,
    Backend,
    Server,
    StickTable,
    Resolver,
}

impl MetricScope {
    /// All scopes, in output order.
    pub const ALL: [MetricScope; 7] = [
        MetricScope::Global,
        MetricScope::Frontend,
        MetricScope::Listener,
        MetricScope::Backend,
        MetricScope::Server,
        MetricScope::StickTable,
        MetricScope::Resolver,
    ];

    /// The word for `scope=`.
    pub fn word(self) -> &'static str {
        ["global", "frontend", "listener", "backend", "server", "sticktable", "resolver"][self as usize]
    }

    /// The prefix of metric names in this scope, after `haproxy_`.
    pub(super) fn prefix(self) -> &'static str {
        if self == MetricScope::Global { "process" } else { self.word() }
    }

    pub(super) const fn mask(self) -> u8 {
        1 << self as u8
    }
}

/// The format of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerForm {
    /// Text exposition format, version 0.0.4.
    #[default]
    Text,
    /// Delimited Protocol Buffers messages, for clients that request native histograms.
    Protobuf,
}

impl AnswerForm {
    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            AnswerForm::Text => "text/plain; version=0.0.4",
            AnswerForm::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The preferred format of an `Accept` field (RFC 9110, 12.5.1). Protocol Buffers only if listed explicitly, with at least the
    /// weight of text.
    fn preferred(accept: &[u8]) -> AnswerForm {
        let Ok(accept) = std::str::from_utf8(accept) else { return AnswerForm::Text };
        let (mut messages, mut text) = (0.0, 0.0);
        for range in accept.split(',').take(MOST_RANGES) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let mut quality = 1.0;
            let mut fits = [false; 2];
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "proto" => fits[0] = value.trim() == "io.prometheus.client.MetricFamily",
                    "encoding" => fits[1] = value.trim() == "delimited",
                    _ => {}
                }
            }
            match name.as_str() {
                "application/vnd.google.protobuf" if fits == [true; 2] => {
                    messages = f64::max(messages, quality)
                }
                "text/plain" => text = f64::max(text, quality),
                _ => {}
            }
        }
        if messages > 0.0 && messages >= text { AnswerForm::Protobuf } else { AnswerForm::Text }
    }
}

/// Maximum number of media ranges to parse in an `Accept` field.
const MOST_RANGES: usize = 32;

/// A parsed scrape request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsRequest {
    /// The requested scopes, as a sum of masks. `None` for all.
    scopes: Option<u8>,
    /// The metrics in `metrics=`, and whether each is included. The last mention of a metric wins.
    named: Vec<(Box<str>, bool)>,
    /// Whether any metric is included by name. All metrics not listed are then excluded.
    only_named: bool,
    /// `no-maint`: omit servers in maintenance.
    pub no_maintenance: bool,
    /// `desc-labels`: write descriptions of sections as labels.
    pub descriptions: bool,
    /// `extra-counters`: include protocol counters.
    pub extra_counters: bool,
    /// `histograms`: include latency histograms. HAProxy lacks them, and they make up most of a scrape.
    pub histograms: bool,
    /// The format of the response.
    pub form: AnswerForm,
}

const EVERY_SCOPE: u8 = (1 << MetricScope::ALL.len()) - 1;

/// Maximum number of names in `metrics=`: more than the number of metrics.
const MOST_NAMES: usize = 1024;

impl MetricsRequest {
    /// Parses a query. `None` for an invalid parameter or unknown scope. Unknown parameters are ignored.
    pub fn parse(query: &[u8]) -> Option<Self> {
        let mut request = Self::default();
        for parameter in query.split(|&byte| byte == b'&').filter(|parameter| !parameter.is_empty()) {
            let mut parts = parameter.split(|&byte| byte == b'=');
            let name = decoded(parts.next()?)?;
            let value = match parts.next() {
                Some(value) => Some(decoded(value)?),
                None => None,
            };
            if parts.next().is_some() {
                return None;
            }
            request.take(&name, value.as_deref())?;
        }
        Some(request)
    }

    /// Sets the response format from the `Accept` field. Without `histograms`, the format is always text.
    #[must_use]
    pub fn accepting(mut self, accept: &[u8]) -> Self {
        self.form = if self.histograms { AnswerForm::preferred(accept) } else { AnswerForm::Text };
        self
    }

    fn take(&mut self, name: &str, value: Option<&str>) -> Option<()> {
        match name {
            "scope" => {
                let so_far = self.scopes.unwrap_or(0);
                self.scopes = Some(match value? {
                    "" => 0,
                    "*" => EVERY_SCOPE,
                    word => so_far | MetricScope::ALL.into_iter().find(|scope| scope.word() == word)?.mask(),
                });
            }
            "metrics" => {
                for metric in value?.split(',').filter(|metric| !metric.is_empty()) {
                    self.name(metric)?;
                }
            }
            "no-maint" => self.no_maintenance = true,
            "desc-labels" => self.descriptions = true,
            "extra-counters" => self.extra_counters = true,
            "histograms" => self.histograms = true,
            _ => {}
        }
        Some(())
    }

    fn name(&mut self, metric: &str) -> Option<()> {
        let (metric, wanted) = match metric.strip_prefix('-') {
            Some(metric) => (metric, false),
            None => (metric, true),
        };
        self.only_named |= wanted;
        self.named.push((metric.into(), wanted));
        (self.named.len() <= MOST_NAMES).then_some(())
    }

    /// Whether the request includes this scope.
    pub fn wants_scope(&self, scope: MetricScope) -> bool {
        self.scopes.unwrap_or(EVERY_SCOPE) & scope.mask() != 0
    }

    /// Whether the request includes this metric, by its complete name.
    pub fn wants_metric(&self, name: &str) -> bool {
        let named = self.named.iter().rev().find(|named| *named.0 == *name);
        named.map_or(!self.only_named, |named| named.1)
    }
}

fn decoded(text: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    percent::decode(text, true, &mut out).then_some(())?;
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(query: &str) -> Option<Vec<&'static str>> {
        let request = MetricsRequest::parse(query.as_bytes())?;
        Some(
            MetricScope::ALL
                .into_iter()
                .filter(|scope| request.wants_scope(*scope))
                .map(MetricScope::word)
                .collect(),
        )
    }

    #[test]
    fn scope_parameters_accumulate_and_an_empty_scope_resets_them() {
        let all: Vec<_> = MetricScope::ALL.into_iter().map(MetricScope::word).collect();
        assert_eq!(scopes(""), Some(all.clone()));
        assert_eq!(scopes("scope=*"), Some(all.clone()));
        assert_eq!(scopes("scope=server"), Some(vec!["server"]));
        assert_eq!(scopes("scope=%73erver&scope=global"), Some(vec!["global", "server"]));
        assert_eq!(scopes("scope=*&scope=server"), Some(all.clone()));
        assert_eq!(scopes("scope=*&scope="), Some(vec![]));
        assert_eq!(scopes("scope=server&scope=&scope=resolver"), Some(vec!["resolver"]));
        assert_eq!(scopes("&&x=y&z&"), Some(all));
    }

    #[test]
    fn protobuf_requires_a_preferring_accept_header_and_histograms() {
        let form = |query: &str, accept: &str| {
            MetricsRequest::parse(query.as_bytes()).unwrap().accepting(accept.as_bytes()).form
        };
        let messages =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let prometheus = format!(
            "{messages},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        );
        assert_eq!(form("histograms", &prometheus), AnswerForm::Protobuf);
        assert_eq!(form("histograms", &format!("text/plain;q=0.5, {messages};q=0.6")), AnswerForm::Protobuf);
        assert_eq!(form("", &prometheus), AnswerForm::Text);
        for accept in [
            "",
            "*/*",
            "text/plain",
            "application/vnd.google.protobuf",
            &messages.replace("delimited", "text"),
            "\u{e9}",
        ] {
            assert_eq!(form("histograms", accept), AnswerForm::Text, "{accept}");
        }
        for quality in ["0", "0.4", "x"] {
            assert_eq!(
                form("histograms", &format!("{messages};q={quality},text/plain;q=0.5")),
                AnswerForm::Text
            );
        }
    }

    #[test]
    fn rejects_invalid_metrics_queries() {
        for query in
            ["scope", "scope=SERVER", "scope=sticktables", "metrics", "a=b=c", "x=%zz", "%z", "x=%ff"]
        {
            assert_eq!(MetricsRequest::parse(query.as_bytes()), None, "{query}");
        }
        let many = |count| format!("metrics={}", "a,".repeat(count));
        assert!(MetricsRequest::parse(many(MOST_NAMES).as_bytes()).is_some());
        assert!(MetricsRequest::parse(many(MOST_NAMES + 1).as_bytes()).is_none());
    }

    #[test]
    fn the_last_inclusion_or_exclusion_of_a_metric_applies() {
        let wants = |query: &str| {
            let request = MetricsRequest::parse(query.as_bytes()).unwrap();
            ["a", "b", "c"].map(|name| request.wants_metric(name))
        };
        assert_eq!(wants(""), [true, true, true]);
        assert_eq!(wants("metrics=,"), [true, true, true]);
        assert_eq!(wants("metrics=-a"), [false, true, true]);
        assert_eq!(wants("metrics=a,b&metrics=-a"), [false, true, false]);
        assert_eq!(wants("metrics=-a,a"), [true, false, false]);
        assert_eq!(wants("metrics=-a,c"), [false, false, true]);
    }

    #[test]
    fn query_switches_work_with_and_without_a_value() {
        let request = MetricsRequest::parse(b"no-maint&desc-labels=&extra-counters=1&histograms").unwrap();
        assert!(
            request.no_maintenance && request.descriptions && request.extra_counters && request.histograms
        );
    }
}
