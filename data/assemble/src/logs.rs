//! Log targets. Each is opened once and shared by proxies.

use std::sync::Arc;

use weir_events::{Facility, Level, LogSink, LogTarget, SampleRanges, SyslogFormat};
use weir_model::{LogAddress, LogHeader};
use weir_sys::Address;

use super::names;
use super::{BuildError, DEFAULT_TAG, ProcessValues};

/// The open log targets.
#[derive(Debug, Default)]
pub struct LogSinks(Vec<(Arc<weir_model::LogTarget>, Arc<LogSink>)>);

impl LogSinks {
    fn open(
        &mut self,
        target: &Arc<weir_model::LogTarget>,
        global: &weir_model::Global,
        options: &ProcessValues<'_>,
    ) -> Result<Arc<LogSink>, String> {
        // A sampled target is not shared, because each line has its own sampling counter.
        let same = |known: &Arc<weir_model::LogTarget>| {
            Arc::ptr_eq(known, target) || (known == target && target.sampling.is_none())
        };
        if let Some((_, sink)) = self.0.iter().find(|(known, _)| same(known)) {
            return Ok(Arc::clone(sink));
        }
        let settings = settings(target, global, options)?;
        let sink = LogSink::open(settings, &options.events.sinks)
            .map_err(|error| format!("cannot open the log target: {error}"))?;
        let sink = Arc::new(sink);
        self.0.push((Arc::clone(target), Arc::clone(&sink)));
        Ok(sink)
    }
}

/// The log targets of a proxy.
pub(super) fn of_proxy(
    config: &weir_model::Proxy,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    sinks: &mut LogSinks,
    errors: &mut Vec<BuildError>,
) -> Vec<Arc<LogSink>> {
    open_all(config.settings.logging.targets.iter(), &config.at, global, options, sinks, errors)
}

/// The tag of a proxy's log lines (`log-tag`).
pub(super) fn tag(config: &weir_model::Proxy, global: &weir_model::Global) -> Box<[u8]> {
    let tag = config.settings.logging.tag.as_deref().or(global.log_tag.as_deref());
    tag.unwrap_or(DEFAULT_TAG).as_bytes().into()
}

/// Opens the log targets of the section at this location.
pub(super) fn open_all<'t>(
    targets: impl Iterator<Item = &'t Arc<weir_model::LogTarget>>,
    at: &weir_model::Location,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    sinks: &mut LogSinks,
    errors: &mut Vec<BuildError>,
) -> Vec<Arc<LogSink>> {
    let mut opened = Vec::new();
    for target in targets {
        match sinks.open(target, global, options) {
            Ok(sink) => opened.push(sink),
            Err(message) => {
                errors.push(BuildError { at: target.at.as_ref().unwrap_or(at).clone(), message });
            }
        }
    }
    opened
}

fn settings(
    target: &weir_model::LogTarget,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
) -> Result<LogTarget, String> {
    let address = match &target.address {
        LogAddress::Udp { host, port } => {
            let address = names::socket_address(host, *port, options.resolver)
                .map_err(|error| format!("could not resolve the address '{}' of the log target", error.0))?;
            weir_events::LogAddress::Socket(Address::Inet(address))
        }
        LogAddress::Unix(path) => weir_events::LogAddress::Socket(Address::Unix(path.clone())),
        LogAddress::Abstract(name) => weir_events::LogAddress::Socket(Address::Abstract(name.clone())),
        LogAddress::Descriptor(number) => weir_events::LogAddress::Descriptor(*number),
        LogAddress::Ring(name) => weir_events::LogAddress::Ring(name.to_string()),
        LogAddress::Backend(name) => weir_events::LogAddress::Servers(name.to_string()),
        LogAddress::Stream { .. } => {
            let ring = options.events.ring_to(&target.address).ok_or("the log target has no ring")?;
            weir_events::LogAddress::Ring(ring.clone()?)
        }
    };
    let facility = Facility::from_name(target.facility.name())
        .ok_or_else(|| format!("unknown log facility '{}'", target.facility.name()))?;
    Ok(LogTarget {
        address,
        format: match (target.header, &target.address) {
            // The line's format, or else the ring's.
            (None, LogAddress::Ring(name)) => {
                options.events.sinks.find(name).map_or(SyslogFormat::Local, |sink| sink.format)
            }
            (header, _) => format(header.unwrap_or_default(), global),
        },
        keeps_format: match (target.header, &target.address) {
            (None, LogAddress::Ring(name)) => !options.events.says_format(name),
            (header, _) => header.is_none(),
        },
        facility,
        max_level: level(target.level),
        min_level: level(target.minimum_level),
        max_length: target.length_max as usize,
        sample: target.sampling.as_ref().and_then(sampling),
    })
}

pub(super) fn format(header: LogHeader, global: &weir_model::Global) -> SyslogFormat {
    match header {
        // A configured host name selects the format that contains it (manual, "log-send-hostname").
        LogHeader::Local if global.log_host_name.is_some() => SyslogFormat::Rfc3164,
        LogHeader::Local => SyslogFormat::Local,
        LogHeader::Rfc3164 => SyslogFormat::Rfc3164,
        LogHeader::Rfc5424 => SyslogFormat::Rfc5424,
        LogHeader::Priority => SyslogFormat::Priority,
        LogHeader::Short => SyslogFormat::Short,
        LogHeader::Timed => SyslogFormat::Timed,
        LogHeader::Iso => SyslogFormat::Iso,
        LogHeader::Raw => SyslogFormat::Raw,
    }
}

fn level(severity: weir_model::Severity) -> Level {
    weir_stream::log::level(severity)
}

fn sampling(sampling: &weir_model::LogSampling) -> Option<SampleRanges> {
    let ranges: Vec<String> = sampling.ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    SampleRanges::parse(&format!("{}:{}", ranges.join(","), sampling.size)).ok()
}
