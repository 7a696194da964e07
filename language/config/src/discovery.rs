//! Discovery: reads only the settings that a master needs before it starts its worker (R148 to R155).
//!
//! Discovery reads only `global` sections, and only words with rows marked for it. The worker parses everything again from the same
//! bytes, and reports all errors, including those in the marked words. Discovery reports nothing, so every error is reported once.

use crate::scripts::NoScripts;
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_syntax::{ConditionContext, Diagnostics, Environment, LineReader, NoFiles, SourceMap};

use crate::global::{self, GlobalContext};
use crate::resources::Resources;
use crate::sections::SECTIONS;
use crate::world::ConfigLoader;
use weir_model::{Global, Location};

/// The result of discovery.
#[derive(Debug)]
pub struct Discovery {
    /// The settings. Words that are not marked have their defaults.
    pub global: Global,
    /// The environment after `setenv`, `presetenv`, `unsetenv` and `resetenv`.
    pub environment: Environment,
}

/// Reads the marked words of a configuration.
pub fn discover(
    sources: &SourceMap,
    conditions: &dyn ConditionContext,
    environment: Environment,
) -> Discovery {
    // The marked words name no files to read.
    let world = ConfigLoader::new(&NoFiles, &NoScripts, environment);
    let (registry, patterns, variables) = (Registry::new([]), PatternStore::new(), VariableNames::new());
    let token_keys = TokenKeys::new();
    let resources = Resources {
        registry: &registry,
        patterns: &patterns,
        token_keys: &token_keys,
        variables: &variables,
        scripts: &NoScripts,
        loader: &world,
    };
    let mut global = Global::default();
    let mut unsaid = Diagnostics::new();
    let mut reader = LineReader::new(sources);
    let mut file = None;
    let mut in_global = false;
    while let Some(line) =
        world.with_environment(|environment| reader.next_line(environment, conditions, &mut unsaid))
    {
        // Every file begins outside of any section.
        let id = line.span().file;
        if file.replace(id) != Some(id) {
            in_global = false;
        }
        let keyword = line.keyword().text();
        if SECTIONS.find(keyword).is_some() {
            in_global = keyword == "global";
            reader.set_section(keyword);
        } else if in_global {
            let mut context = GlobalContext {
                global: &mut global,
                world: &world,
                resources,
                at: Location::new(sources.name(id).into(), line.span().line),
                late: false,
                negated: false,
                keyword: "",
                diagnostics: &mut unsaid,
            };
            // The worker detects and reports the same error.
            let _ = global::discover_line(&mut context, &line);
        }
    }
    Discovery { global, environment: world.into_environment() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::GLOBAL_KEYWORDS;
    use weir_model::MasterWorker;
    use weir_syntax::StaticFeatures;

    fn look(text: &str) -> Discovery {
        let mut sources = SourceMap::new();
        sources.add("a.cfg", text.as_bytes().to_vec());
        discover(&sources, &StaticFeatures::default(), Environment::new())
    }

    #[test]
    fn r148_r151_r152_discovery_reads_only_marked_global_keywords() {
        let found = look(
            "global\n maxconn 7\n master-worker no-exit-on-failure\n nonsense \\\nsection here\n\
             unheard of\nfrontend f\n daemon\n bind :80\nglobal\n pidfile /run/x.pid\n mworker-max-reloads 3\n",
        );
        assert_eq!(found.global.master_worker, Some(MasterWorker { stays: true }));
        assert_eq!(found.global.pidfile.as_deref(), Some("/run/x.pid".as_ref()));
        assert_eq!(found.global.reloads_max, Some(3));
        assert!(!found.global.daemon && found.global.limits.maxconn.is_none());
    }

    #[test]
    fn during_discovery_a_section_ends_with_its_file() {
        let mut sources = SourceMap::new();
        sources.add("a.cfg", b"global\n daemon\n".to_vec());
        sources.add("b.cfg", b"zero-warning\nglobal\n quiet\n".to_vec());
        let found = discover(&sources, &StaticFeatures::default(), Environment::new()).global;
        assert!(found.daemon && found.quiet && !found.zero_warning);
    }

    #[test]
    fn discovery_ignores_invalid_arguments() {
        let found = look("global\n pidfile\n daemon\n mworker-max-reloads many\n");
        assert!(found.global.daemon && found.global.pidfile.is_none() && found.global.reloads_max.is_none());
    }

    #[test]
    fn discovery_evaluates_conditions_and_setenv() {
        let found = look(
            "global\n setenv A 1\n.if defined(A)\n daemon\n.else\n zero-warning\n.endif\n.notice \"not said here\"\n",
        );
        assert!(found.global.daemon && !found.global.zero_warning);
        assert_eq!(found.environment.value("A"), Some(&b"1"[..]));
    }

    #[test]
    fn r154_list_of_keywords_read_by_discovery() {
        let marked: Vec<_> = GLOBAL_KEYWORDS.rows().filter(|row| row.discovery).map(|row| row.name).collect();
        assert_eq!(
            marked,
            [
                "daemon",
                "master-worker",
                "mworker-max-reloads",
                "quiet",
                "zero-warning",
                "pidfile",
                "setenv",
                "presetenv",
                "unsetenv",
                "resetenv",
                "tune.renice.startup",
            ]
        );
    }
}
