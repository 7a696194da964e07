//! The interface to the programs that a configuration loads. The next lines use the functions that they register, so they run while the configuration is read.

use weir_expr::{ScriptName, ScriptNames};
use weir_model::{RulesetSet, ScriptSettings};

/// Runs scripts, and knows the functions that they registered.
pub trait ScriptHost: ScriptNames {
    /// Runs a script. Returns warnings.
    ///
    /// # Errors
    /// The message of an error in the script.
    fn load(&self, script: ScriptFile<'_>, settings: &ScriptSettings) -> Result<Vec<String>, String>;

    /// Puts a pattern in front of those where `require` looks for modules.
    fn prepend_path(&self, pattern: &str, kind: ModuleKind);

    /// The action with this name, with `lua.`.
    fn action(&self, name: &str) -> Option<ScriptAction>;

    /// The service of this kind with this name, with `lua.`.
    fn service(&self, name: &str, kind: ServiceKind) -> Option<ScriptName>;

    /// Makes the filter of a line, with the function that a script registered for its name, with `lua.`. `None` if no script did.
    ///
    /// # Errors
    /// The message of an error in the script.
    fn filter(&self, name: &str, arguments: &[&str]) -> Option<Result<ScriptFilter, String>>;
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    Http,
    Tcp,
}

impl ServiceKind {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        if self == ServiceKind::Http { ServiceKind::Tcp } else { ServiceKind::Http }
    }

    /// The name in scripts.
    pub fn name(self) -> &'static str {
        if self == ServiceKind::Http { "http" } else { "tcp" }
    }
}

/// A script to run.
#[derive(Clone, Copy, Debug)]
pub struct ScriptFile<'s> {
    /// The path as written.
    pub path: &'s str,
    pub text: &'s [u8],
    pub arguments: &'s [&'s str],
    /// Whether each thread has a state of its own for it (`lua-load-per-thread`).
    pub per_thread: bool,
}

/// The language of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleKind {
    /// Lua: `package.path`.
    Lua,
    /// C: `package.cpath`.
    C,
}

/// An action that a script registered.
#[derive(Clone, Copy, Debug)]
pub struct ScriptAction {
    pub name: ScriptName,
    /// The rulesets that may use it.
    pub rulesets: RulesetSet,
    /// The number of its arguments.
    pub arguments: usize,
}

/// A filter that a script made for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFilter {
    pub name: ScriptName,
    pub id: FilterId,
    /// Whether it sees streams of HTTP.
    pub sees_http: bool,
    /// Why it will do nothing.
    pub warning: Option<String>,
}

/// The number of a line with a filter of a script, in the order of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterId(pub u32);

/// A host without scripts: for configurations that are read in parts, and for tests.
#[derive(Clone, Copy, Debug)]
pub struct NoScripts;

impl ScriptNames for NoScripts {
    fn has_fetch(&self, _: &str) -> bool {
        false
    }

    fn has_converter(&self, _: &str) -> bool {
        false
    }
}

impl ScriptHost for NoScripts {
    fn load(&self, _: ScriptFile<'_>, _: &ScriptSettings) -> Result<Vec<String>, String> {
        Err("scripts cannot run here".into())
    }

    fn prepend_path(&self, _: &str, _: ModuleKind) {}

    fn action(&self, _: &str) -> Option<ScriptAction> {
        None
    }

    fn service(&self, _: &str, _: ServiceKind) -> Option<ScriptName> {
        None
    }

    fn filter(&self, _: &str, _: &[&str]) -> Option<Result<ScriptFilter, String>> {
        None
    }
}
