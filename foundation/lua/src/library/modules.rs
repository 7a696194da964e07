//! The search paths of `require`, which include the folders of Debian's packages in the order of Debian's own Lua.

use std::env::consts::ARCH;

use memchr::memmem;

use super::set_field;
use crate::raw::RawState;

/// Adds the folders to the default paths of the table of `package`, which is at the top. A path of the environment (`LUA_PATH`) that
/// leaves the default out is kept.
pub(super) fn add_folders(raw: RawState) {
    raw.reserve(3);
    insert(raw, "path", DEFAULT_PATH, DEBIAN_PATH);
    let folders = format!("/usr/lib/{ARCH}-linux-gnu/lua/5.4/?.so;/usr/lib/lua/5.4/?.so;");
    insert(raw, "cpath", DEFAULT_CPATH, &folders);
}

/// Inserts patterns between the two parts of the default of a field.
fn insert(raw: RawState, field: &str, [first, last]: [&str; 2], patterns: &str) {
    raw.push_bytes(field.as_bytes());
    raw.push_value_of_key(-2);
    let path = raw.bytes(-1).unwrap_or_default();
    let Some(start) = memmem::find(path, [first, last].concat().as_bytes()) else { return raw.pop(1) };
    let (before, after) = path.split_at(start + first.len());
    let path = [before, patterns.as_bytes(), after].concat();
    raw.pop(1);
    raw.push_bytes(&path);
    set_field(raw, field);
}

/// The defaults of luaconf.h, in two parts. Debian has its folders in between.
const DEFAULT_PATH: [&str; 2] = [
    "/usr/local/share/lua/5.4/?.lua;/usr/local/share/lua/5.4/?/init.lua;\
     /usr/local/lib/lua/5.4/?.lua;/usr/local/lib/lua/5.4/?/init.lua;",
    "./?.lua;./?/init.lua",
];
const DEFAULT_CPATH: [&str; 2] = ["/usr/local/lib/lua/5.4/?.so;", "/usr/local/lib/lua/5.4/loadall.so;./?.so"];

const DEBIAN_PATH: &str = "/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;";
