//! The environment of the parser: files through a loader, and environment variables that lines may change.

use std::cell::RefCell;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use weir_expr::{Loader, ScriptNames};
use weir_syntax::{Environment, FileKind, Files, FolderEntry};

use crate::scripts::ScriptHost;

/// The base folder for relative file names in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefaultPath {
    /// weir's working directory at startup.
    #[default]
    Current,
    /// The folder of the configuration file with the name.
    Configuration,
    /// The parent of that folder.
    Parent,
    Origin(PathBuf),
}

/// The caller's loader, with the state that lines can change: the base folder of relative paths and the environment
/// variables.
pub(crate) struct ConfigLoader<'w> {
    loader: &'w dyn Loader,
    scripts: &'w dyn ScriptHost,
    environment: RefCell<Environment>,
    /// The master's socket pair to this process, through which the runtime API is always available.
    channel: Option<String>,
    default_path: RefCell<DefaultPath>,
    /// The current configuration file.
    file: RefCell<PathBuf>,
}

impl<'w> ConfigLoader<'w> {
    pub(crate) fn new(loader: &'w dyn Loader, scripts: &'w dyn ScriptHost, environment: Environment) -> Self {
        let channel =
            environment.value("HAPROXY_CLI").map(|value| String::from_utf8_lossy(value).into_owned());
        ConfigLoader {
            loader,
            scripts,
            channel,
            environment: RefCell::new(environment),
            default_path: RefCell::default(),
            file: RefCell::default(),
        }
    }

    /// Sets the current configuration file.
    pub(crate) fn enter_file(&self, name: &str) {
        *self.file.borrow_mut() = PathBuf::from(name);
    }

    /// `default-path`.
    pub(crate) fn set_default_path(&self, path: DefaultPath) {
        *self.default_path.borrow_mut() = path;
    }

    /// The address of the runtime API in the environment before the first line.
    pub(crate) fn channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    /// Sets a variable of the environment.
    pub(crate) fn set_variable(&self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.environment.borrow_mut().set(name, value);
    }

    pub(crate) fn change_environment(&self, change: impl FnOnce(&mut Environment)) {
        change(&mut self.environment.borrow_mut());
    }

    /// Calls `look` with the environment.
    pub(crate) fn with_environment<T>(&self, look: impl FnOnce(&Environment) -> T) -> T {
        look(&self.environment.borrow())
    }

    /// The environment after all changes.
    pub(crate) fn into_environment(self) -> Environment {
        self.environment.into_inner()
    }

    /// The path of a file that the configuration names.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let file = self.file.borrow();
        let folder = file.parent().unwrap_or(Path::new(""));
        // Joining an absolute path gives that path.
        match &*self.default_path.borrow() {
            DefaultPath::Current => path.to_owned(),
            DefaultPath::Configuration => folder.join(path),
            DefaultPath::Parent => folder.join("..").join(path),
            DefaultPath::Origin(origin) => origin.join(path),
        }
    }
}

impl ConfigLoader<'_> {
    /// Calls `look` with a path of the configuration, relative to the base folder.
    fn at<T>(&self, path: &str, look: impl FnOnce(&dyn Loader, &str) -> io::Result<T>) -> io::Result<T> {
        match self.resolve(path).to_str() {
            Some(path) => look(self.loader, path),
            None => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }
}

impl Files for ConfigLoader<'_> {
    fn read(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.at(path, |files, path| files.read(path, limit))
    }

    fn read_stream(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        self.at(path, |files, path| files.read_stream(path, limit))
    }

    fn kind(&self, path: &str) -> io::Result<FileKind> {
        self.at(path, |files, path| files.kind(path))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
        self.at(folder, |files, folder| files.list(folder))
    }
}

impl Loader for ConfigLoader<'_> {
    fn environment(&self, name: &str) -> Option<String> {
        self.with_environment(|environment| {
            environment.value(name).map(|value| String::from_utf8_lossy(value).into_owned())
        })
    }

    fn address_of(&self, host: &str) -> Option<Ipv4Addr> {
        self.loader.address_of(host)
    }

    fn scripts(&self) -> Option<&dyn ScriptNames> {
        Some(self.scripts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::NoScripts;

    struct Echo;

    impl Files for Echo {
        fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
            Ok(path.as_bytes().to_vec())
        }

        fn list(&self, folder: &str) -> io::Result<Vec<FolderEntry>> {
            Ok(vec![FolderEntry { name: folder.to_owned(), is_file: true }])
        }
    }

    impl Loader for Echo {}

    #[track_caller]
    fn check(path: DefaultPath, file: &str, expected: &str) {
        let world = ConfigLoader::new(&Echo, &NoScripts, Environment::new());
        world.enter_file(file);
        world.set_default_path(path);
        assert_eq!(world.read_text("errors/400.http").unwrap(), expected);
        assert_eq!(world.read("/abs", 9).unwrap(), b"/abs");
        assert_eq!(world.list("errors/400.http").unwrap()[0].name, expected);
    }

    #[test]
    fn relative_file_names_are_resolved_by_default_path() {
        check(DefaultPath::Current, "/etc/weir/a.cfg", "errors/400.http");
        check(DefaultPath::Configuration, "/etc/weir/a.cfg", "/etc/weir/errors/400.http");
        check(DefaultPath::Configuration, "a.cfg", "errors/400.http");
        check(DefaultPath::Parent, "/etc/weir/a.cfg", "/etc/weir/../errors/400.http");
        check(DefaultPath::Origin("/srv".into()), "a.cfg", "/srv/errors/400.http");
    }

    #[test]
    fn expressions_see_environment_variables_set_by_earlier_lines() {
        let world = ConfigLoader::new(&Echo, &NoScripts, Environment::new());
        assert_eq!(world.environment("A"), None);
        world.set_variable("A", "1");
        assert_eq!(world.environment("A").as_deref(), Some("1"));
    }
}
