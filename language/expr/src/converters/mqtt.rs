//! MQTT 3.1, 3.1.1 and 5.0: whether a packet is valid, and fields of the two packets that open a session.
//!
//! Only CONNECT (the client's first packet) and CONNACK (the server's response) are parsed. A packet has one byte of type and flags, the
//! length of the rest in one to four bytes of seven bits, a header for its type, and for CONNECT a payload. 5.0 adds properties: an
//! identifier and a value of the type that the identifier implies (OASIS MQTT 5.0, 2.2.2.2).

use std::sync::Arc;

use weir_fingerprint::Canonical;

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::sample::SampleType::{Bin, Bool, Str};
use crate::sample::Value;
use crate::scope::ExpressionScope;

pub(super) const ROWS: &[Converter] = &[
    Converter::new(
        "mqtt_field_value",
        Bin,
        Str,
        Run::Pure(mqtt_field_value),
        "A field of a CONNECT or CONNACK packet of MQTT",
    )
    .args(2, &[ArgKind::Str, ArgKind::Str])
    .check(check_field)
    .decides(),
    Converter::new(
        "mqtt_is_valid",
        Bin,
        Bool,
        Run::Pure(mqtt_is_valid),
        "Whether a CONNECT or CONNACK packet of MQTT is sound",
    )
    .decides(),
];

/// The fields that can be extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
enum MqttField {
    Flags,
    ProtocolName,
    ProtocolVersion,
    ClientIdentifier,
    WillTopic,
    WillPayload,
    Username,
    Password,
    KeepAlive,
    ReasonCode,
    Property(u8),
}

/// The two packet types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
enum Packet {
    Connect,
    Connack,
}

const CONNECT_FIELDS: &[(&str, MqttField)] = &[
    ("flags", MqttField::Flags),
    ("protocol_name", MqttField::ProtocolName),
    ("protocol_version", MqttField::ProtocolVersion),
    ("client_identifier", MqttField::ClientIdentifier),
    ("will_topic", MqttField::WillTopic),
    ("will_payload", MqttField::WillPayload),
    ("username", MqttField::Username),
    ("password", MqttField::Password),
    ("keepalive", MqttField::KeepAlive),
];
const CONNACK_FIELDS: &[(&str, MqttField)] = &[
    ("flags", MqttField::Flags),
    ("protocol_version", MqttField::ProtocolVersion),
    ("reason_code", MqttField::ReasonCode),
];

/// The properties of each packet, without user properties, which may be repeated.
const CONNECT_PROPERTIES: &[u8] = &[1, 2, 3, 8, 9, 17, 18, 21, 22, 23, 25, 33, 34, 39];
const CONNACK_PROPERTIES: &[u8] = &[17, 18, 19, 21, 22, 26, 28, 31, 33, 34, 36, 37, 39, 40, 41, 42];
const USER_PROPERTY: u8 = 38;

fn check_field(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let word = |index| String::from_utf8_lossy(args.str(index).unwrap_or_default()).to_ascii_lowercase();
    let (packet, fields, properties) = match word(0).as_str() {
        "connect" | "1" => (Packet::Connect, CONNECT_FIELDS, CONNECT_PROPERTIES),
        "connack" | "2" => (Packet::Connack, CONNACK_FIELDS, CONNACK_PROPERTIES),
        other => {
            return Err(format!("unsupported MQTT packet type '{other}': expects 'connect' or 'connack'"));
        }
    };
    let name = word(1);
    let named = fields.iter().find(|(field, _)| *field == name).map(|(_, wanted)| *wanted);
    let property = || name.parse().ok().filter(|id| properties.contains(id)).map(MqttField::Property);
    let Some(wanted) = named.or_else(property) else {
        return Err(format!("unsupported MQTT field or property '{name}'"));
    };
    args.set(0, Arg::Custom(Arc::new((packet, wanted))));
    Ok(())
}

fn mqtt_field_value<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (packet, wanted) = *args.custom::<(Packet, MqttField)>(0)?;
    let mut found = FieldSearch { wanted, found: None };
    read(value.bytes()?, Some(packet), &mut found).filter(|sound| *sound)?;
    found.found.map(|text| Value::Str(text.into()))
}

/// None while more bytes may complete the packet.
fn mqtt_is_valid<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    read(value.bytes()?, None, &mut FieldSearch { wanted: MqttField::Flags, found: None }).map(Value::Bool)
}

/// Stores the requested field when the parser reaches it.
struct FieldSearch {
    wanted: MqttField,
    found: Option<Vec<u8>>,
}

impl FieldSearch {
    fn number(&mut self, field: MqttField, number: u32) {
        self.text(field, number.to_string().as_bytes());
    }

    fn text(&mut self, field: MqttField, text: &[u8]) {
        if self.wanted == field && self.found.is_none() {
            self.found = Some(text.to_vec());
        }
    }
}

/// Whether the packet is valid. None while it is incomplete. `only` refuses the other packet type.
fn read(bytes: &[u8], only: Option<Packet>, search: &mut FieldSearch) -> Option<bool> {
    let packet = match bytes.first()? {
        0x10 => Packet::Connect,
        0x20 => Packet::Connack,
        _ => return Some(false),
    };
    if only.is_some_and(|only| only != packet) {
        return Some(false);
    }
    let mut cursor = PacketBytes(&bytes[1..]);
    let length = match cursor.variable() {
        Ok(length) => length as usize,
        Err(Short::Bad) => return Some(false),
        Err(Short::More) => return None,
    };
    let rest = cursor.0.get(..length)?;
    if cursor.0.len() > length {
        return Some(false);
    }
    let mut rest = PacketBytes(rest);
    let sound = match packet {
        Packet::Connect => connect(&mut rest, search),
        Packet::Connack => connack(&mut rest, search),
    };
    Some(sound.is_ok() && rest.0.is_empty())
}

/// The reason why a value cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// The bytes end before the value does.
    More,
    Bad,
}

/// The bytes left to read.
struct PacketBytes<'c>(&'c [u8]);

impl<'c> PacketBytes<'c> {
    fn take(&mut self, count: usize) -> Result<&'c [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Short::More)?;
        self.0 = rest;
        Ok(taken)
    }

    /// An integer of `count` bytes, big-endian.
    fn integer(&mut self, count: usize) -> Result<u32, Short> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// An integer of one to four bytes with seven bits each, least significant byte first.
    fn variable(&mut self) -> Result<u32, Short> {
        let mut number = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.integer(1)?;
            number |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Short::Bad)
    }

    /// A length of two bytes, and that number of bytes.
    fn text(&mut self) -> Result<&'c [u8], Short> {
        let length = self.integer(2)? as usize;
        self.take(length)
    }

    /// The properties of 5.0. Only those in `known` are allowed.
    fn properties(&mut self, known: &[u8], search: &mut FieldSearch) -> Result<(), Short> {
        let length = self.variable()? as usize;
        let mut properties = PacketBytes(self.take(length)?);
        while let Some((&id, rest)) = properties.0.split_first() {
            properties.0 = rest;
            if id != USER_PROPERTY && !known.contains(&id) {
                return Err(Short::Bad);
            }
            let field = MqttField::Property(id);
            match id {
                1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => search.number(field, properties.integer(1)?),
                19 | 33 | 34 => search.number(field, properties.integer(2)?),
                2 | 17 | 18 | 39 => search.number(field, properties.integer(4)?),
                USER_PROPERTY => {
                    properties.text()?;
                    properties.text()?;
                }
                _ => search.text(field, properties.text()?),
            }
        }
        Ok(())
    }
}

fn connect(rest: &mut PacketBytes<'_>, search: &mut FieldSearch) -> Result<(), Short> {
    const WILL: u32 = 0x04;
    const PASSWORD: u32 = 0x40;
    const USERNAME: u32 = 0x80;
    let name = rest.text()?;
    let version = rest.integer(1)?;
    if !matches!((name, version), (b"MQIsdp", 3) | (b"MQTT", 4 | 5)) {
        return Err(Short::Bad);
    }
    let flags = rest.integer(1)?;
    if flags & 1 != 0 {
        return Err(Short::Bad);
    }
    search.text(MqttField::ProtocolName, name);
    search.number(MqttField::ProtocolVersion, version);
    search.number(MqttField::Flags, flags);
    search.number(MqttField::KeepAlive, rest.integer(2)?);
    if version == 5 {
        rest.properties(CONNECT_PROPERTIES, search)?;
    }
    search.text(MqttField::ClientIdentifier, rest.text()?);
    if flags & WILL != 0 {
        if version == 5 {
            rest.properties(CONNECT_PROPERTIES, search)?;
        }
        search.text(MqttField::WillTopic, rest.text()?);
        search.text(MqttField::WillPayload, rest.text()?);
    }
    if flags & USERNAME != 0 {
        search.text(MqttField::Username, rest.text()?);
    }
    if flags & PASSWORD != 0 {
        search.text(MqttField::Password, rest.text()?);
    }
    Ok(())
}

/// A packet with properties has version 5.0. The other two versions are identical here, and count as 3.1.1.
fn connack(rest: &mut PacketBytes<'_>, search: &mut FieldSearch) -> Result<(), Short> {
    let flags = rest.integer(1)?;
    if flags & !1 != 0 {
        return Err(Short::Bad);
    }
    search.number(MqttField::Flags, flags);
    search.number(MqttField::ReasonCode, rest.integer(1)?);
    let version = if rest.0.is_empty() { 4 } else { 5 };
    search.number(MqttField::ProtocolVersion, version);
    if version == 5 { rest.properties(CONNACK_PROPERTIES, search) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CONNECT of 3.1.1 with a user and a password.
    const CONNECT: &[u8] = b"\x10\x1a\0\x04MQTT\x04\xc2\0\x3c\0\0\0\x04test\0\x06passwd";
    /// A CONNACK of 5.0 with a session expiry interval of 120 and a topic alias maximum of 10.
    const CONNACK: &[u8] = b"\x20\x0b\0\0\x08\x11\0\0\0\x78\x22\0\x0a";

    fn field(bytes: &[u8], packet: Packet, wanted: MqttField) -> Option<String> {
        let mut search = FieldSearch { wanted, found: None };
        assert_eq!(read(bytes, Some(packet), &mut search), Some(true));
        search.found.map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn mqtt_packets_are_valid_and_their_prefixes_are_undecided() {
        for packet in [CONNECT, CONNACK] {
            let none = || FieldSearch { wanted: MqttField::Flags, found: None };
            assert_eq!(read(packet, None, &mut none()), Some(true));
            for cut in 0..packet.len() {
                assert_eq!(read(&packet[..cut], None, &mut none()), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn mqtt_field_value_returns_the_value_of_a_field() {
        let connect = |wanted| field(CONNECT, Packet::Connect, wanted);
        assert_eq!(connect(MqttField::Flags).as_deref(), Some("194"));
        assert_eq!(connect(MqttField::ProtocolName).as_deref(), Some("MQTT"));
        assert_eq!(connect(MqttField::KeepAlive).as_deref(), Some("60"));
        assert_eq!(connect(MqttField::ClientIdentifier).as_deref(), Some(""));
        assert_eq!(connect(MqttField::Username).as_deref(), Some("test"));
        assert_eq!(connect(MqttField::WillTopic), None);
        let connack = |wanted| field(CONNACK, Packet::Connack, wanted);
        assert_eq!(connack(MqttField::ProtocolVersion).as_deref(), Some("5"));
        assert_eq!(connack(MqttField::Property(17)).as_deref(), Some("120"));
        assert_eq!(connack(MqttField::Property(34)).as_deref(), Some("10"));
    }

    #[test]
    fn malformed_mqtt_packets_are_invalid() {
        let check = |bytes: &[u8]| {
            let mut search = FieldSearch { wanted: MqttField::Flags, found: None };
            assert_eq!(read(bytes, None, &mut search), Some(false), "{bytes:x?}");
        };
        check(b"\xd0\0");
        check(b"\x11\x14\0\x04MQTT\x04\x02\0\x3c\0\x08test_sub");
        check(b"\x10\xff\xff\xff\xff\x14\0\x04MQTT");
        check(b"\x10\x13\0\x04MQTT\x04\x02\0\x3c\0\x08test_sub");
        check(b"\x10\x18\0\x04MQTT\x04\x02\0\x3c\0\x08test_sub\xff\xff\xff\xff");
        check(b"\x10\x14\0\x04MQTX\x04\x02\0\x3c\0\x08test_sub");
        check(b"\x10\x14\0\x04MQTT\x04\x03\0\x3c\0\x08test_sub");
        check(b"\x21\x02\0\0");
    }
}
