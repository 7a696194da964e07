//! The workers' settings, from the global section: scheduling, memory, accepting.

use weir_model::{Global, ListenerQueues, Profiling, TaskProfiling, Tuning as Configured};
use weir_net::shortage::BufferLimits;
use weir_sched::{ProfileMode, ProfileSettings, RuntimeSettings, SchedulerTuning};
use weir_stream::listener_handler::Spread;

use crate::limits;

pub(crate) fn scheduler(global: &Global, workers: usize) -> RuntimeSettings {
    RuntimeSettings {
        threads: workers,
        processors: (1..=workers)
            .map(|thread| {
                let cpus = u16::try_from(thread).ok().and_then(|thread| global.cpu_map.cpus(thread));
                cpus.unwrap_or_default().iter().map(|cpu| usize::from(*cpu)).collect()
            })
            .collect(),
        most_poll_events: global.tuning.poll_events_max.map_or(200, |most| most as usize),
        tuning: SchedulerTuning {
            runqueue_depth: global
                .tuning
                .run_queue_depth
                .unwrap_or(SchedulerTuning::default().runqueue_depth),
            low_latency: global.tuning.low_latency,
            ..SchedulerTuning::default()
        },
        profiling: profiling(&global.profiling),
    }
}

/// The profiling settings at start.
fn profiling(configured: &Profiling) -> ProfileSettings {
    let mode = match configured.tasks {
        TaskProfiling::Off => ProfileMode::Off,
        TaskProfiling::Auto => ProfileMode::Auto,
        TaskProfiling::On => ProfileMode::On,
    };
    ProfileSettings { mode, locks: configured.locks, memory: configured.memory_time }
}

/// The settings of each worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerTuning {
    pub buffers: BufferLimits,
    /// Maximum free memory cached by each worker, in bytes.
    pub hot_bytes: usize,
    /// Maximum number of connections accepted per round.
    pub accept_batch: u32,
    /// How connections are distributed over the workers.
    pub spread: Spread,
    /// Streams that take at least this time are on the timeline even if they succeed, in milliseconds.
    pub timeline_slow_ms: u32,
}

impl WorkerTuning {
    /// The settings for each of `workers`.
    pub(crate) fn new(tuning: &Configured, workers: usize) -> Self {
        let (size, hot_bytes) = (tuning.buffer_size as usize, tuning.hot_bytes as usize);
        WorkerTuning {
            buffers: BufferLimits {
                size,
                most: limits::buffers_of_all(tuning.buffers_max, tuning.buffers_reserve, workers),
                kept: (hot_bytes / size.max(1)).max(limits::LEAST_BUFFERS),
                reserve: tuning.buffers_reserve as usize,
            },
            hot_bytes,
            timeline_slow_ms: tuning
                .timeline_slow
                .map_or(u32::MAX, |slow| u32::try_from(slow.as_millis()).unwrap_or(u32::MAX)),
            accept_batch: tuning.accept_max.unwrap_or(ACCEPT_BATCH),
            spread: match tuning.listener_queues {
                ListenerQueues::Off => Spread::Keep,
                ListenerQueues::On => Spread::LessLoaded,
                ListenerQueues::Fair => Spread::InTurn,
            },
        }
    }
}

/// The default of `tune.maxaccept` (manual). Further connections wait for the next round.
const ACCEPT_BATCH: u32 = 4;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use weir_config::vocabulary::{ConfigWord, DefaultValue, WordPlace, WordState, words};
    use weir_model::TlsVerify;
    use weir_stream::KEYWORDS;

    use super::*;
    use crate::fixture::live_with_global;
    use crate::listening::plan;
    use weir_assemble::CheckMeans;
    use weir_observe::CheckedProcess;

    const WORKERS: usize = 2;

    /// Whether a word is accepted without effect. The configuration warns of each such word.
    fn is_idle(word: &ConfigWord) -> bool {
        word.help.contains("no effect")
    }

    /// All settings derived from a global section with this line, as text.
    fn made_of(line: &str) -> String {
        let text = format!(
            "global\n expose-experimental-directives\n {line}\ndefaults\n timeout connect 1s\n timeout client 1s\n \
             timeout server 1s\nlisten l\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n"
        );
        let made = weir_sched::run(async move {
            let (live, global) = live_with_global(&text);
            let mut out = String::new();
            let mut note = |what: &dyn std::fmt::Debug| writeln!(out, "{what:?}").expect("memory takes it");
            note(&live.instance.limits);
            note(&live.instance.compression);
            note(&live.instance.pipes);
            note(&live.instance.proxies[0].servers().servers()[0].settings());
            note(&live.instance.variables().limit());
            note(&scheduler(&global, WORKERS));
            note(&WorkerTuning::new(&global.tuning, WORKERS));
            note(&weir_assemble::updates_at_once(&global.tuning));
            // Scripts take their settings while the configuration is read.
            note(&global.scripts);
            let means = CheckMeans { tuning: global.tuning.checks, ..CheckMeans::default() };
            let view = CheckedProcess::new(&live.instance, live.downgrade());
            note(&weir_assemble::checks(&live.instance, &means, Box::new(view)).load);
            note(&plan::described(&live.instance, &global, WORKERS));
            let rings = live.record.events.sinks.all().iter().filter_map(|sink| sink.as_ring());
            note(&rings.map(|ring| ring.queues()).collect::<Vec<_>>());
            let mut tls = global.tls.clone();
            let defaults = tls.line_defaults.pop().map(|(_, defaults)| defaults).unwrap_or_default();
            note(&(defaults.extra_files, defaults.replaces_extension));
            tls.server_verify.get_or_insert(TlsVerify::Required);
            note(&tls);
            out
        });
        made.expect("a worker").expect("it ends")
    }

    /// Every `tune.*` keyword is either implemented or an error. None is accepted and ignored.
    #[test]
    fn every_implemented_tune_keyword_changes_a_setting() {
        let plain = made_of("");
        let mut looked_at = 0;
        for word in words(&KEYWORDS) {
            let concerns = word.place == WordPlace::Global && word.state == WordState::Ready;
            let left_out =
                [&SAY_WHAT_IS_SO[..], &FORMER_NAMES, &SEEN_FROM_OUTSIDE, &ABOUT_NOTHING, &BOUND_BY_OTHERS]
                    .iter()
                    .any(|names| names.contains(&word.name));
            if !concerns || !word.name.starts_with("tune.") || left_out || is_idle(&word) {
                continue;
            }
            let made = made_of(&format!("{} {}", word.name, word.example));
            assert_ne!(made, plain, "'{} {}' changes nothing", word.name, word.example);
            looked_at += 1;
        }
        assert!(looked_at > 20, "{looked_at}");
    }

    /// For manual defaults that begin with a value: writing that value does not change the settings.
    #[test]
    fn tune_keyword_defaults_equal_the_manuals() {
        let plain = made_of("");
        let (mut looked_at, mut wrong) = (0, Vec::new());
        for word in words(&KEYWORDS).iter().filter(|word| word.place == WordPlace::Global && !is_idle(word)) {
            let Some(DefaultValue::Described(text)) = word.default else { continue };
            let Some(documented) = text.strip_prefix('`').and_then(|rest| rest.split('`').next()) else {
                continue;
            };
            looked_at += 1;
            if made_of(&format!("{} {documented}", word.name)) != plain {
                wrong.push(format!("{} {documented}", word.name));
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(looked_at > 5, "{looked_at}");
    }

    /// R1, R39, R40: the three scheduler keywords take effect, and low latency is off by default.
    #[test]
    fn scheduler_keywords_set_queue_depth_latency_mode_and_workers() {
        let made = |lines: &str| {
            let text = format!(
                "global\n{lines}\ndefaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\nlisten l\n bind 127.0.0.1:1\n server s 127.0.0.1:2\n"
            );
            let settings = weir_sched::run(async move { scheduler(&live_with_global(&text).1, WORKERS) });
            let RuntimeSettings { tuning, most_poll_events, threads, .. } =
                settings.expect("a worker").expect("it ends");
            (tuning.runqueue_depth, tuning.low_latency, most_poll_events, threads)
        };
        assert_eq!(made(""), (200, false, 200, WORKERS));
        let lines = " tune.runqueue-depth 77\n tune.sched.low-latency on\n tune.maxpollevents 33";
        assert_eq!(made(lines), (77, true, 33, WORKERS));
        assert_eq!(made(" tune.sched.low-latency off"), (200, false, 200, WORKERS));
    }

    /// These words accept only weir's fixed behaviour: certificates are never compressed, and `auto` leaves that to the library.
    const SAY_WHAT_IS_SO: [&str; 2] = ["tune.fd.edge-triggered", "tune.ssl.certificate-compression"];
    /// The former name of a word with its own test (language/config/src/global/tests.rs). It causes a warning.
    const FORMER_NAMES: [&str; 1] = ["tune.ssl.capture-cipherlist-size"];
    /// Words without effect: DHE is never negotiated, and all workers share one session cache.
    const ABOUT_NOTHING: [&str; 2] = ["tune.ssl.default-dh-param", "tune.ssl.force-private-cache"];
    /// `tune.bufsize` is its upper bound and default. A test of `data/assemble` (`http2.rs`) sets both.
    const BOUND_BY_OTHERS: [&str; 1] = ["tune.h2.max-frame-size"];
    /// Words that affect the whole process. Tested in tests/master/test_starting.py, tests/rules, tests/process/test_socket_sizes.py and
    /// tests/tls/test_ocsp_updates.py. The number of counters limits the names that rules may use
    /// (language/config/src/proxy/tables.rs).
    const SEEN_FROM_OUTSIDE: [&str; 10] = [
        "tune.pattern.cache-size",
        "tune.rcvbuf.frontend",
        "tune.regex.on-limit",
        "tune.regex.request-time",
        "tune.renice.runtime",
        "tune.renice.startup",
        "tune.sndbuf.backend",
        "tune.ssl.ocsp-update.maxdelay",
        "tune.ssl.ocsp-update.mindelay",
        "tune.stick-counters",
    ];
}
