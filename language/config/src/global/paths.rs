//! `default-path`: base folder of relative file names.

use super::context::GlobalReader;
use crate::rows::Row;
use crate::world::DefaultPath;

pub(super) const ROWS: &[Row<GlobalReader>] = &[Row::ready(
    "default-path",
    "{ current | config | parent | origin <path> }",
    "config",
    "where relative file names begin",
    |line, words| {
        let path = match words.peek_text() {
            "current" => DefaultPath::Current,
            "config" => DefaultPath::Configuration,
            "parent" => DefaultPath::Parent,
            "origin" => {
                words.take();
                let folder = words.expect("'default-path origin' expects a directory as an argument.")?;
                words.end("default-path origin")?;
                line.world.set_default_path(DefaultPath::Origin(folder.text().into()));
                return Ok(());
            }
            mode => {
                let what = if mode.is_empty() { "missing" } else { "unsupported" };
                return Err(words.fault(format!(
                    "{what} default-path mode '{mode}' for 'default-path', supported modes include 'current', \
                     'config', 'parent', and 'origin'."
                )));
            }
        };
        words.take();
        words.end("default-path")?;
        line.world.set_default_path(path);
        Ok(())
    },
)];
