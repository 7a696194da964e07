//! Reading and editing, on heads indexed by hand.

use super::*;

/// Indexes `name: value` lines after a start line of three words, as a parser would.
fn index(kind: Kind, raw: &str) -> Head {
    let mut head = Head::new();
    let mut at = 0;
    for (number, line) in raw.split_inclusive("\r\n").enumerate() {
        let text = line.trim_end();
        if number == 0 {
            let first = text.find(' ').unwrap();
            let second = first + 1 + text[first + 1..].find(' ').unwrap();
            let parts = [
                MessageSpan::raw(0, first),
                MessageSpan::raw(first + 1, second),
                MessageSpan::raw(second + 1, text.len()),
            ];
            match kind {
                Kind::Request => {
                    head.begin_request(0, parts[0], parts[1], parts[2]);
                    head.note_method(Method::from_bytes(parts[0].of(raw.as_bytes(), &[])));
                }
                Kind::Response => {
                    head.begin_response(0, parts[0], parts[1], parts[2]);
                    head.note_status(text[first + 1..second].parse().unwrap());
                }
            }
        } else if let Some((name, value)) = text.split_once(": ") {
            let start = at + name.len() + 2;
            head.push_field(Field {
                name: MessageSpan::raw(at, at + name.len()),
                value: MessageSpan::raw(start, start + value.len()),
                known: KnownName::from_bytes(name.as_bytes()),
            })
            .unwrap();
        }
        at += line.len();
    }
    head.finish(at);
    head
}

const REQUEST: &str = "GET /a?b HTTP/1.1\r\nHost: h\r\nX-List: a, \"b,c\"\r\nx-other: y\r\nx-list: d\r\n\r\n";

#[track_caller]
fn check(edit: impl Fn(&mut Head, &[u8]) -> Result<(), NoRoom>, want: &str) {
    let raw = REQUEST.as_bytes();
    let mut head = index(Kind::Request, REQUEST);
    edit(&mut head, raw).unwrap();
    let mut out = Vec::new();
    head.write(raw, &mut out);
    assert_eq!(std::str::from_utf8(&out).unwrap(), want);
    assert_eq!(head.written_len(raw), out.len());
    assert_eq!(head.is_edited(), want != REQUEST);
}

#[test]
fn field_values_are_found_by_occurrence() {
    let raw = REQUEST.as_bytes();
    let head = index(Kind::Request, REQUEST);
    let value = |occurrence| head.find(raw, b"X-LIST", occurrence).map(|text| str::from_utf8(text).unwrap());
    let wants = [(1, Some("a")), (2, Some("\"b,c\"")), (3, Some("d")), (4, None)];
    let wants_back = [(-1, Some("d")), (-2, Some("\"b,c\"")), (-3, Some("a")), (-4, None), (0, Some("d"))];
    for (occurrence, want) in wants.into_iter().chain(wants_back) {
        assert_eq!(value(occurrence), want, "{occurrence}");
    }
    let line =
        |occurrence| head.find_line(raw, b"x-list", occurrence).map(|text| str::from_utf8(text).unwrap());
    assert_eq!([line(1), line(2), line(3)], [Some("a, \"b,c\""), Some("d"), None]);
    assert_eq!([line(-1), line(-2), line(-3)], [Some("d"), Some("a, \"b,c\""), None]);
    assert_eq!(line(i32::MIN), None);
    assert_eq!((head.count_values(raw, b"x-list"), head.count_lines(raw, b"x-list")), (3, 2));
    assert_eq!((head.count_values(raw, b""), head.count_lines(raw, b"")), (5, 4));
    assert_eq!(head.find_known(raw, KnownName::Host), Some(&b"h"[..]));
    assert_eq!(head.positions(raw, b"x-list").collect::<Vec<_>>(), [1, 3]);
    assert!(head.has(raw, b"X-Other") && !head.has(raw, b"x-othe"));
    assert_eq!((head.path(raw), head.query(raw)), (&b"/a"[..], Some(&b"b"[..])));
}

#[test]
fn edits_leave_the_rest_of_a_head_unchanged() {
    check(|_, _| Ok(()), REQUEST);
    check(|head, _| head.set_method(b"POST"), &REQUEST.replace("GET", "POST"));
    check(|head, raw| head.set_path(raw, b"/new"), &REQUEST.replace("/a?b", "/new?b"));
    check(|head, raw| head.set_query(raw, b"q"), &REQUEST.replace("/a?b", "/a?q"));
    check(|head, raw| head.set_query(raw, b""), &REQUEST.replace("/a?b", "/a?"));
    check(
        |head, raw| {
            head.set_uri(b"relative?b")?;
            head.set_path(raw, b"/new")
        },
        &REQUEST.replace("/a?b", "/new"),
    );
    check(|head, raw| head.set_path_and_query(raw, b"/x?y"), &REQUEST.replace("/a?b", "/x?y"));
    check(|head, _| head.set_uri(b"*"), &REQUEST.replace("/a?b", "*"));
    check(|head, _| head.set_version(Version::HTTP_10), &REQUEST.replace("/1.1", "/1.0"));
    check(|head, _| head.add(b"New", b"1"), &REQUEST.replace("\r\n\r\n", "\r\nNew: 1\r\n\r\n"));
    check(|head, _| head.insert(0, b"New", b"1"), &REQUEST.replace("Host", "New: 1\r\nHost"));
    check(
        |head, raw| head.set(raw, b"x-list", b"z"),
        "GET /a?b HTTP/1.1\r\nHost: h\r\nx-other: y\r\nx-list: z\r\n\r\n",
    );
    check(
        |head, raw| {
            assert_eq!(head.remove_matching(raw, |name| name.starts_with(b"x")), 2);
            assert_eq!(head.remove(raw, b"HOST"), 1);
            assert_eq!(head.remove(raw, b"HOST"), 0);
            Ok(())
        },
        "GET /a?b HTTP/1.1\r\nX-List: a, \"b,c\"\r\n\r\n",
    );
    check(|head, _| head.replace_value(2, b"zz"), &REQUEST.replace(": y", ": zz"));
    check(|head, _| head.rename(0, b"X-Host"), &REQUEST.replace("Host", "X-Host"));
    check(|head, raw| head.splice_value(raw, 1, 3, 8, b"B"), &REQUEST.replace("\"b,c\"", "B"));
}

/// RFC 9110, 5.5: no value that a rule sets adds a line to the head.
#[test]
fn edited_values_cannot_add_lines_to_a_head() {
    check(|head, _| head.replace_value(2, b"a\r\nb\0c"), &REQUEST.replace(": y", ": a  b c"));
    check(|head, raw| head.splice_value(raw, 1, 3, 8, b"\nB"), &REQUEST.replace("\"b,c\"", " B"));
    check(
        |head, raw| head.set(raw, b"host", b"h\r\nx: y"),
        "GET /a?b HTTP/1.1\r\nX-List: a, \"b,c\"\r\nx-other: y\r\nx-list: d\r\nhost: h  x: y\r\n\r\n",
    );
    check(|head, raw| head.set_path(raw, b"/\n"), &REQUEST.replace("/a?", "/ ?"));
    check(|head, raw| head.splice_uri(raw, 1, 2, b"\r"), &REQUEST.replace("/a?", "/ ?"));
}

#[test]
fn several_edits_of_one_head_accumulate() {
    check(
        |head, raw| {
            head.set_path(raw, b"/one")?;
            head.set_query(raw, b"two")?;
            head.set_path(raw, b"/three")?;
            head.replace_value(0, b"abc")?;
            head.splice_value(raw, 0, 1, 2, b"BB")
        },
        &REQUEST.replace("/a?b", "/three?two").replace("Host: h", "Host: aBBc"),
    );
}

#[test]
fn status_and_reason_of_a_response_are_edited() {
    let raw = "HTTP/1.1 200 OK\r\nServer: s\r\n\r\n";
    let mut head = index(Kind::Response, raw);
    head.set_status(503).unwrap();
    head.set_reason(b"No").unwrap();
    head.set_method(b"GET").unwrap();
    assert_eq!(
        (head.status(), head.reason(raw.as_bytes()), head.uri(raw.as_bytes())),
        (503, &b"No"[..], &b""[..])
    );
    let mut out = Vec::new();
    head.write(raw.as_bytes(), &mut out);
    assert_eq!(out, b"HTTP/1.1 503 No\r\nServer: s\r\n\r\n");
}

#[test]
fn upgrade_returns_the_first_protocol_that_connect_can_name_rfc_8441_4() {
    let upgrade = HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE;
    for (value, flags, protocol) in [
        (&b"websocket"[..], upgrade, Some(&b"websocket"[..])),
        (b"custom, other", upgrade, Some(b"custom")),
        (b"h2c", upgrade, None),
        (b"H2C", upgrade, None),
        (b"TLS/1.0", upgrade, None),
        (b"", upgrade, None),
        (b"custom", HeadFlags::HAS_UPGRADE, None),
    ] {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", Version::HTTP_11).expect("room");
        head.add(b"upgrade", value).expect("room");
        head.note(flags);
        assert_eq!(head.upgrade(b""), protocol, "{}", value.escape_ascii());
    }
}

#[test]
fn heads_without_received_bytes_are_written_from_their_edits() {
    let mut head = Head::new();
    head.start_request(b"OPTIONS", b"*", Version::HTTP_10).unwrap();
    head.add(b"host", b"h").unwrap();
    let mut out = Vec::new();
    head.write(&[], &mut out);
    assert_eq!(out, b"OPTIONS * HTTP/1.0\r\nhost: h\r\n\r\n");
    head.start_response(Version::HTTP_11, 200, b"OK").unwrap();
    out.clear();
    head.write(&[], &mut out);
    assert_eq!(out, b"HTTP/1.1 200 OK\r\n\r\n");
}

#[test]
fn the_size_of_head_edits_is_limited() {
    let raw = REQUEST.as_bytes();
    let mut head = index(Kind::Request, REQUEST);
    head.limit_edits(8);
    assert_eq!(head.add(b"12345", b"6789"), Err(NoRoom));
    assert_eq!(head.set(raw, b"host", b"12345"), Err(NoRoom));
    assert_eq!(head.set_path(raw, b"/1234567"), Err(NoRoom));
    assert!(!head.is_edited());
    assert_eq!(head.add(b"1234", b"5678"), Ok(()));
    assert_eq!(head.count_lines(raw, b"host"), 1);
}

#[test]
fn field_names_are_written_in_the_configured_case() {
    let mut map = crate::CaseMap::default();
    map.insert(b"X-LIST");
    let mut out = Vec::new();
    index(Kind::Request, REQUEST).write_adjusted(REQUEST.as_bytes(), Some(&map), &mut out);
    let want = REQUEST.replace("X-List", "X-LIST").replace("x-list", "X-LIST");
    assert_eq!(std::str::from_utf8(&out).unwrap(), want);
}

#[test]
fn a_cleared_head_equals_a_new_one() {
    let mut head = index(Kind::Request, REQUEST);
    head.add(b"a", b"b").unwrap();
    head.note(HeadFlags::MUST_REWRITE);
    head.clear();
    assert!(head.is_empty() && !head.is_edited());
    assert_eq!((head.end(), head.content_length(), head.host_count()), (0, None, 0));
}

#[test]
fn spans_outside_of_the_given_bytes_are_empty() {
    let head = index(Kind::Request, REQUEST);
    assert_eq!(head.uri(b"GET"), b"");
    assert_eq!(head.raw_bytes(b"GET"), b"");
    assert!(head.fields(b"").all(|(name, value)| name.is_empty() && value.is_empty()));
}

/// The limit of length holds, however often the same field is set again.
#[test]
fn a_head_has_a_length_limit_for_all_its_edits() {
    let text = "GET / HTTP/1.1\r\na: 1\r\n\r\n";
    let (raw, mut head) = (text.as_bytes(), index(Kind::Request, text));
    head.limit_length(raw.len() + 10);
    for _ in 0..10 {
        assert_eq!(head.set(raw, b"bcd", b"123"), Ok(()));
    }
    assert_eq!(head.written_len(raw), raw.len() + 10);
    assert_eq!(head.add(b"", b""), Err(NoRoom));
    assert_eq!(head.set(raw, b"bcd", b"1234"), Err(NoRoom));
    assert_eq!(head.set(raw, b"bcd", b"12"), Ok(()));
    assert_eq!(head.set_path(raw, b"/x"), Ok(()));
    assert_eq!(head.set_path(raw, b"/xy"), Err(NoRoom));
}

/// As many edits as there are fields, on a head that is full by the cheap estimate: it is measured once, not once an
/// edit.
#[test]
fn edits_of_many_fields_measure_a_head_once() {
    const COUNT: usize = 900;
    let raw = format!("GET / HTTP/1.1\r\n{}\r\n", "Cookie: a=1\r\nX: y\r\n".repeat(COUNT));
    let long = || {
        let mut head = Head::with_limits(u16::MAX, 1 << 20);
        let small = index(Kind::Request, "GET / HTTP/1.1\r\n\r\n");
        head.begin_request(0, small.start_line[0], small.start_line[1], small.start_line[2]);
        let mut at = 16;
        for line in raw[16..].split_inclusive("\r\n").take_while(|line| line.len() > 2) {
            let name = line.find(':').unwrap();
            head.push_field(Field {
                name: MessageSpan::raw(at, at + name),
                value: MessageSpan::raw(at + name + 2, at + line.len() - 2),
                known: KnownName::from_bytes(&line.as_bytes()[..name]),
            })
            .unwrap();
            at += line.len();
        }
        head.finish(raw.len());
        head.limit_length(raw.len() + 3000);
        head
    };
    let measured = |work: &dyn Fn(&mut Head)| {
        let mut head = long();
        let before = edit::MEASURED.get();
        work(&mut head);
        let count = edit::MEASURED.get() - before;
        // The kept length equals the sum of a walk over the fields.
        let kept = head.length;
        assert!(kept == 0 || kept as usize == head.written_len(raw.as_bytes()), "{kept}");
        count
    };
    let bytes = raw.as_bytes();
    assert!(measured(&|head| (0..head.len()).for_each(|at| head.replace_value(at, b"zzz").unwrap())) <= 1);
    assert!(measured(&|head| (0..head.len()).for_each(|at| head.rename(at, b"N").unwrap())) <= 1);
    assert!(
        measured(&|head| (0..head.len()).for_each(|at| head.splice_value(bytes, at, 0, 1, b"z").unwrap()))
            <= 1
    );
    assert!(measured(&|head| (0..head.len()).for_each(|at| head.narrow_value(at, 1))) <= 1);
    assert!(
        measured(&|head| while !head.is_empty() {
            head.remove_at(head.len() - 1)
        }) <= 1
    );
    for edit in [ValueEdit::Keep, ValueEdit::Remove, ValueEdit::Replace(b"b=2".to_vec())] {
        let walk = |head: &mut Head| {
            let mut seen = 0;
            head.edit_values(bytes, KnownName::Cookie, |value| {
                assert_eq!(value, b"a=1");
                seen += 1;
                edit.clone()
            })
            .unwrap();
            assert_eq!(seen, COUNT);
            let left = if edit == ValueEdit::Remove { COUNT } else { 2 * COUNT };
            assert_eq!(head.len(), left);
            assert_eq!(head.count_lines(bytes, b"x"), COUNT);
        };
        assert_eq!(measured(&walk), 1);
    }
}

#[test]
fn edit_values_keeps_the_field_order_and_stops_at_the_edit_limit() {
    let raw = "GET / HTTP/1.1\r\nCookie: a\r\nX: 1\r\nCookie: b\r\nCookie: c\r\nX: 2\r\nCookie: d\r\n\r\n";
    let edited = |room: u32| {
        let mut head = index(Kind::Request, raw);
        head.limit_edits(room);
        let outcome = head.edit_values(raw.as_bytes(), KnownName::Cookie, |value| match value {
            b"a" => ValueEdit::Remove,
            b"b" => ValueEdit::Keep,
            _ => ValueEdit::Replace([value, b"!"].concat()),
        });
        let values: Vec<_> = head.fields(raw.as_bytes()).map(|(_, value)| value.to_vec()).collect();
        (outcome, String::from_utf8(values.join(&b","[..])).unwrap())
    };
    assert_eq!(edited(100), (Ok(()), "1,b,c!,2,d!".to_owned()));
    assert_eq!(edited(3), (Err(NoRoom), "1,b,c!,2,d".to_owned()));
}

#[test]
fn position_from_finds_the_first_field_at_or_after_its_argument() {
    let head = index(Kind::Request, REQUEST);
    let raw = REQUEST.as_bytes();
    for (from, want) in [(0, Some(1)), (1, Some(1)), (2, Some(3)), (3, Some(3)), (4, None), (9, None)] {
        assert_eq!(head.position_from(raw, b"x-LIST", KnownName::Other, from), want, "{from}");
    }
}

#[test]
fn received_lines_returns_field_values_of_the_raw_head() {
    let raw = b"GET / HTTP/1.1\r\nCookie: a=1\r\nCookies: x\r\ncookie:b=2 \r\nX: cookie: c\r\n\r\n";
    let lines = received_lines(raw, b"cookie").collect::<Vec<_>>();
    assert_eq!(lines, [&b"a=1"[..], b"b=2"]);
}

/// No path that a rule sets changes the host.
#[test]
fn set_path_of_an_absolute_target_adds_a_leading_slash() {
    for (target, path, want, both) in [
        ("http://h/a?b", "x", "http://h/x?b", "http://h/x"),
        ("http://h/a?b", "", "http://h/?b", "http://h/"),
        ("http://h/a?b", "?c", "http://h/?c?b", "http://h/?c"),
        ("http://h/a?b", "@evil/", "http://h/@evil/?b", "http://h/@evil/"),
        ("http://h/a?b", "/x", "http://h/x?b", "http://h/x"),
        ("http://h", ".evil", "http://h/.evil", "http://h/.evil"),
        ("/a?b", "x", "x?b", "x"),
    ] {
        let raw = format!("GET {target} HTTP/1.1\r\n\r\n");
        let mut head = index(Kind::Request, &raw);
        head.set_path(raw.as_bytes(), path.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(head.uri(raw.as_bytes())), want);
        let mut head = index(Kind::Request, &raw);
        head.set_path_and_query(raw.as_bytes(), path.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(head.uri(raw.as_bytes())), both);
    }
}

#[test]
fn an_h2_request_target_is_written_in_origin_form_for_http_1() {
    for (method, target, want) in [
        ("GET", "https://h/a?b", "GET /a?b HTTP/1.1"),
        ("GET", "/a", "GET /a HTTP/1.1"),
        ("GET", "https://h", "GET / HTTP/1.1"),
        ("OPTIONS", "https://h", "OPTIONS * HTTP/1.1"),
        ("OPTIONS", "*", "OPTIONS * HTTP/1.1"),
        ("CONNECT", "h:443", "CONNECT h:443 HTTP/1.1"),
    ] {
        let mut head = Head::new();
        head.start_request(method.as_bytes(), target.as_bytes(), Version::HTTP_20).expect("room");
        head.add(b"host", b"h").expect("room");
        let mut written = Vec::new();
        head.write(&[], &mut written);
        assert_eq!(String::from_utf8_lossy(&written), format!("{want}\r\nhost: h\r\n\r\n"));
        assert_eq!(head.written_len(&[]), written.len());
        assert_eq!(head.uri(&[]), target.as_bytes(), "who looks sees what came");
    }
}
