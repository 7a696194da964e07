//! The examples of RFC 7541, appendix C, and invalid blocks.

use super::*;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits: Vec<u32> = hexadecimal.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// The fields of a block, a line each.
fn lines(decoder: &mut Decoder, block: &[u8]) -> Result<String, Error> {
    let mut text = String::new();
    let used = decoder.decode(block, |field| {
        assert_eq!(field.token, Token::of(field.name));
        let [name, value] = [field.name, field.value].map(String::from_utf8_lossy);
        text += &format!("{name}: {value}{}\n", if field.sensitive { " !" } else { "" });
    })?;
    assert_eq!(used, block.len(), "all of it is fields");
    decoder.end_block();
    Ok(text)
}

/// Blocks of one connection, the fields of each, and the table's size then.
#[track_caller]
fn check(limit: usize, blocks: &[(&str, &str, usize)]) {
    let mut decoder = Decoder::new(limit, 4096);
    for (block, want, size) in blocks {
        let found = lines(&mut decoder, &bytes(block)).expect("a block");
        assert_eq!(found.trim_end(), want.replace(" | ", "\n"));
        assert_eq!(decoder.table.size(), *size);
    }
}

#[test]
fn decodes_single_fields_rfc_7541_c_2() {
    check(4096, &[("400a637573746f6d2d6b65790d637573746f6d2d686561646572", "custom-key: custom-header", 55)]);
    check(4096, &[("040c2f73616d706c652f70617468", ":path: /sample/path", 0)]);
    check(4096, &[("100870617373776f726406736563726574", "password: secret !", 0)]);
    check(4096, &[("82", ":method: GET", 0)]);
}

const REQUESTS: [&str; 3] = [
    ":method: GET | :scheme: http | :path: / | :authority: www.example.com",
    ":method: GET | :scheme: http | :path: / | :authority: www.example.com | cache-control: no-cache",
    ":method: GET | :scheme: https | :path: /index.html | :authority: www.example.com | custom-key: custom-value",
];

#[test]
fn decodes_requests_rfc_7541_c_3_and_c_4() {
    check(
        4096,
        &[
            ("828684410f7777772e6578616d706c652e636f6d", REQUESTS[0], 57),
            ("828684be58086e6f2d6361636865", REQUESTS[1], 110),
            ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", REQUESTS[2], 164),
        ],
    );
    check(
        4096,
        &[
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", REQUESTS[0], 57),
            ("828684be5886a8eb10649cbf", REQUESTS[1], 110),
            ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", REQUESTS[2], 164),
        ],
    );
}

#[test]
fn decodes_responses_that_evict_entries_rfc_7541_c_5_and_c_6() {
    let fields =
        "cache-control: private | date: Mon, 21 Oct 2013 20:13:21 GMT | location: https://www.example.com";
    let first = format!(":status: 302 | {fields}");
    let second = format!(":status: 307 | {fields}");
    let third = ":status: 200 | cache-control: private | date: Mon, 21 Oct 2013 20:13:22 GMT | location: https://www.example.com | \
                 content-encoding: gzip | set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    check(
        256,
        &[
            (
                "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
                &first,
                222,
            ),
            ("4803333037c1c0bf", &second, 222),
            (
                "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
                third,
                215,
            ),
        ],
    );
    check(
        256,
        &[
            (
                "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
                &first,
                222,
            ),
            ("4883640effc1c0bf", &second, 222),
            (
                "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
                third,
                215,
            ),
        ],
    );
}

#[track_caller]
fn refused(limit: usize, block: &str, why: Error) {
    let mut decoder = Decoder::new(limit, 64);
    assert_eq!(lines(&mut decoder, &bytes(block)), Err(why), "{block}");
}

#[test]
fn rejects_invalid_hpack_blocks_with_the_reason() {
    refused(4096, "80", Error::Index);
    refused(4096, "be", Error::Index);
    refused(4096, "7f0001 61", Error::Index);
    refused(4096, "ff80808080 00", Error::Integer);
    // A name of 65 bytes with a limit of 64, refused by its length alone.
    refused(4096, "4041", Error::TooLong);
    refused(4096, "408100 00", Error::Huffman);
    // The end symbol in full.
    refused(4096, "4084ffffffff00", Error::Huffman);
    refused(4096, "3fe21f", Error::TableSize);
    refused(64, "3f22", Error::TableSize);
    refused(4096, "8220", Error::TableSize);
    let mut decoder = Decoder::new(4096, 64);
    assert_eq!(
        lines(&mut decoder, &bytes("3f013fe11f82")).as_deref(),
        Ok(":method: GET\n"),
        "two sizes in front"
    );
}

#[test]
fn dynamic_table_entries_keep_the_defects_of_their_fields() {
    let mut decoder = Decoder::new(4096, 64);
    let mut defects = Vec::new();
    // A name in upper case and a value with a line break, both as text and by their indices.
    let block = bytes("4001410162 40016103620a63 be bf 7e0164");
    let used = decoder.decode(&block, |field| defects.push(field.defect)).expect("a block");
    assert_eq!(used, block.len());
    let (name, value) = (Some(Defect::UpperCase), Some(Defect::Value));
    assert_eq!(defects, [name, value, value, name, None], "only a name is taken from an entry");
}

#[test]
fn an_hpack_block_decodes_the_same_in_any_two_pieces() {
    let blocks = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for cut in 0..48 {
        let mut decoder = Decoder::new(4096, 4096);
        for (block, want) in blocks.iter().zip(REQUESTS) {
            let block = bytes(block);
            let mut text = Vec::new();
            let mut show = |field: DecodedField<'_>| {
                text.push(format!("{}: {}", field.name.escape_ascii(), field.value.escape_ascii()));
            };
            let used = decoder.decode(&block[..cut.min(block.len())], &mut show).expect("a piece");
            assert_eq!(decoder.decode(&block[used..], &mut show), Ok(block.len() - used));
            decoder.end_block();
            assert_eq!(text.join(" | "), want, "cut at {cut}");
        }
    }
}
