//! Classes that are made when a script first uses one, so that a new state stays small.

use weir_lua::{Function, LuaKind, Misuse};

use super::{ApiCall, ApiMember, ApiResult, push_functions};
use crate::world::{LATE_CLASSES, MadeClass, World};

/// A class of objects.
pub(super) struct ClassDecl {
    pub name: &'static str,
    pub methods: &'static [ApiMember],
    /// The names of fields.
    pub fields: &'static [&'static str],
    /// Pushes the field with this name of the object in argument 1. False, without a push, for other names.
    pub field: Option<FieldReader>,
    /// The function of `pairs`. Without one, it lists the members.
    pub pairs: Option<Function<World>>,
    /// Whether assignments of scripts to members are ignored.
    pub is_sealed: bool,
}

type FieldReader = fn(&ApiCall<'_>, &[u8]) -> Result<bool, Misuse>;

impl ClassDecl {
    /// A class with methods only.
    pub(super) const fn new(name: &'static str, methods: &'static [ApiMember]) -> ClassDecl {
        ClassDecl { name, methods, fields: &[], field: None, pairs: None, is_sealed: false }
    }
}

/// A class that is made late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateClass {
    Concat,
    Regex,
    Queue,
    Map,
    Patref,
    ProxyList,
    Proxy,
    ServerList,
    Server,
    ListenerList,
    Listener,
    StickTable,
    EventSub,
}

impl LateClass {
    const ALL: [LateClass; LATE_CLASSES] = [
        LateClass::Concat,
        LateClass::Regex,
        LateClass::Queue,
        LateClass::Map,
        LateClass::Patref,
        LateClass::ProxyList,
        LateClass::Proxy,
        LateClass::ServerList,
        LateClass::Server,
        LateClass::ListenerList,
        LateClass::Listener,
        LateClass::StickTable,
        LateClass::EventSub,
    ];

    fn decl(self) -> &'static ClassDecl {
        match self {
            LateClass::Concat => &super::concat::CLASS,
            LateClass::Regex => &super::regexes::CLASS,
            LateClass::Queue => &super::queues::CLASS,
            LateClass::Map => &super::maps::CLASS,
            LateClass::Patref => &super::patrefs::CLASS,
            LateClass::ProxyList => &super::proxies::LIST_CLASS,
            LateClass::Proxy => &super::proxies::CLASS,
            LateClass::ServerList => &super::servers::LIST_CLASS,
            LateClass::Server => &super::servers::CLASS,
            LateClass::ListenerList => &super::listeners::LIST_CLASS,
            LateClass::Listener => &super::listeners::CLASS,
            LateClass::StickTable => &super::tables::CLASS,
            LateClass::EventSub => &super::events::CLASS,
        }
    }

    /// Pushes a new object of the class.
    pub(super) fn push(self, call: &ApiCall<'_>, number: i64) {
        call.push_object(self.made(call).metatable, number, 0);
    }

    /// The number of the object in an argument.
    pub(super) fn number(self, call: &ApiCall<'_>, index: i32) -> Result<i64, Misuse> {
        let found = call.object(index, self.made(call).metatable);
        found.ok_or_else(|| call.wrong_kind(index, self.decl().name))
    }

    fn made(self, call: &ApiCall<'_>) -> MadeClass {
        let cell = &call.host().late_classes[self as usize];
        if let Some(made) = cell.get() {
            return *made;
        }
        // A finalizer of the script may make the class meanwhile.
        let made = self.make(call);
        *cell.get_or_init(|| made)
    }

    fn make(self, call: &ApiCall<'_>) -> MadeClass {
        let decl = self.decl();
        let number = self as i64;
        push_functions(call, decl.methods);
        let methods = call.keep();
        call.push_table(0, 6);
        match decl.field {
            Some(_) => call.push_function::<World>(index, number),
            None => call.push_reference(methods),
        }
        call.set_field(b"__index");
        call.push_function::<World>(to_string, number);
        call.set_field(b"__tostring");
        call.push_bytes(decl.name.as_bytes());
        call.set_field(b"__name");
        if decl.is_sealed {
            call.push_function::<World>(|call| call.results(0), number);
            call.set_field(b"__newindex");
        }
        call.push_function::<World>(decl.pairs.unwrap_or(pairs_of_members), number);
        call.set_field(b"__pairs");
        let metatable = call.keep();
        call.hide_class(metatable);
        MadeClass { metatable, methods }
    }

    /// Pushes a member of the object in argument 1, or nil.
    fn push_member(self, call: &ApiCall<'_>, name: &[u8]) -> Result<(), Misuse> {
        let is_field = self.decl().field.map_or(Ok(false), |field| field(call, name))?;
        if !is_field {
            call.push_reference(self.made(call).methods);
            call.push_field(-1, name);
        }
        Ok(())
    }

    pub(super) fn of_function(call: &ApiCall<'_>) -> Result<LateClass, Misuse> {
        let class = usize::try_from(call.number_of_function()).ok().and_then(|number| Self::ALL.get(number));
        class.copied().ok_or_else(|| Misuse::text("an unknown class"))
    }
}

/// A member of an object: a field, or a method.
fn index(call: &ApiCall<'_>) -> ApiResult {
    let class = LateClass::of_function(call)?;
    if call.kind(2) != LuaKind::String {
        call.push_nil();
        return call.results(1);
    }
    class.push_member(call, call.bytes(2).unwrap_or_default())?;
    call.results(1)
}

fn to_string(call: &ApiCall<'_>) -> ApiResult {
    let name = LateClass::of_function(call)?.decl().name;
    call.push_bytes(format!("HAProxy class {name}").as_bytes());
    call.results(1)
}

/// `pairs(object)`: the members of its class.
fn pairs_of_members(call: &ApiCall<'_>) -> ApiResult {
    call.push_function::<World>(next_member, call.number_of_function());
    call.push_value(1);
    call.push_nil();
    call.results(3)
}

/// The member behind the one with the name in argument 2.
fn next_member(call: &ApiCall<'_>) -> ApiResult {
    let class = LateClass::of_function(call)?;
    let decl = class.decl();
    let mut names = decl.fields.iter().chain(decl.methods.iter().map(|(name, _)| name));
    if !call.is_nil(2) {
        let last = call.expect_bytes(2)?;
        let _ = names.find(|name| name.as_bytes() == last);
    }
    let Some(name) = names.next() else {
        call.push_nil();
        return call.results(1);
    };
    class.push_member(call, name.as_bytes())?;
    call.push_bytes(name.as_bytes());
    // The value is below the name.
    call.push_value(-2);
    call.results(2)
}
