//! Implements the runtime API's process-wide operations.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_cli::target::{CliSocket, Limit, NameServerView, ProcessTarget, VariableSource};
use weir_events::trace::commands::Traces;
use weir_events::{Sinks, WallTime};
use weir_expr::context::DetachedContext;
use weir_expr::{
    EvaluationPoint, EvaluationPoints, Expr, ExpressionScope, FormatOptions, Location, LogFormat, SampleType,
    SetCondition, Value, VariableScope, Warnings,
};
use weir_formats::CivilTime;
use weir_resolvers::{NameServer, QueryCounter, ResolversSection};
use weir_stats::StatsSource;
use weir_sync::Ring;
use weir_sync::ring::WakeReader;
use weir_syntax::NoFiles;

use super::script_commands::process_facts;
use super::{LiveTarget, now_ms};
use crate::messages::Messages;

impl ProcessTarget for LiveTarget {
    fn stats(&self) -> &dyn StatsSource {
        &self.live
    }

    fn version(&self) -> String {
        self.live.record.version.clone()
    }

    fn uptime_s(&self) -> u64 {
        now_ms().saturating_sub(self.live.record.started_ms) / 1000
    }

    fn wall_time(&self) -> WallTime {
        weir_sched::wall_time()
    }

    fn local_date(&self, time: WallTime) -> CivilTime {
        let zone = &self.live.instance.identity.time_zone;
        CivilTime::at(time.seconds, zone.at(time.seconds).offset)
    }

    fn cli_sockets(&self) -> Vec<CliSocket> {
        let settings = self.live.record.cli_sockets.iter().map(|socket| &socket.settings);
        settings.map(|known| CliSocket { address: known.address.clone(), level: known.level }).collect()
    }

    fn environment(&self) -> Vec<String> {
        let mut all = self.live.record.environment.clone();
        // The configuration may have changed this variable.
        all.retain(|pair| !pair.starts_with("HAPROXY_CLI="));
        let sockets = &self.live.record.cli_sockets;
        if !sockets.is_empty() {
            let reached: Vec<_> = sockets.iter().map(|socket| socket.settings.address.as_str()).collect();
            all.push(format!("HAPROXY_CLI={}", reached.join(";")));
        }
        all
    }

    fn startup_logs(&self) -> String {
        self.live.record.messages.map(Messages::startup_logs).unwrap_or_default()
    }

    fn sinks(&self) -> &Sinks {
        &self.live.record.events.sinks
    }

    fn traces(&self) -> Traces<'_> {
        weir_assemble::traces::all(&self.live.record.events.sinks)
    }

    fn timelines(&self) -> &[Arc<Ring>] {
        &self.live.record.timelines
    }

    fn waker(&self) -> WakeReader {
        let task = self.task;
        Box::new(move || weir_sched::wake(task))
    }

    fn resolvers(&self) -> Vec<(String, Vec<NameServerView>)> {
        let sections = self.live.record.resolvers.as_ref().map(|resolvers| resolvers.sections());
        let view = |server: &NameServer| NameServerView {
            name: server.name.to_string(),
            counters: QueryCounter::ALL.map(|counter| server.counters.value(counter)),
        };
        let of = |section: &Arc<ResolversSection>| {
            (section.settings.name.to_string(), section.name_servers.iter().map(view).collect())
        };
        sections.unwrap_or_default().iter().map(of).collect()
    }

    fn set_limit(&mut self, limit: Limit, value: u32) -> bool {
        let limits = &self.live.instance.limits;
        match limit {
            Limit::Maxconn => {
                let most = self.live.record.limits.connections;
                if value > most {
                    return false;
                }
                limits.connections.store(if value == 0 { most } else { value }, Relaxed);
                self.live.instance.connections.offer_all();
            }
            // While a rate limit is reached, accept tasks read these values every few milliseconds.
            Limit::ConnectionRate => limits.connection_rate.store(value, Relaxed),
            Limit::SessionRate => limits.session_rate.store(value, Relaxed),
            Limit::TlsRate => limits.tls_rate.store(value, Relaxed),
            Limit::CompressionRate => self.live.instance.compression.rate_limit.store(value, Relaxed),
        }
        true
    }

    fn clear_counters(&mut self, all: bool) {
        for proxy in &self.live.instance.proxies {
            proxy.connections.clear_maximum();
            let servers = proxy.backend.as_ref().map(|backend| backend.servers()).unwrap_or_default();
            if let Some(backend) = &proxy.backend {
                backend.clear_maxima();
            }
            proxy.listeners.iter().for_each(|listener| listener.connections.clear_maximum());
            if all {
                proxy.frontend_counters.clear();
                proxy.backend_counters.clear();
                servers.iter().for_each(|server| server.counters().clear());
                proxy.listeners.iter().for_each(|listener| listener.counters.clear());
            } else {
                proxy.frontend_counters.clear_maxima();
                proxy.backend_counters.clear_maxima();
                servers.iter().for_each(|server| server.counters().clear_maxima());
                proxy.listeners.iter().for_each(|listener| listener.counters.clear_maxima());
            }
        }
        self.live.instance.connections.clear_maximum();
        self.live.instance.rates.clear_maxima();
    }

    fn variable(&self, name: &str) -> Option<(String, String)> {
        let variable = self.live.record.variable_names.find(name)?;
        if variable.scope != VariableScope::Process {
            return None;
        }
        let variables = self.live.instance.variables();
        let value = variables.get(variable)?;
        let type_ = value.kind().name().to_owned();
        Some((type_, shown(value)))
    }

    fn set_variable(&mut self, name: &str, source: VariableSource<'_>) -> Result<(), String> {
        let record = &self.live.record;
        let variable = record.variable_names.intern(name)?;
        if variable.scope != VariableScope::Process {
            return Err(format!(
                "'set var': cannot set variable '{name}', only scope 'proc' is permitted here."
            ));
        }
        let warnings = Warnings::new();
        let at = Location::new("CLI".into(), 0);
        let scope = ExpressionScope {
            registry: &record.registry,
            patterns: &record.patterns,
            token_keys: &record.token_keys,
            variables: &record.variable_names,
            acls: None,
            // An expression can refer only to sets that are already loaded.
            loader: &NoFiles,
            points: EvaluationPoints::only(EvaluationPoint::CliParser),
            warnings: &warnings,
            at: &at,
        };
        let value = self.evaluate(source, &scope)?;
        if self.live.instance.variables_mut().set(variable, value, SetCondition::ALWAYS) {
            Ok(())
        } else {
            Err("There is no room for the variable.".to_owned())
        }
    }
}

impl LiveTarget {
    fn evaluate(
        &self,
        source: VariableSource<'_>,
        scope: &ExpressionScope<'_>,
    ) -> Result<Value<'static>, String> {
        let instance = &self.live.instance;
        let now = self.wall_time();
        let mut context = DetachedContext {
            process: process_facts(&self.live),
            now,
            seed: weir_sched::random(),
            variables: instance.variables().clone(),
        };
        match source {
            VariableSource::Expression(text) => {
                let expression =
                    Expr::parse_text(text.as_bytes(), scope).map_err(|error| error.message.to_string())?;
                let sample = expression.evaluate(&mut context).into_owned().sample();
                Ok(sample.ok_or("The expression has no value.")?.value)
            }
            VariableSource::Format(text) => {
                let format = LogFormat::parse(text.as_bytes(), FormatOptions::PLAIN, scope)
                    .map_err(|error| error.message.to_string())?;
                let mut rendered = Vec::new();
                format.render(&mut context, &mut rendered);
                Ok(Value::Str(rendered.into()))
            }
        }
    }
}

/// A value as text. Binary values are in hexadecimal, as in a cast to a string.
fn shown(value: Value<'_>) -> String {
    let text = value.cast(SampleType::Str);
    text.and_then(|text| text.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{run_command, with_live};
    use crate::LiveProcess;

    #[track_caller]
    fn check(live: &LiveProcess, command: &str, expected: &str) {
        assert_eq!(run_command(live, command), format!("{expected}\n"), "{command}");
    }

    #[test]
    fn show_info_describes_the_process() {
        with_live(|live| {
            let info = run_command(&live, "show info");
            for line in
                ["Name: HAProxy", "Nbthread: 1", "Pid: 7", "node: vm", "description: a box", "Maxconn: 1000"]
            {
                assert!(info.lines().any(|known| known == line), "{line} in {info}");
            }
            check(&live, "show env HOME", "HOME=/root\n");
            assert!(run_command(&live, "show activity").starts_with("thread_id: 1 (1..1)\n"));
            assert!(run_command(&live, "show errors").ends_with("] : 0\n\n"));
        });
    }

    #[test]
    fn set_maxconn_cannot_exceed_the_limit_of_the_start() {
        with_live(|live| {
            check(&live, "set maxconn global 100", "");
            assert!(run_command(&live, "show info").contains("\nMaxconn: 100\n"));
            check(&live, "set maxconn global 1001", "Value out of range.\n");
            check(&live, "set maxconn global 0", "");
            assert!(run_command(&live, "show info").contains("\nMaxconn: 1000\n"));
            check(&live, "set rate-limit connections global 50", "");
            assert!(run_command(&live, "show info").contains("\nConnRateLimit: 50\n"));
        });
    }

    #[test]
    fn process_wide_variables_are_read_and_set_by_commands() {
        with_live(|live| {
            check(&live, "get var proc.foo", "proc.foo: type=str value=<bar>\n");
            check(&live, "get var proc.five", "proc.five: type=sint value=<5>\n");
            check(&live, "get var proc.none", "Variable not found.\n");
            check(&live, "get var txn.x", "Variable not found.\n");
            let set = "experimental-mode on; set var proc.five int(3),mul(4); get var proc.five";
            check(&live, set, "\n\nproc.five: type=sint value=<12>\n");
            let set = "experimental-mode on; set var proc.foo fmt a%[var(proc.five)]; get var proc.foo";
            check(&live, set, "\n\nproc.foo: type=str value=<a12>\n");
            let wrong = run_command(&live, "experimental-mode on; set var txn.x int(3)");
            let text = "'set var': cannot set variable 'txn.x', only scope 'proc' is permitted here.";
            assert_eq!(wrong, format!("\n{text}\n\n"));
        });
    }
}
