//! Words about logs: targets of `log global`, and settings of all messages.

use std::sync::Arc;

use super::context::GlobalReader;
use crate::proxy::read_log_target;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::fault;
use weir_model::{LogTarget, SentHostName};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready(
        "log",
        "<target> [len <length>] [format <format>] [sample <ranges>:<size>] <facility> [<level> \
         [<minlevel>]]",
        "127.0.0.1:514 local0",
        "target for the proxies that say 'log global'",
        |line, words| {
            if line.negated {
                if let Some(word) = words.peek() {
                    return Err(fault(word.span(), "log : 'no log' does not expect arguments"));
                }
                line.global.logs.clear();
                return Ok(());
            }
            if words.peek_text() == "global" {
                return Err(words.fault("log : 'global' is not supported for a global syslog server"));
            }
            let at = Some(line.at.clone());
            let target = LogTarget { at, ..read_log_target(words.line(), words.position())? };
            line.global.logs.push(Arc::new(target));
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "log-tag",
        "<string>",
        "weir",
        "name of the program in log messages",
        |line, words| {
            let tag = line.word(words, "a tag for use in syslog")?;
            line.global.log_tag = Some(tag.text().into());
            Ok(())
        },
    )
    .default(Described("`haproxy`")),
    Row::ready("log-send-hostname", "[<string>]", "lb1", "host name in log messages", |line, words| {
        let name = match words.take() {
            Some(name) if !name.text().is_empty() => SentHostName::Named(name.text().into()),
            _ => SentHostName::Own,
        };
        words.end("log-send-hostname")?;
        if line.first_time(words, line.global.log_host_name.is_some()) {
            line.global.log_host_name = Some(name);
        }
        Ok(())
    }),
];
