//! Exports the C API of Lua from the program, so that modules in C find it there. They are linked against no library of Lua: two copies
//! of it in one process would not know each other's values.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for names in LUA_API {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={names}");
    }
    // The program never calls it, so the linker would leave its file out.
    println!("cargo::rustc-link-arg-bins=-Wl,--undefined=luaL_openlibs");
}

/// The names that Lua reserves for its API (lua.h, lauxlib.h, lualib.h). Its inner functions have other prefixes.
const LUA_API: [&str; 3] = ["lua_*", "luaL_*", "luaopen_*"];
