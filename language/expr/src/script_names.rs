//! The names that scripts registered.

/// The functions of scripts that expressions may call.
pub trait ScriptNames {
    /// Whether a script registered this fetch, with `lua.`.
    fn has_fetch(&self, name: &str) -> bool;

    /// Whether a script registered this converter, with `lua.`.
    fn has_converter(&self, name: &str) -> bool;
}

/// The number of a name of scripts, the same in every configuration of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptName(pub u32);
