//! The handshake of RFC 8448, section 3 ("Simple 1-RTT Handshake"), through our key schedule and our records.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock};

use crate::key_schedule::with_our_schedule;
use crate::record::{DirectionKey, HEADER, Record, RecordContent, RecordLayout};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}

fn schedule() -> &'static dyn Hkdf {
    with_our_schedule(TLS13_AES_128_GCM_SHA256).tls13().expect("TLS 1.3").hkdf_provider
}

/// HKDF-Expand-Label (RFC 8446, 7.1) of a whole hash.
fn expand(secret: &dyn HkdfExpander, label: &[u8], context: &[u8]) -> OkmBlock {
    let length = 6 + label.len() as u8;
    secret.expand_block(&[&[0, 32], &[length], b"tls13 ", label, &[context.len() as u8], context])
}

/// The same of another length, from a secret of traffic.
fn expand_to(length: u8, secret: &OkmBlock, label: &[u8]) -> Vec<u8> {
    let mut out = vec![0; usize::from(length)];
    let info = [&[0, length][..], &[6 + label.len() as u8], b"tls13 ", label, &[0], &[]];
    schedule().expander_for_okm(secret).expand_slice(&info, &mut out).expect("not too long");
    out
}

fn hash(messages: &[&[u8]]) -> Vec<u8> {
    digest(&SHA256, &messages.concat()).as_ref().to_vec()
}

fn direction(secret: &OkmBlock) -> DirectionKey {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("TLS 1.3");
    DirectionKey::of_secret(suite, secret.as_ref()).expect("a suite of ours")
}

/// Decrypts a record, and encrypts its content to the same record with the keys of `twin`.
#[track_caller]
fn open(reader: &mut DirectionKey, twin: &mut DirectionKey, wire: &[u8]) -> (RecordContent, Vec<u8>) {
    let record = Record::first(wire, RecordLayout::Tls13).expect("a record").expect("a whole record");
    assert_eq!(record.len(), wire.len());
    let mut room = vec![0; record.room(RecordLayout::Tls13)];
    let (kind, length) = reader.open(&record, &mut room).expect("a record of these keys");
    room.truncate(length);
    let mut again = vec![0; wire.len()];
    assert_eq!(twin.seal(kind, &room, &mut again), Ok(wire.len()));
    assert_eq!(again, wire);
    (kind, room)
}

#[test]
fn secrets_and_records_equal_the_rfc_8448_trace() {
    let [client_hello, server_hello] = [CLIENT_HELLO, SERVER_HELLO].map(hex);
    let is = |secret: &OkmBlock, expected: &str| assert_eq!(secret.as_ref(), hex(expected));

    let early = schedule().extract_from_zero_ikm(None);
    let derived = expand(&*early, b"derived", &hash(&[]));
    is(&derived, "6f2615a108c702c5678f54fc9dbab69716c076189c48250cebeac3576c3611ba");
    let handshake = schedule().extract_from_secret(Some(derived.as_ref()), &hex(SHARED));
    let hellos = hash(&[&client_hello, &server_hello[HEADER..]]);
    let client = expand(&*handshake, b"c hs traffic", &hellos);
    let server = expand(&*handshake, b"s hs traffic", &hellos);
    is(&client, "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21");
    is(&server, "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38");
    assert_eq!(expand_to(16, &server, b"key"), hex("3fce516009c21727d0f2e4e86ee403bc"));
    assert_eq!(expand_to(12, &server, b"iv"), hex("5d313eb2671276ee13000b30"));
    assert_eq!(expand_to(16, &client, b"key"), hex("dbfaa693d1762c5b666af5d950258d01"));
    assert_eq!(expand_to(12, &client, b"iv"), hex("5bd3c71b836e0b76bb73265f"));

    let (kind, flight) = open(&mut direction(&server), &mut direction(&server), &hex(SERVER_FLIGHT));
    assert_eq!((kind, flight.len(), flight[0]), (RecordContent::Handshake, 657, 8));
    // A Finished message is the last 36 bytes: the HMAC of the messages before it.
    let (signed, finished) = flight.split_at(flight.len() - 36);
    let key = OkmBlock::new(&expand_to(32, &server, b"finished"));
    is(&key, "008d3b66f816ea559f96b537e885c31fc068bf492c652f01f288a1d8cdc19fc8");
    let before = hash(&[&client_hello, &server_hello[HEADER..], signed]);
    assert_eq!(schedule().hmac_sign(&key, &before).as_ref(), &finished[4..]);
    let before = hash(&[&client_hello, &server_hello[HEADER..], &flight]);
    let key = OkmBlock::new(&expand_to(32, &client, b"finished"));
    let (kind, finished) = open(&mut direction(&client), &mut direction(&client), &hex(CLIENT_FINISHED));
    assert_eq!((kind, &finished[..4]), (RecordContent::Handshake, &[20, 0, 0, 32][..]));
    assert_eq!(schedule().hmac_sign(&key, &before).as_ref(), &finished[4..]);

    let derived = expand(&*handshake, b"derived", &hash(&[]));
    is(&derived, "43de77e0c77713859a944db9db2590b53190a65b3ee2e4f12dd7a0bb7ce254b4");
    let master = schedule().extract_from_zero_ikm(Some(derived.as_ref()));
    let client = expand(&*master, b"c ap traffic", &before);
    let server = expand(&*master, b"s ap traffic", &before);
    is(&client, "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
    is(&server, "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
    is(
        &expand(&*master, b"exp master", &before),
        "fe22f881176eda18eb8f44529e6792c50c9a3f89452f68d8ae311b4309d3cf50",
    );
    let whole = hash(&[&client_hello, &server_hello[HEADER..], &flight, &finished]);
    is(
        &expand(&*master, b"res master", &whole),
        "7df235f2031d2a051287d02b0241b0bfdaf86cc856231f2d5aba46c434ec196c",
    );
    assert_eq!(expand_to(16, &server, b"key"), hex("9f02283b6c9c07efc26bb9f2ac92e356"));
    assert_eq!(expand_to(12, &server, b"iv"), hex("cf782b88dd83549aadf1e984"));

    // The data of both sides, and their ends. The server's first record is a ticket.
    let plain: Vec<u8> = (0..50).collect();
    let (mut reader, mut twin) = (direction(&server), direction(&server));
    let (kind, ticket) = open(&mut reader, &mut twin, &hex(TICKET));
    assert_eq!((kind, ticket[0]), (RecordContent::Handshake, 4));
    assert_eq!(open(&mut reader, &mut twin, &hex(SERVER_DATA)), (RecordContent::Data, plain.clone()));
    assert_eq!(open(&mut reader, &mut twin, &hex(SERVER_END)), (RecordContent::Alert, vec![1, 0]));
    let (mut reader, mut twin) = (direction(&client), direction(&client));
    assert_eq!(open(&mut reader, &mut twin, &hex(CLIENT_DATA)), (RecordContent::Data, plain));
    assert_eq!(open(&mut reader, &mut twin, &hex(CLIENT_END)), (RecordContent::Alert, vec![1, 0]));
    assert_eq!((reader.sequence(), twin.sequence()), (2, 2));
}

/// The result of the key exchange.
const SHARED: &str = "8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d";

/// The client's hello, as a message.
const CLIENT_HELLO: &str = "
    010000c00303cb34ecb1e78163ba1c38c6dacb196a6dffa21a8d9912ec18a2ef6283024dece7000006130113031302010000910000000b
    0009000006736572766572ff01000100000a00140012001d0017001800190100010101020103010400230000003300260024001d002099
    381de560e4bd43d23d8e435a7dbafeb3c06e51c13cae4d5413691e529aaf2c002b0003020304000d0020001e0403050306030203080408
    05080604010501060102010402050206020202002d00020101001c00024001";

/// The server's hello, as a record.
const SERVER_HELLO: &str = "
    160303005a020000560303a6af06a4121860dc5e6e60249cd34c95930c8ac5cb1434dac155772ed3e2692800130100002e00330024001d
    0020c9828876112095fe66762bdbf7c672e156d6cc253b833df1dd69b1b04e751f0f002b00020304";

/// The rest of the server's handshake.
const SERVER_FLIGHT: &str = "
    17 03 03 02 a2 d1 ff 33 4a 56 f5 bf f6 59 4a 07 cc 87 b5 80 23 3f 50 0f
    45 e4 89 e7 f3 3a f3 5e df 78 69 fc f4 0a a4 0a a2 b8 ea 73 f8 48 a7 ca
    07 61 2e f9 f9 45 cb 96 0b 40 68 90 51 23 ea 78 b1 11 b4 29 ba 91 91 cd
    05 d2 a3 89 28 0f 52 61 34 aa dc 7f c7 8c 4b 72 9d f8 28 b5 ec f7 b1 3b
    d9 ae fb 0e 57 f2 71 58 5b 8e a9 bb 35 5c 7c 79 02 07 16 cf b9 b1 18 3e
    f3 ab 20 e3 7d 57 a6 b9 d7 47 76 09 ae e6 e1 22 a4 cf 51 42 73 25 25 0c
    7d 0e 50 92 89 44 4c 9b 3a 64 8f 1d 71 03 5d 2e d6 5b 0e 3c dd 0c ba e8
    bf 2d 0b 22 78 12 cb b3 60 98 72 55 cc 74 41 10 c4 53 ba a4 fc d6 10 92
    8d 80 98 10 e4 b7 ed 1a 8f d9 91 f0 6a a6 24 82 04 79 7e 36 a6 a7 3b 70
    a2 55 9c 09 ea d6 86 94 5b a2 46 ab 66 e5 ed d8 04 4b 4c 6d e3 fc f2 a8
    94 41 ac 66 27 2f d8 fb 33 0e f8 19 05 79 b3 68 45 96 c9 60 bd 59 6e ea
    52 0a 56 a8 d6 50 f5 63 aa d2 74 09 96 0d ca 63 d3 e6 88 61 1e a5 e2 2f
    44 15 cf 95 38 d5 1a 20 0c 27 03 42 72 96 8a 26 4e d6 54 0c 84 83 8d 89
    f7 2c 24 46 1a ad 6d 26 f5 9e ca ba 9a cb bb 31 7b 66 d9 02 f4 f2 92 a3
    6a c1 b6 39 c6 37 ce 34 31 17 b6 59 62 22 45 31 7b 49 ee da 0c 62 58 f1
    00 d7 d9 61 ff b1 38 64 7e 92 ea 33 0f ae ea 6d fa 31 c7 a8 4d c3 bd 7e
    1b 7a 6c 71 78 af 36 87 90 18 e3 f2 52 10 7f 24 3d 24 3d c7 33 9d 56 84
    c8 b0 37 8b f3 02 44 da 8c 87 c8 43 f5 e5 6e b4 c5 e8 28 0a 2b 48 05 2c
    f9 3b 16 49 9a 66 db 7c ca 71 e4 59 94 26 f7 d4 61 e6 6f 99 88 2b d8 9f
    c5 08 00 be cc a6 2d 6c 74 11 6d bd 29 72 fd a1 fa 80 f8 5d f8 81 ed be
    5a 37 66 89 36 b3 35 58 3b 59 91 86 dc 5c 69 18 a3 96 fa 48 a1 81 d6 b6
    fa 4f 9d 62 d5 13 af bb 99 2f 2b 99 2f 67 f8 af e6 7f 76 91 3f a3 88 cb
    56 30 c8 ca 01 e0 c6 5d 11 c6 6a 1e 2a c4 c8 59 77 b7 c7 a6 99 9b bf 10
    dc 35 ae 69 f5 51 56 14 63 6c 0b 9b 68 c1 9e d2 e3 1c 0b 3b 66 76 30 38
    eb ba 42 f3 b3 8e dc 03 99 f3 a9 f2 3f aa 63 97 8c 31 7f c9 fa 66 a7 3f
    60 f0 50 4d e9 3b 5b 84 5e 27 55 92 c1 23 35 ee 34 0b bc 4f dd d5 02 78
    40 16 e4 b3 be 7e f0 4d da 49 f4 b4 40 a3 0c b5 d2 af 93 98 28 fd 4a e3
    79 4e 44 f9 4d f5 a6 31 ed e4 2c 17 19 bf da bf 02 53 fe 51 75 be 89 8e
    75 0e dc 53 37 0d 2b";

/// The end of the client's handshake.
const CLIENT_FINISHED: &str = "
    17 03 03 00 35 75 ec 4d c2 38 cc e6 0b 29 80 44 a7 1e 21 9c 56 cc 77 b0
    51 7f e9 b9 3c 7a 4b fc 44 d8 7f 38 f8 03 38 ac 98 fc 46 de b3 84 bd 1c
    ae ac ab 68 67 d7 26 c4 05 46";

/// A ticket of the server.
const TICKET: &str = "
    17 03 03 00 de 3a 6b 8f 90 41 4a 97 d6 95 9c 34 87 68 0d e5 13 4a 2b 24
    0e 6c ff ac 11 6e 95 d4 1d 6a f8 f6 b5 80 dc f3 d1 1d 63 c7 58 db 28 9a
    01 59 40 25 2f 55 71 3e 06 1d c1 3e 07 88 91 a3 8e fb cf 57 53 ad 8e f1
    70 ad 3c 73 53 d1 6d 9d a7 73 b9 ca 7f 2b 9f a1 b6 c0 d4 a3 d0 3f 75 e0
    9c 30 ba 1e 62 97 2a c4 6f 75 f7 b9 81 be 63 43 9b 29 99 ce 13 06 46 15
    13 98 91 d5 e4 c5 b4 06 f1 6e 3f c1 81 a7 7c a4 75 84 00 25 db 2f 0a 77
    f8 1b 5a b0 5b 94 c0 13 46 75 5f 69 23 2c 86 51 9d 86 cb ee ac 87 aa c3
    47 d1 43 f9 60 5d 64 f6 50 db 4d 02 3e 70 e9 52 ca 49 fe 51 37 12 1c 74
    bc 26 97 68 7e 24 87 46 d6 df 35 30 05 f3 bc e1 86 96 12 9c 81 53 55 6b
    3b 6c 67 79 b3 7b f1 59 85 68 4f";

/// 50 bytes of data.
const CLIENT_DATA: &str = "
    17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea
    42 f9 14 aa 66 bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b
    62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4";

/// The same bytes.
const SERVER_DATA: &str = "
    17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc
    32 25 d0 5f 82 aa 1b 36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8
    fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3 32 54 0d d0 32 e1 67 c2 95 5d";

/// `close_notify`.
const CLIENT_END: &str = "17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3";

/// `close_notify`.
const SERVER_END: &str = "17 03 03 00 13 b5 8f d6 71 66 eb f5 99 d2 47 20 cf be 7e fa 7a 88 64 a9";
