//! Configurations of tests, in memory: the main file, and the file of its engine.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_syntax::SourceMap;

/// The line between a configuration and the file of its engine.
pub(crate) const ENGINE_FOLLOWS: &str = "# engine.cfg:\n";

thread_local! {
    /// The file `engine.cfg` of the configuration that this thread reads.
    static ENGINE: RefCell<ManuallyDrop<Option<Vec<u8>>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// A file that exists only in memory, for the thread of the test that reads it.
pub(crate) fn memory_file(path: &str) -> Option<Vec<u8>> {
    ENGINE.with_borrow(|engine| engine.as_ref().filter(|_| path == "engine.cfg").cloned())
}

/// The configuration `t.cfg`. The part of `text` after [`ENGINE_FOLLOWS`] becomes the file `engine.cfg`.
pub(crate) fn sources(text: &str) -> SourceMap {
    let (configuration, engine) = match text.split_once(ENGINE_FOLLOWS) {
        Some((configuration, engine)) => (configuration, Some(engine.as_bytes().to_vec())),
        None => (text, None),
    };
    ENGINE.with_borrow_mut(|kept| **kept = engine);
    let mut sources = SourceMap::new();
    sources.add("t.cfg", configuration.as_bytes().to_vec());
    sources
}
