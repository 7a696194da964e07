//! Parsing a response to a query.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::name::Name;
use crate::question::{CLASS_IN, Question, RecordKind};
use crate::reader::MessageReader;

/// An answer to our question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: ResponseCode,
    /// The answer was truncated (TC): retry over TCP. Nothing else of the message is read.
    pub is_truncated: bool,
    /// The answer contains aliases (CNAME).
    pub has_aliases: bool,
    /// The aliases form a loop, or exceed [`MOST_ALIASES`].
    pub aliases_fail: bool,
    /// The addresses of the name or of its last alias, of the requested kind, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// The SRV records, in the order of the answer.
    pub services: Vec<ServiceLocation>,
}

/// The location of a service: an SRV record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLocation {
    pub target: Name,
    pub port: u16,
    /// Lower values are to be used first.
    pub priority: u16,
    /// Relative weight among services of the same priority.
    pub weight: u16,
    /// Addresses of the host in the same message, often empty.
    pub addresses: Vec<IpAddr>,
}

/// The RCODE of a response (RFC 1035, 4.1.1; RFC 6895, 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseCode {
    NoError,
    /// No such name (NXDOMAIN).
    NoSuchName,
    /// The server refuses to answer.
    Refused,
    Other(u16),
}

/// The reason why a message does not answer the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRefusal {
    /// The message is truncated or invalid.
    Malformed,
    /// It is a query.
    NotAResponse,
    /// The message has the identifier of another query.
    OtherIdentifier,
    /// The message has another question.
    OtherQuestion,
    /// The question has other letter case: the message is forged, or the server does not preserve the case.
    OtherLetters,
}

/// Maximum number of aliases that are followed.
pub const MOST_ALIASES: usize = 16;

impl Answer {
    /// Reads a message that may be the answer to `question`, sent with `identifier`.
    ///
    /// # Errors
    /// When it is not an answer; a later message still may be.
    pub fn read(message: &[u8], identifier: u16, question: &Question) -> Result<Self, AnswerRefusal> {
        let mut reader = MessageReader::new(message);
        let head = MessageHead::read(&mut reader).ok_or(AnswerRefusal::Malformed)?;
        if head.identifier != identifier {
            return Err(AnswerRefusal::OtherIdentifier);
        }
        if head.flags & (IS_RESPONSE | OPERATION) != IS_RESPONSE {
            return Err(AnswerRefusal::NotAResponse);
        }
        let code = head.flags & CODE;
        let mut answer = Answer::empty(ResponseCode::of(code));
        match head.questions {
            1 => same_question(&mut reader, question)?,
            // A server that cannot parse or refuses the question may omit it.
            0 if matches!(code, 1 | 2 | 4 | 5) => return Ok(answer),
            _ => return Err(AnswerRefusal::OtherQuestion),
        }
        answer.is_truncated = head.flags & IS_TRUNCATED != 0;
        if !answer.is_truncated {
            answer.read_records(&head, &mut reader, question).ok_or(AnswerRefusal::Malformed)?;
        }
        Ok(answer)
    }

    fn empty(code: ResponseCode) -> Self {
        Answer {
            code,
            is_truncated: false,
            has_aliases: false,
            aliases_fail: false,
            addresses: Vec::new(),
            services: Vec::new(),
        }
    }

    fn read_records(
        &mut self,
        head: &MessageHead,
        reader: &mut MessageReader<'_>,
        question: &Question,
    ) -> Option<()> {
        let mut records = Records::default();
        for _ in 0..head.answers {
            records.answer(reader, question.kind)?;
        }
        for _ in 0..head.authorities {
            ResourceRecord::read(reader)?;
        }
        for _ in 0..head.additionals {
            records.additional(reader, question.kind)?;
        }
        if records.extended_code != 0 {
            self.code = ResponseCode::of(records.extended_code << 4 | head.flags & CODE);
        }
        self.has_aliases = !records.aliases.is_empty();
        let Some(name) = records.follow(&question.name) else {
            self.aliases_fail = true;
            return Some(());
        };
        for (owner, value) in records.wanted {
            match value {
                RecordData::Address(address) if owner == name => self.addresses.push(address),
                RecordData::Service(mut service) if owner == name => {
                    service.addresses = records.hosts.get(&service.target).cloned().unwrap_or_default();
                    self.services.push(service);
                }
                _ => {}
            }
        }
        Some(())
    }
}

impl ResponseCode {
    fn of(number: u16) -> Self {
        match number {
            0 => ResponseCode::NoError,
            3 => ResponseCode::NoSuchName,
            5 => ResponseCode::Refused,
            other => ResponseCode::Other(other),
        }
    }
}

struct MessageHead {
    identifier: u16,
    flags: u16,
    questions: u16,
    answers: u16,
    authorities: u16,
    additionals: u16,
}

impl MessageHead {
    fn read(reader: &mut MessageReader<'_>) -> Option<Self> {
        Some(MessageHead {
            identifier: reader.u16()?,
            flags: reader.u16()?,
            questions: reader.u16()?,
            answers: reader.u16()?,
            authorities: reader.u16()?,
            additionals: reader.u16()?,
        })
    }
}

const IS_RESPONSE: u16 = 0x8000;
const OPERATION: u16 = 0x7800;
const IS_TRUNCATED: u16 = 0x0200;
const CODE: u16 = 0x000f;

fn same_question(reader: &mut MessageReader<'_>, question: &Question) -> Result<(), AnswerRefusal> {
    let mut read = || Some((reader.name()?, reader.u16()?, reader.u16()?));
    let (name, kind, class) = read().ok_or(AnswerRefusal::Malformed)?;
    if kind != question.kind.number()
        || class != CLASS_IN
        || !name.as_slice().eq_ignore_ascii_case(question.name.wire())
    {
        return Err(AnswerRefusal::OtherQuestion);
    }
    if name.as_slice() != question.name.wire() {
        return Err(AnswerRefusal::OtherLetters);
    }
    Ok(())
}

/// The records of a message that an answer needs.
#[derive(Default)]
struct Records {
    aliases: Vec<(Name, Name)>,
    wanted: Vec<(Name, RecordData)>,
    /// Addresses of other names in the message.
    hosts: HashMap<Name, Vec<IpAddr>>,
    extended_code: u16,
}

enum RecordData {
    Address(IpAddr),
    Service(ServiceLocation),
}

impl Records {
    fn answer(&mut self, reader: &mut MessageReader<'_>, kind: RecordKind) -> Option<()> {
        let mut record = ResourceRecord::read(reader)?;
        if record.class != CLASS_IN {
            return Some(());
        }
        match record.kind {
            // One alias above the limit is stored, so that too many are detected.
            CNAME if self.aliases.len() <= MOST_ALIASES => {
                let target = record.data.name()?.to_name();
                self.aliases.push((record.owner, target));
            }
            number if number == kind.number() => {
                let value = match kind {
                    RecordKind::A | RecordKind::Aaaa => RecordData::Address(record.address()?),
                    RecordKind::Srv => RecordData::Service(record.service()?),
                };
                self.wanted.push((record.owner, value));
            }
            _ => {}
        }
        Some(())
    }

    fn additional(&mut self, reader: &mut MessageReader<'_>, kind: RecordKind) -> Option<()> {
        let record = ResourceRecord::read(reader)?;
        if record.kind == OPT {
            self.extended_code = (record.ttl >> 24) as u16;
        } else if kind == RecordKind::Srv
            && record.class == CLASS_IN
            && (record.kind == RecordKind::A.number() || record.kind == RecordKind::Aaaa.number())
        {
            let address = record.address()?;
            self.hosts.entry(record.owner).or_default().push(address);
        }
        Some(())
    }

    /// The last alias of a name. `None` if the aliases form a loop or are too many.
    fn follow<'r>(&'r self, name: &'r Name) -> Option<Name> {
        let mut name = name;
        for _ in 0..=MOST_ALIASES {
            match self.aliases.iter().find(|(owner, _)| owner == name) {
                Some((_, target)) => name = target,
                None => return Some(name.clone()),
            }
        }
        None
    }
}

struct ResourceRecord<'m> {
    owner: Name,
    kind: u16,
    class: u16,
    ttl: u32,
    data: MessageReader<'m>,
}

impl<'m> ResourceRecord<'m> {
    fn read(reader: &mut MessageReader<'m>) -> Option<Self> {
        let owner = reader.name()?.to_name();
        let (kind, class, ttl) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let length = reader.u16()?;
        Some(ResourceRecord { owner, kind, class, ttl, data: reader.part(usize::from(length))? })
    }

    fn address(&self) -> Option<IpAddr> {
        let mut data = self.data;
        let address = if self.kind == RecordKind::A.number() {
            IpAddr::V4(Ipv4Addr::from_bits(data.u32()?))
        } else {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(data.take(16)?).ok()?))
        };
        data.is_at_end().then_some(address)
    }

    fn service(&mut self) -> Option<ServiceLocation> {
        let data = &mut self.data;
        let (priority, weight, port) = (data.u16()?, data.u16()?, data.u16()?);
        let target = data.name()?.to_name();
        data.is_at_end().then_some(ServiceLocation { target, port, priority, weight, addresses: Vec::new() })
    }
}

const CNAME: u16 = 5;
const OPT: u16 = 41;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text.as_bytes()).expect("a name")
    }

    /// Builds a message record by record.
    struct MessageBuilder(Vec<u8>);

    impl MessageBuilder {
        fn to(question: &Question, flags: u16) -> Self {
            let mut bytes = vec![0x12, 0x34];
            bytes.extend_from_slice(&(IS_RESPONSE | flags).to_be_bytes());
            bytes.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
            bytes.extend_from_slice(question.name.wire());
            bytes.extend_from_slice(&question.kind.number().to_be_bytes());
            bytes.extend_from_slice(&[0, 1]);
            MessageBuilder(bytes)
        }

        fn record(mut self, count_at: usize, owner: &str, kind: u16, data: &[u8]) -> Self {
            self.0[count_at + 1] += 1;
            let owner = if owner.is_empty() { vec![0] } else { name(owner).wire().to_vec() };
            self.0.extend_from_slice(&owner);
            self.0.extend_from_slice(&kind.to_be_bytes());
            self.0.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
            self.0.extend_from_slice(&u16::try_from(data.len()).expect("little").to_be_bytes());
            self.0.extend_from_slice(data);
            self
        }

        fn answer(self, owner: &str, kind: u16, data: &[u8]) -> Self {
            self.record(6, owner, kind, data)
        }

        fn additional(self, owner: &str, kind: u16, data: &[u8]) -> Self {
            self.record(10, owner, kind, data)
        }

        fn alias(self, owner: &str, target: &str) -> Self {
            self.answer(owner, CNAME, name(target).wire())
        }
    }

    fn question(kind: RecordKind) -> Question {
        Question { name: name("wWw.Example"), kind }
    }

    fn read(message: &MessageBuilder, question: &Question) -> Result<Answer, AnswerRefusal> {
        Answer::read(&message.0, 0x1234, question)
    }

    fn found(message: MessageBuilder) -> Vec<String> {
        let answer = read(&message, &question(RecordKind::A)).expect("an answer");
        answer.addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_answer_has_only_addresses_of_the_requested_name() {
        let sent = question(RecordKind::A);
        let message = MessageBuilder::to(&sent, 0)
            .answer("www.example", 1, &[192, 0, 2, 1])
            .answer("other.example", 1, &[192, 0, 2, 9])
            .answer("WWW.example", 1, &[192, 0, 2, 2])
            .answer("www.example", 28, &[0; 16]);
        assert_eq!(found(message), ["192.0.2.1", "192.0.2.2"]);
        let six = question(RecordKind::Aaaa);
        let message = MessageBuilder::to(&six, 0).answer("www.example", 28, &[1; 16]);
        assert_eq!(read(&message, &six).expect("an answer").addresses, [IpAddr::V6(Ipv6Addr::from([1; 16]))]);
    }

    #[test]
    fn cname_records_are_followed_in_any_order() {
        let message = MessageBuilder::to(&question(RecordKind::A), 0)
            .answer("c.example", 1, &[192, 0, 2, 1])
            .alias("b.example", "c.example")
            .alias("www.example", "b.example");
        assert_eq!(found(message), ["192.0.2.1"]);
        let circle = MessageBuilder::to(&question(RecordKind::A), 0)
            .alias("www.example", "b.example")
            .alias("b.example", "www.example")
            .answer("b.example", 1, &[192, 0, 2, 1]);
        let answer = read(&circle, &question(RecordKind::A)).expect("an answer");
        assert!(answer.aliases_fail && answer.has_aliases && answer.addresses.is_empty());
    }

    #[test]
    fn cname_records_are_followed_up_to_a_limit() {
        let chain = |links: usize| {
            let mut message = MessageBuilder::to(&question(RecordKind::A), 0).alias("www.example", "n0");
            for link in 1..links {
                message = message.alias(&format!("n{}", link - 1), &format!("n{link}"));
            }
            let last = format!("n{}", links - 1);
            read(&message.answer(&last, 1, &[192, 0, 2, 1]), &question(RecordKind::A)).expect("an answer")
        };
        assert_eq!(chain(MOST_ALIASES).addresses.len(), 1);
        assert!(chain(MOST_ALIASES + 1).aliases_fail);
        assert!(chain(60).aliases_fail);
    }

    #[test]
    fn srv_records_are_parsed_with_their_additional_addresses() {
        let sent = question(RecordKind::Srv);
        let service = |priority: u8, weight: u8, port: u8, target: &str| {
            let mut data = vec![0, priority, 0, weight, 0, port];
            data.extend_from_slice(name(target).wire());
            data
        };
        let message = MessageBuilder::to(&sent, 0)
            .answer("www.example", 33, &service(1, 2, 80, "a.example"))
            .answer("www.example", 33, &service(3, 4, 81, "b.example"))
            .additional("A.example", 1, &[192, 0, 2, 1])
            .additional("c.example", 1, &[192, 0, 2, 3])
            .additional("a.example", 28, &[1; 16]);
        let found = read(&message, &sent).expect("an answer").services;
        let [first, second] = &found[..] else { panic!("{found:?}") };
        assert_eq!((first.priority, first.weight, first.port), (1, 2, 80));
        assert_eq!(first.addresses.len(), 2);
        assert_eq!((&second.target, second.addresses.len()), (&name("b.example"), 0));
    }

    #[test]
    fn rejects_dns_messages_that_do_not_answer_the_question() {
        let sent = question(RecordKind::A);
        let good = MessageBuilder::to(&sent, 0).answer("www.example", 1, &[192, 0, 2, 1]);
        assert!(read(&good, &sent).is_ok());
        assert_eq!(Answer::read(&good.0, 0x1235, &sent), Err(AnswerRefusal::OtherIdentifier));
        let other = Question { name: name("other.example"), kind: RecordKind::A };
        assert_eq!(read(&good, &other), Err(AnswerRefusal::OtherQuestion));
        assert_eq!(read(&good, &question(RecordKind::Aaaa)), Err(AnswerRefusal::OtherQuestion));
        let letters = Question { name: name("www.example"), kind: RecordKind::A };
        assert_eq!(read(&good, &letters), Err(AnswerRefusal::OtherLetters));
        let mut query = Vec::new();
        sent.write(0x1234, 512, &mut query);
        assert_eq!(Answer::read(&query, 0x1234, &sent), Err(AnswerRefusal::NotAResponse));
        let update = MessageBuilder::to(&sent, 5 << 11);
        assert_eq!(read(&update, &sent), Err(AnswerRefusal::NotAResponse));
        for length in 0..good.0.len() {
            let refused = Answer::read(&good.0[..length], 0x1234, &sent);
            assert_eq!(refused, Err(AnswerRefusal::Malformed), "{length}");
        }
        let long = MessageBuilder::to(&sent, 0).answer("www.example", 1, &[192, 0, 2, 1, 0]);
        assert_eq!(read(&long, &sent), Err(AnswerRefusal::Malformed));
    }

    #[test]
    fn parses_dns_response_codes_and_the_truncation_flag() {
        let sent = question(RecordKind::A);
        let code = |flags| read(&MessageBuilder::to(&sent, flags), &sent).expect("an answer").code;
        assert_eq!(code(0), ResponseCode::NoError);
        assert_eq!(code(3), ResponseCode::NoSuchName);
        assert_eq!(code(5), ResponseCode::Refused);
        assert_eq!(code(2), ResponseCode::Other(2));
        let mut extended = MessageBuilder::to(&sent, 0).additional("", OPT, &[]);
        let ttl_at = extended.0.len() - 6;
        extended.0[ttl_at] = 1;
        assert_eq!(read(&extended, &sent).expect("an answer").code, ResponseCode::Other(16));
        // A truncated message may end anywhere.
        let mut cut = MessageBuilder::to(&sent, IS_TRUNCATED).answer("www.example", 1, &[192, 0, 2, 1]);
        cut.0.truncate(cut.0.len() - 3);
        let answer = read(&cut, &sent).expect("an answer");
        assert!(answer.is_truncated && answer.addresses.is_empty());
    }

    #[test]
    fn only_an_error_response_may_omit_the_question() {
        let sent = question(RecordKind::A);
        let bare = |code: u8| vec![0x12, 0x34, 0x80, code, 0, 0, 0, 0, 0, 0, 0, 0];
        let code = |code| Answer::read(&bare(code), 0x1234, &sent).map(|answer| answer.code);
        assert_eq!(code(5), Ok(ResponseCode::Refused));
        assert_eq!(code(2), Ok(ResponseCode::Other(2)));
        assert_eq!(code(3), Err(AnswerRefusal::OtherQuestion));
        assert_eq!(code(0), Err(AnswerRefusal::OtherQuestion));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_after_the_question_never_panics(
            counts in proptest::array::uniform6(0_u8..8),
            rest in proptest::collection::vec(any::<u8>(), 0..300),
            kind in 0_usize..3,
        ) {
            let sent = question([RecordKind::A, RecordKind::Aaaa, RecordKind::Srv][kind]);
            let mut message = MessageBuilder::to(&sent, 0).0;
            message[6..12].copy_from_slice(&counts);
            message.extend_from_slice(&rest);
            let _ = Answer::read(&message, 0x1234, &sent);
        }

        #[test]
        fn parses_every_address_of_an_answer(
            addresses in proptest::collection::vec(any::<u32>(), 0..40),
            bits in any::<u64>(),
        ) {
            let sent = Question { name: name("www.example").with_case(bits), kind: RecordKind::A };
            let mut message = MessageBuilder::to(&sent, 0);
            for address in &addresses {
                message = message.answer("www.example", 1, &address.to_be_bytes());
            }
            let expected: Vec<_> = addresses.iter().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(*bits))).collect();
            prop_assert_eq!(read(&message, &sent).expect("an answer").addresses, expected);
        }
    }
}
