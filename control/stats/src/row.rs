//! The values of one object's fields.

use std::sync::OnceLock;

use weir_events::HistogramReading;

use crate::field_set::FieldSet;
use crate::fields::{FIELD_COUNT, FIELDS, StatsField, StatsObject, Type};

/// The value of one field, with its type in typed output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// Unknown or not applicable. Not written.
    Empty,
    /// An unsigned 32-bit number.
    U32(u32),
    /// A signed 32-bit number.
    S32(i32),
    /// An unsigned 64-bit number.
    U64(u64),
    /// A number with a fraction (`show info float`).
    Float(f64),
    Text(&'a str),
}

impl FieldValue<'_> {
    /// Whether the value has this type. Rates and ages may have a fraction (`show info float`). Any value may be missing.
    pub fn has_type(&self, type_: Type) -> bool {
        match self {
            FieldValue::Empty => true,
            FieldValue::Text(_) => type_ == Type::Text,
            FieldValue::U32(_) => type_ == Type::U32,
            FieldValue::S32(_) => type_ == Type::S32,
            FieldValue::U64(_) => type_ == Type::U64,
            FieldValue::Float(_) => type_ != Type::Text,
        }
    }
}

impl From<u32> for FieldValue<'_> {
    fn from(value: u32) -> Self {
        FieldValue::U32(value)
    }
}

impl From<i32> for FieldValue<'_> {
    fn from(value: i32) -> Self {
        FieldValue::S32(value)
    }
}

impl From<u64> for FieldValue<'_> {
    fn from(value: u64) -> Self {
        FieldValue::U64(value)
    }
}

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(value: &'a str) -> Self {
        FieldValue::Text(value)
    }
}

impl<'a, T: Into<FieldValue<'a>>> From<Option<T>> for FieldValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(FieldValue::Empty, Into::into)
    }
}

/// Values by index. All strings share one buffer, so a reused row does not allocate.
#[derive(Debug, Default)]
pub(crate) struct ValueCells {
    cells: Vec<ValueCell>,
    text: String,
}

#[derive(Clone, Copy, Debug)]
enum ValueCell {
    Empty,
    U32(u32),
    S32(i32),
    U64(u64),
    Float(f64),
    Text { start: usize, end: usize },
}

impl Clone for ValueCells {
    fn clone(&self) -> Self {
        Self { cells: self.cells.clone(), text: self.text.clone() }
    }

    /// Reuses the memory of both lists.
    fn clone_from(&mut self, source: &Self) {
        self.cells.clone_from(&source.cells);
        self.text.clone_from(&source.text);
    }
}

impl ValueCells {
    pub(crate) fn reset(&mut self, count: usize) {
        self.text.clear();
        self.cells.clear();
        self.cells.resize(count, ValueCell::Empty);
    }

    pub(crate) fn set(&mut self, position: usize, value: FieldValue<'_>) {
        self.cells[position] = match value {
            FieldValue::Empty => ValueCell::Empty,
            FieldValue::U32(number) => ValueCell::U32(number),
            FieldValue::S32(number) => ValueCell::S32(number),
            FieldValue::U64(number) => ValueCell::U64(number),
            FieldValue::Float(number) => ValueCell::Float(number),
            FieldValue::Text(text) => return self.set_joined(position, [text, ""]),
        };
    }

    /// Sets a text field to the concatenation of two parts.
    fn set_joined(&mut self, position: usize, parts: [&str; 2]) {
        let start = self.text.len();
        parts.iter().for_each(|part| self.text.push_str(part));
        self.cells[position] = ValueCell::Text { start, end: self.text.len() };
    }

    #[inline]
    pub(crate) fn value(&self, position: usize) -> FieldValue<'_> {
        match self.cells[position] {
            ValueCell::Empty => FieldValue::Empty,
            ValueCell::U32(number) => FieldValue::U32(number),
            ValueCell::S32(number) => FieldValue::S32(number),
            ValueCell::U64(number) => FieldValue::U64(number),
            ValueCell::Float(number) => FieldValue::Float(number),
            ValueCell::Text { start, end } => FieldValue::Text(&self.text[start..end]),
        }
    }
}

/// Latency histograms of one object, in microseconds, in the order of [`crate::latency::PHASES`].
pub type Latencies = [HistogramReading; LATENCY_PHASES];

/// Queue, connect, response and total.
pub const LATENCY_PHASES: usize = 4;

/// The colour of a server on the page, also used by the filters `up` and `no-maint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Not a server, or a server without checks.
    #[default]
    NotChecked,
    Up,
    /// Up, but checks are failing.
    GoingDown,
    /// Down, but checks are succeeding.
    GoingUp,
    Down,
    /// Up, but excluded from load balancing.
    NoLoadBalancing,
    Drain,
    Maintenance,
}

/// The facts about a proxy that all its rows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHead<'a> {
    /// The `id` setting.
    pub id: u32,
    pub name: &'a str,
    /// `mode`: `http`, `tcp`, ...
    pub mode: &'a str,
    /// Whether it has a frontend side.
    pub frontend: bool,
    /// Whether it has a backend side.
    pub backend: bool,
    pub has_servers: bool,
    /// The `description` setting.
    pub description: Option<&'a str>,
}

/// The fields of one frontend, listener, server or backend. A [`StatsSource`](crate::StatsSource) fills the row, a formatter
/// writes it, and the next object reuses it.
#[derive(Debug)]
pub struct StatsRow {
    pub(crate) cells: ValueCells,
    /// The initial cells of an object of this kind.
    template: &'static ValueCells,
    kind: StatsObject,
    proxy_id: u32,
    object_id: u32,
    both_sides: (bool, bool),
    has_servers: bool,
    description: Option<String>,
    health: Health,
    latencies: Option<Box<Latencies>>,
    /// The fields to fill. `None` for all.
    only: Option<Only>,
}

/// A subset of the fields.
#[derive(Debug)]
struct Only {
    set: FieldSet,
    /// Fields of the subset that differ between the servers of a proxy.
    changing: Vec<StatsField>,
    /// Length of the text fields that are the same for all servers of a proxy, in bytes.
    constant: usize,
}

impl Default for StatsRow {
    fn default() -> Self {
        let mut cells = ValueCells::default();
        cells.reset(FIELD_COUNT);
        Self {
            cells,
            template: template(StatsObject::Frontend, false),
            kind: StatsObject::Frontend,
            proxy_id: 0,
            object_id: 0,
            both_sides: (false, false),
            has_servers: false,
            description: None,
            health: Health::default(),
            latencies: None,
            only: None,
        }
    }
}

impl StatsRow {
    /// Restricts the row to these fields and the names of proxy and object. [`StatsField::Status`] includes the health of a
    /// server.
    pub fn fill_only(&mut self, fields: FieldSet) {
        self.cells.reset(FIELD_COUNT);
        let set = fields.with(StatsField::Pxname).with(StatsField::Svname);
        let is_constant = |field: &StatsField| matches!(field, StatsField::Pxname | StatsField::Mode);
        let changing = set.iter().filter(|field| !is_constant(field)).collect();
        self.only = Some(Only { set, changing, constant: 0 });
    }

    /// The fields to fill. `None` for all.
    pub fn only(&self) -> Option<&FieldSet> {
        self.only.as_ref().map(|only| &only.set)
    }

    /// Whether the row includes this field. The source need not compute other fields.
    #[inline]
    pub fn wants(&self, field: StatsField) -> bool {
        self.only().is_none_or(|only| only.contains(field))
    }

    /// Whether the row includes one of these fields.
    pub fn wants_any(&self, fields: &FieldSet) -> bool {
        self.only().is_none_or(|only| only.meets(fields))
    }

    /// Starts the row of an object: sets names and identifiers, and zero in the fields with that default. Frontends and
    /// backends pass 0 as `object_id`. Their name is fixed.
    pub fn begin(&mut self, kind: StatsObject, proxy: &ProxyHead<'_>, object_id: u32, object_name: &str) {
        self.kind = kind;
        self.proxy_id = proxy.id;
        self.object_id = object_id;
        self.both_sides = (proxy.frontend, proxy.backend);
        self.has_servers = proxy.has_servers;
        match (&mut self.description, proxy.description) {
            (Some(kept), Some(text)) => {
                kept.clear();
                kept.push_str(text);
            }
            (kept, text) => *kept = text.map(str::to_owned),
        }
        self.template = template(kind, proxy.mode == "http");
        match &self.only {
            None => self.cells.clone_from(self.template),
            Some(_) => self.cells.text.clear(),
        }
        self.set(StatsField::Pxname, proxy.name);
        self.set(StatsField::Mode, proxy.mode);
        if let Some(only) = &mut self.only {
            only.constant = self.cells.text.len();
        }
        let name = match kind {
            StatsObject::Frontend => "FRONTEND",
            StatsObject::Backend => "BACKEND",
            StatsObject::Server | StatsObject::Listener => object_name,
        };
        self.begin_object(object_id, name);
    }

    /// Starts the row of the next server of the same proxy. Faster than [`StatsRow::begin`].
    pub fn begin_next(&mut self, proxy: &ProxyHead<'_>, object_id: u32, object_name: &str) {
        debug_assert!(
            self.kind == StatsObject::Server && self.proxy_id == proxy.id,
            "the row before was of another kind"
        );
        match &self.only {
            None => self.begin(self.kind, proxy, object_id, object_name),
            Some(only) => {
                self.cells.text.truncate(only.constant);
                self.object_id = object_id;
                self.begin_object(object_id, object_name);
            }
        }
    }

    /// Sets the fields that differ between the objects of a proxy.
    #[inline]
    fn begin_object(&mut self, object_id: u32, name: &str) {
        self.health = Health::default();
        self.latencies = None;
        if let Some(only) = &self.only {
            for field in &only.changing {
                self.cells.cells[*field as usize] = self.template.cells[*field as usize];
            }
        }
        self.cells.set(StatsField::Svname as usize, FieldValue::Text(name));
        // Relative process number. Always 1: weir is a single process.
        self.set_anyway(StatsField::Pid, FieldValue::U32(1));
        self.set_anyway(StatsField::Iid, FieldValue::U32(self.proxy_id));
        self.set_anyway(StatsField::Sid, FieldValue::U32(object_id));
        self.set_anyway(StatsField::Type, FieldValue::U32(self.kind as u32));
    }

    /// Sets one field. A field that does not apply to this kind of object is an error of the caller, and is ignored.
    #[inline]
    pub fn set<'a>(&mut self, field: StatsField, value: impl Into<FieldValue<'a>>) {
        debug_assert!(field.applies_to(self.kind), "{field:?} does not apply to {:?}", self.kind);
        if field.applies_to(self.kind) {
            self.set_anyway(field, value.into());
        }
    }

    /// Sets a text field to the concatenation of two parts.
    pub fn set_joined(&mut self, field: StatsField, parts: [&str; 2]) {
        debug_assert!(field.applies_to(self.kind), "{field:?} does not apply to {:?}", self.kind);
        if self.wants(field) && field.applies_to(self.kind) {
            self.cells.set_joined(field as usize, parts);
        }
    }

    /// Sets one field. Computes the value only if the row includes the field.
    #[inline]
    pub fn set_with<'a, V: Into<FieldValue<'a>>>(&mut self, field: StatsField, value: impl FnOnce() -> V) {
        if self.wants(field) {
            self.set(field, value());
        }
    }

    /// Sets a field without the check that it applies: HAProxy prints `sid` as 0 for frontends and backends too.
    #[inline]
    fn set_anyway(&mut self, field: StatsField, value: FieldValue<'_>) {
        if !self.wants(field) {
            return;
        }
        debug_assert!(value.has_type(field.decl().type_), "{field:?} is not {value:?}");
        self.cells.set(field as usize, value);
    }

    /// Sets the health, which colours the row of a server.
    pub fn set_health(&mut self, health: Health) {
        self.health = health;
    }

    /// Sets the latency histograms ([`RowSelection::latencies`](crate::RowSelection)).
    pub fn set_latencies(&mut self, latencies: Latencies) {
        self.latencies = Some(Box::new(latencies));
    }

    /// The latency histograms. `None` if not requested, or if the object does not have any.
    pub fn latencies(&self) -> Option<&Latencies> {
        self.latencies.as_deref()
    }

    /// The value of one field. Empty if it was not requested or not set.
    #[inline]
    pub fn value(&self, field: StatsField) -> FieldValue<'_> {
        self.cells.value(field as usize)
    }

    /// Calls `each` with the name and the value of each field that has one.
    pub fn each(&self, mut each: impl FnMut(&str, FieldValue<'_>)) {
        for field in StatsField::ALL {
            let value = self.value(*field);
            if value != FieldValue::Empty {
                each(field.decl().name, value);
            }
        }
    }

    /// The value as text. Empty for a number.
    #[inline]
    pub fn text(&self, field: StatsField) -> &str {
        match self.value(field) {
            FieldValue::Text(text) => text,
            _ => "",
        }
    }

    /// The value as a number. 0 for a text field.
    pub fn number(&self, field: StatsField) -> u64 {
        match self.value(field) {
            FieldValue::U32(number) => u64::from(number),
            FieldValue::S32(number) => u64::try_from(number).unwrap_or(0),
            FieldValue::U64(number) => number,
            FieldValue::Float(number) => number as u64,
            FieldValue::Empty | FieldValue::Text(_) => 0,
        }
    }

    /// Whether the row is about a frontend, listener, server or backend.
    pub fn kind(&self) -> StatsObject {
        self.kind
    }

    /// The proxy's `id`.
    pub fn proxy_id(&self) -> u32 {
        self.proxy_id
    }

    /// The `id` of the server or listener. 0 for a frontend or backend.
    pub fn object_id(&self) -> u32 {
        self.object_id
    }

    /// Whether the proxy has a frontend side and a backend side.
    pub fn sides(&self) -> (bool, bool) {
        self.both_sides
    }

    /// Whether the proxy has servers.
    pub fn has_servers(&self) -> bool {
        self.has_servers
    }

    /// The proxy's `description` setting.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The health of the server. [`Health::NotChecked`] for other objects.
    pub fn health(&self) -> Health {
        self.health
    }
}

/// The initial cells of an object: zero in the fields with that default, otherwise empty.
fn template(kind: StatsObject, http: bool) -> &'static ValueCells {
    static TEMPLATES: [OnceLock<ValueCells>; 8] = [const { OnceLock::new() }; 8];
    TEMPLATES[2 * kind as usize + usize::from(http)].get_or_init(|| {
        let mut cells = ValueCells::default();
        cells.reset(FIELD_COUNT);
        for (position, row) in FIELDS.iter().enumerate() {
            if row.fill.is_zero(kind, http) && row.applies & kind.mask() != 0 {
                cells.set(position, zero_of(row.type_));
            }
        }
        cells
    })
}

fn zero_of(type_: Type) -> FieldValue<'static> {
    match type_ {
        Type::U32 => FieldValue::U32(0),
        Type::S32 => FieldValue::S32(0),
        Type::U64 => FieldValue::U64(0),
        Type::Text => FieldValue::Empty,
    }
}
