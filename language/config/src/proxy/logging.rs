//! Keywords for the logging of a proxy.

use std::sync::Arc;

use weir_expr::{EvaluationPoint, EvaluationPoints, FormatOptions};
use weir_syntax::{Diagnostic, Layout, Word};

use super::keywords::{DEFAULTS_AND_FRONTENDS, EVERYWHERE, keyword};
use super::{LineContext, ProxyReader};
use crate::address::log_address;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Fault, Parsed, Words, fault, none_of, not_yet};
use weir_model::{Facility, LogHeader, LogLine, LogLineKind, LogSampling, LogTarget, Severity};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "log",
        "{ global | <target> [len <length>] [format <format>] [sample <ranges>:<sample_size>] [profile \
         <prof>] <facility> [<level> [<minlevel>]] }",
        "127.0.0.1:514 len 1024 local0 info",
        "where to log",
        EVERYWHERE,
        |context, words| {
            if words.peek_text() == "global" && words.line().len() == words.position() + 1 {
                context.settings().logging.targets.add_global();
                return Ok(());
            }
            let at = Some(context.at.clone());
            let target = LogTarget { at, ..read_log_target_words(words)? };
            let targets = &mut context.settings().logging.targets;
            if targets.len() == MAX_LOG_TARGETS {
                return Err(fault(words.line().span(), format!("log : more than {MAX_LOG_TARGETS} targets")));
            }
            targets.push(target);
            Ok(())
        },
    )
    .default(Described("nothing is logged")),
    keyword(
        "log-tag",
        "<string>",
        "shop",
        "name of the program in log messages",
        EVERYWHERE,
        |context, words| {
            let word = words.expect("'log-tag' expects a tag for use in syslog.")?;
            context.settings().logging.tag = Some(word.text().into());
            words.end("log-tag")
        },
    )
    .default(Described("that of `global`")),
    keyword("log-format", "<fmt>", "%ci", "what to log", DEFAULTS_AND_FRONTENDS, |context, words| {
        let word = format_word(words, "log-format")?;
        let format = context
            .expressions()
            .format_with(word, EvaluationPoints::only(EvaluationPoint::Log), FormatOptions::LOG)
            .map_err(|fault| unparsable(fault, "log-format"))?;
        set_line(
            context,
            word,
            "log-format",
            LogLine::Format { kind: LogLineKind::Custom, format: Arc::new(format) },
        );
        Ok(())
    })
    .default(Described(
        "that of `option httplog` or `option tcplog` where one is written, else one short line",
    )),
    keyword(
        "log-format-sd",
        "<fmt>",
        "[a@1\\ b=%ci]",
        "structured data of RFC 5424 messages",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let word = format_word(words, "log-format-sd")?;
            let format = context
                .expressions()
                .format_with(
                    word,
                    EvaluationPoints::only(EvaluationPoint::Log),
                    FormatOptions { merge_spaces: false, ..FormatOptions::LOG },
                )
                .map_err(|fault| unparsable(fault, "log-format-sd"))?;
            context.settings().logging.structured_data = Some(Arc::new(format));
            Ok(())
        },
    ),
    keyword(
        "error-log-format",
        "<fmt>",
        "%ci",
        "what to log of failed connections",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let word = format_word(words, "error-log-format")?;
            let format = context
                .expressions()
                .format_with(word, EvaluationPoints::only(EvaluationPoint::Log), FormatOptions::LOG)
                .map_err(|fault| unparsable(fault, "error-log-format"))?;
            context.settings().logging.error_line = Some(Arc::new(format));
            Ok(())
        },
    )
    .default(Described("the format of the log of errors that came before a request")),
    keyword(
        "unique-id-format",
        "<fmt>",
        "%{+X}o%ci",
        "how requests are identified",
        EVERYWHERE,
        |context, words| {
            let word = format_word(words, "unique-id-format")?;
            let format = context
                .expressions()
                .format_with(word, UNIQUE_ID_POINTS, UNIQUE_ID_OPTIONS)
                .map_err(|fault| unparsable(fault, "unique-id"))?;
            context.settings().unique_id_format = Some(Arc::new(format));
            Ok(())
        },
    ),
    keyword(
        "unique-id-header",
        "<name>",
        "X-Unique-ID",
        "the header that carries the identifier",
        DEFAULTS_AND_FRONTENDS,
        |context, words| {
            let word = words.expect("unique-id-header expects an argument.")?;
            context.settings().unique_id_header = Some(word.text().into());
            words.end("unique-id-header")
        },
    )
    .default(Described("none: the identifier is not sent to servers")),
];

/// Options for `unique-id-format`, which is evaluated with the request and written into a header.
const UNIQUE_ID_OPTIONS: FormatOptions = FormatOptions { merge_spaces: true, ..FormatOptions::HTTP };
const UNIQUE_ID_POINTS: EvaluationPoints = EvaluationPoints::only(EvaluationPoint::FrontendRequestHeader)
    .or(EvaluationPoints::only(EvaluationPoint::BackendRequestHeader));

/// The limit of log targets in a proxy.
const MAX_LOG_TARGETS: usize = 256;

/// Reads a log target: `<target> [options] <facility> [<level> [<minimum level>]]`, to the end of the line.
///
/// The global section's `log` keyword takes the same arguments.
pub(crate) fn read_log_target_words(words: &mut Words<'_>) -> Parsed<LogTarget> {
    let expects = "log : expects <address> and <facility> or global as arguments";
    let address = words.expect(expects)?;
    let mut target = LogTarget {
        at: None,
        address: log_address(address, "log")?,
        length_max: DEFAULT_LOG_LENGTH,
        header: None,
        sampling: None,
        facility: Facility::from_name("local0").expect("local0 is a facility"),
        level: Severity::Debug,
        minimum_level: Severity::Emergency,
    };
    if words.take_if("len") {
        let word = words.expect("log : missing length after 'len'")?;
        let length = word
            .text()
            .parse::<u32>()
            .ok()
            .filter(|length| (MIN_LOG_LENGTH..=MAX_LOG_LENGTH).contains(length));
        target.length_max = length.ok_or_else(|| {
            let message = format!(
                "log : invalid log length '{word}', must be between {MIN_LOG_LENGTH} and {MAX_LOG_LENGTH}"
            );
            fault(word.span(), message)
        })?;
    }
    if words.take_if("format") {
        let word = words.expect("log : missing format after 'format'")?;
        let header = LogHeader::from_name(word.text());
        let header =
            header.ok_or_else(|| fault(word.span(), format!("log : unknown log format '{word}'")))?;
        target.header = Some(header);
    }
    if words.take_if("sample") {
        let word = words.expect("log : missing sample ranges after 'sample'")?;
        target.sampling = Some(log_sampling(word)?);
    }
    if words.peek_text() == "profile" {
        return Err(not_yet(words.here(), "log profile"));
    }
    let facility = words.expect(expects)?;
    target.facility = Facility::from_name(facility.text()).ok_or_else(|| {
        none_of(facility, format!("log : unknown log facility '{facility}'"), Facility::NAMES)
    })?;
    if let Some(word) = words.take() {
        target.level = Severity::from_name(word.text()).ok_or_else(|| {
            none_of(word, format!("log : unknown optional log level '{word}'"), Severity::NAMES)
        })?;
    }
    if let Some(word) = words.take() {
        target.minimum_level = Severity::from_name(word.text()).ok_or_else(|| {
            none_of(word, format!("log : unknown optional minimum log level '{word}'"), Severity::NAMES)
        })?;
    }
    words.end("log")?;
    Ok(target)
}

/// Reads the arguments of a `log` line of the global section: the words of `line` from `index` on.
pub fn read_log_target(line: &weir_syntax::Line, index: usize) -> Result<LogTarget, Box<Diagnostic>> {
    read_log_target_words(&mut Words::new(line, index))
}

const DEFAULT_LOG_LENGTH: u32 = 1024;
const MIN_LOG_LENGTH: u32 = 80;
const MAX_LOG_LENGTH: u32 = 65_535;

fn log_sampling(word: &Word) -> Parsed<LogSampling> {
    let complain = |message: String| fault(word.span(), format!("log : {message}"));
    let Some((list, size)) = word.text().rsplit_once(':') else {
        return Err(complain("sample size missing: expects <ranges>:<size>".to_owned()));
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in list.split(',') {
        let parsed = match part.split_once('-') {
            // A range of one position must be a single number.
            Some((first, last)) => {
                first.parse().ok().zip(last.parse().ok()).filter(|(first, last)| first < last)
            }
            None => part.parse().ok().map(|number: u32| (number, number)),
        };
        let range = parsed.filter(|(first, _)| *first > 0);
        let (first, last) = range.ok_or_else(|| complain(format!("wrong sample range '{part}'")))?;
        if ranges.len() == MAX_SAMPLE_RANGES {
            return Err(complain(format!("more than {MAX_SAMPLE_RANGES} sample ranges")));
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
        return Err(complain("sample ranges are overlapping".to_owned()));
    }
    let highest = ranges.last().map_or(0, |range| range.1);
    let size = size.parse::<u32>().map_err(|_| complain(format!("wrong sample size '{size}'")))?;
    if size < highest {
        return Err(complain(format!(
            "sample size {size} should be greater or equal to {highest} the maximum of the high ranges limits"
        )));
    }
    Ok(LogSampling { ranges, size })
}

const MAX_SAMPLE_RANGES: usize = 64;

/// `no log`.
pub(super) fn read_no_log(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    if !words.at_end() {
        return Err(words.fault("log : 'no log' does not expect arguments"));
    }
    let logging = &mut context.settings().logging;
    logging.targets.clear();
    Ok(())
}

fn format_word<'l>(words: &mut Words<'l>, keyword: &str) -> Parsed<&'l Word> {
    let word = words.expect(&format!("{keyword} expects an argument."))?;
    if !words.at_end() {
        let message = format!("{keyword} expects only one argument, don't forget to escape spaces!");
        return Err(words.fault(message));
    }
    Ok(word)
}

fn unparsable(mut fault: Fault, keyword: &str) -> Fault {
    fault.message = format!("failed to parse {keyword} : {}", fault.message);
    fault.layout = Layout::ParsingTight;
    fault
}

/// `option httplog [clf]`.
pub(super) fn read_httplog(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let clf = words.take_if("clf");
    words.end("option httplog")?;
    let kind = if clf { LogLineKind::HttpClf } else { LogLineKind::Http };
    builtin(context, words, kind, "option httplog")
}

/// `option httpslog`.
pub(super) fn read_httpslog(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    words.end("option httpslog")?;
    builtin(context, words, LogLineKind::Https, "option httpslog")
}

/// `option tcplog [clf]`.
pub(super) fn read_tcplog(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let clf = words.take_if("clf");
    words.end("option tcplog")?;
    let kind = if clf { LogLineKind::TcpClf } else { LogLineKind::Tcp };
    builtin(context, words, kind, "option tcplog")
}

fn builtin(
    context: &mut LineContext<'_>,
    words: &Words<'_>,
    kind: LogLineKind,
    keyword: &'static str,
) -> Parsed {
    let line = context.expressions().builtin_line(words.line().keyword(), kind)?;
    let word = words.line().keyword();
    set_line(context, word, keyword, line);
    Ok(())
}

/// Sets the log line. Warns if a `defaults` section sets it twice, as HAProxy does.
fn set_line(context: &mut LineContext<'_>, word: &Word, keyword: &'static str, line: LogLine) {
    let previous = context.draft.extras.log_line_word.replace((keyword, word.span()));
    let in_defaults = context.draft.section.is_defaults();
    if let Some((previous, _)) = previous.filter(|(previous, _)| *previous != keyword && in_defaults) {
        let message = format!("'{keyword}' overrides previous '{previous}' in 'defaults' section.");
        context.warn_tight(word.span(), message);
    }
    context.settings().logging.line = line;
}
