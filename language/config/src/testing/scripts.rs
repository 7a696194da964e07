//! A host of scripts for tests: every script registers the same names.

use weir_expr::{ScriptName, ScriptNames};
use weir_model::ScriptSettings;

use crate::rules::sets;
use crate::scripts::{ModuleKind, ScriptAction, ScriptFile, ScriptFilter, ScriptHost, ServiceKind};

/// Knows the fetch `lua.f`, the converter `lua.c` and the action `lua.act` of requests, with one argument. A script with the text `fail` fails.
pub(crate) struct TestScripts;

impl ScriptNames for TestScripts {
    fn has_fetch(&self, name: &str) -> bool {
        name == "lua.f"
    }

    fn has_converter(&self, name: &str) -> bool {
        name == "lua.c"
    }
}

impl ScriptHost for TestScripts {
    fn load(&self, script: ScriptFile<'_>, settings: &ScriptSettings) -> Result<Vec<String>, String> {
        if script.text == b"fail" {
            return Err("Lua runtime error: it fails".into());
        }
        let arguments = script.arguments.join(" ");
        let shown = format!("ran {} with '{arguments}', {} libraries", script.path, settings.libraries.len());
        Ok(vec![shown])
    }

    fn prepend_path(&self, _: &str, _: ModuleKind) {}

    fn action(&self, name: &str) -> Option<ScriptAction> {
        let name = (name == "lua.act").then(|| weir_expr::expr::script::name_of(name))?;
        Some(ScriptAction { name, rulesets: sets::HTTP_REQUEST, arguments: 1 })
    }

    fn service(&self, _: &str, _: ServiceKind) -> Option<ScriptName> {
        None
    }

    fn filter(&self, _: &str, _: &[&str]) -> Option<Result<ScriptFilter, String>> {
        None
    }
}
