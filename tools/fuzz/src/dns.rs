//! DNS messages.

use weir_dns::{Answer, Name, Question, RecordKind};

/// Parses a message as the answer to one of three questions, with any identifier. The records found must fit in its
/// length. An answer to another question, or with another identifier, must be rejected.
pub fn dns_answer(bytes: &[u8]) {
    let name = Name::parse(b"a.example").expect("a name");
    let identifier = bytes.first_chunk().map_or(0, |first| u16::from_be_bytes(*first));
    for kind in [RecordKind::A, RecordKind::Aaaa, RecordKind::Srv] {
        let question = Question { name: name.clone(), kind };
        let Ok(answer) = Answer::read(bytes, identifier, &question) else { continue };
        // An address record has 14 bytes besides its owner, a service record 17.
        assert!(answer.addresses.len() * 15 <= bytes.len());
        assert!(answer.services.len() * 18 <= bytes.len());
        let is_of_kind = |address: &std::net::IpAddr| address.is_ipv4() == (kind == RecordKind::A);
        assert!(answer.addresses.iter().all(is_of_kind));
        assert!(kind != RecordKind::Srv || answer.addresses.is_empty());
        assert!(!answer.aliases_fail || answer.addresses.is_empty());
        assert!(!answer.aliases_fail || answer.has_aliases);
        for service in &answer.services {
            assert!(service.target.wire().len() <= Name::LONGEST);
        }
        assert!(Answer::read(bytes, identifier.wrapping_add(1), &question).is_err());
    }
}
