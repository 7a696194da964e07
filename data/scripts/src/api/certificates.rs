//! `CertCache`: replaces certificates in memory.

use weir_lua::{LuaKind, Misuse};

use super::{ApiCall, ApiMember, ApiResult, install_constants};
use crate::process::CertificateField;
use crate::world::ScriptState;

const FUNCTIONS: &[ApiMember] = &[("set", set)];

/// Makes the global `CertCache`.
pub(super) fn install(state: &mut ScriptState) {
    install_constants(state, b"CertCache", &[], FUNCTIONS);
}

/// `CertCache.set(certificate)`: replaces parts of a certificate, as `set ssl cert` and `commit ssl cert` do. All or nothing changes.
fn set(call: &ApiCall<'_>) -> ApiResult {
    if call.arguments() != 1 || call.kind(1) != LuaKind::Table {
        return Err(Misuse::bare("'CertCache.set' needs a table as argument"));
    }
    // It takes long, so fetches and converters cannot do it.
    if !call.host().is_loading.get() && !call.is_yieldable() {
        return Err(Misuse::bare("Cannot use CertCache.set from a non-yield capable runtime context"));
    }
    call.push_field(1, b"filename");
    let name = match call.kind(-1) {
        LuaKind::String => String::from_utf8_lossy(call.bytes(-1).unwrap_or_default()).into_owned(),
        _ => return Err(Misuse::bare("No filename specified!")),
    };
    let mut fields = Vec::new();
    call.each_pair(1, |stack| {
        let field = String::from_utf8_lossy(stack.bytes(-2).unwrap_or(b"?")).into_owned();
        if field == "filename" {
            return Ok(());
        }
        let kind = CertificateField::of_name(&field);
        let kind = kind.ok_or_else(|| Misuse::bare(format!("Unsupported field '{field}'")))?;
        let text = match stack.kind(-1) {
            LuaKind::String => String::from_utf8_lossy(stack.bytes(-1).unwrap_or_default()).into_owned(),
            _ => return Err(Misuse::bare(format!("Field '{field}' must be a string"))),
        };
        fields.push((kind, text));
        Ok(())
    })?;
    // While the configuration is read, no certificate has been loaded.
    let process = call.host().resources.process.get();
    let process = process.ok_or_else(|| Misuse::bare(UNKNOWN))?;
    // The key of the field `key` wins over one that `crt` has.
    fields.sort_by_key(|(kind, _)| *kind);
    match process.replace_certificate(&name, &fields) {
        Ok(()) => call.results(0),
        Err(None) => Err(Misuse::bare(UNKNOWN)),
        Err(Some(why)) => Err(Misuse::bare(why)),
    }
}

const UNKNOWN: &str = "Can't replace a certificate which is not referenced by the configuration!";
