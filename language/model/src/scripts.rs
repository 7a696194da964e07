//! The settings of Lua (`tune.lua.*`).

use std::time::Duration;

use weir_fingerprint::Canonical;

/// The settings of `tune.lua.*`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct ScriptSettings {
    /// `tune.lua.bool-sample-conversion`: whether booleans stay booleans in scripts. `None` without the word: they become integers, with
    /// a warning.
    pub keeps_booleans: Option<bool>,
    /// `tune.lua.burst-timeout`: how long a script may compute without a pause. `None` without a limit.
    pub burst: Option<Duration>,
    /// `tune.lua.session-timeout`: how long an action may compute in total.
    pub session: Option<Duration>,
    /// `tune.lua.service-timeout`: how long a service may compute in total.
    pub service: Option<Duration>,
    /// `tune.lua.task-timeout`: how long a task may compute in total.
    pub task: Option<Duration>,
    /// `tune.lua.forced-yield`: the instructions after which a script pauses. `None` for the default of its state.
    pub slice: Option<u32>,
    /// `tune.lua.maxmem`: the memory of all states, in megabytes. 0 without a limit.
    pub megabytes: u32,
    /// `tune.lua.log.loggers`: whether the output of scripts goes to the loggers.
    pub logs: bool,
    /// `tune.lua.log.stderr`: whether it goes to the error output.
    pub prints: ScriptPrinting,
    /// `tune.lua.openlibs`: the libraries that scripts may use.
    pub libraries: Vec<&'static str>,
    /// `lua-load` and `lua-load-per-thread`: the scripts that ran.
    pub files: Vec<LoadedScript>,
    /// `lua-prepend-path`: patterns, and the variables of `package` that they stand in.
    pub paths: Vec<(Box<str>, &'static str)>,
}

/// A script that a configuration loaded.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct LoadedScript {
    /// The path, in the form of the configuration.
    pub path: Box<str>,
    pub arguments: Vec<Box<str>>,
    /// Whether each thread has a state of its own for it.
    pub per_thread: bool,
    /// The text, so that a changed script makes another configuration.
    pub text: Box<[u8]>,
}

/// Whether the output of scripts goes to the error output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum ScriptPrinting {
    On,
    Off,
    /// Where no logger takes it.
    #[default]
    Auto,
}

impl ScriptSettings {
    /// The libraries that `tune.lua.openlibs` knows.
    pub const LIBRARIES: [&'static str; 8] =
        ["table", "io", "os", "string", "math", "utf8", "package", "debug"];
}

impl Default for ScriptSettings {
    fn default() -> Self {
        ScriptSettings {
            keeps_booleans: None,
            burst: Some(Duration::from_secs(1)),
            session: Some(Duration::from_secs(4)),
            service: Some(Duration::from_secs(4)),
            task: None,
            slice: None,
            megabytes: 0,
            logs: true,
            prints: ScriptPrinting::Auto,
            libraries: Self::LIBRARIES.to_vec(),
            files: Vec::new(),
            paths: Vec::new(),
        }
    }
}
