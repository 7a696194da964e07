//! OCSP responses from the openssl command.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_syntax::{MemoryFiles, SharedFiles};
use weir_tls::clock::UnixTime;
use weir_tls::ocsp::{CertId, OcspResponse};
use weir_tls::{CertificateLoader, CertificateParts, pem};

fn openssl(folder: &Path, arguments: &str) {
    let done = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the openssl command");
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A folder with an authority, its certificate in `site.pem`, and an OCSP request for that certificate.
fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        at,
        &format!("req -x509 {curve} -keyout ca.key -out ca.pem -days 30 -subj /O=tests/CN=authority"),
    );
    openssl(at, &format!("req {curve} -keyout site.key -out site.req -subj /CN=one.example"));
    openssl(at, "x509 -req -in site.req -CA ca.pem -CAkey ca.key -set_serial 4106 -out site.crt -days 30");
    openssl(at, "ocsp -issuer ca.pem -cert site.crt -no_nonce -reqout question");
    let [certificate, key] =
        ["site.crt", "site.key"].map(|name| fs::read_to_string(at.join(name)).expect("a file"));
    fs::write(at.join("site.pem"), certificate + &key).expect("a file");
    folder
}

/// A loader for the current contents of the folder.
fn loader(folder: &Path) -> CertificateLoader {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = |path: std::path::PathBuf| {
        (path.to_str().expect("a path").to_owned(), fs::read(&path).expect("a file"))
    };
    CertificateLoader {
        files: SharedFiles::new(paths.map(file).collect::<MemoryFiles>()),
        ..CertificateLoader::default()
    }
}

/// The authority's response when its index contains this line.
fn answer(folder: &Path, line: &str, more: &str) -> Vec<u8> {
    fs::write(folder.join("index"), format!("{line}\n")).expect("a file");
    fs::write(folder.join("index.attr"), "").expect("a file");
    openssl(
        folder,
        &format!(
            "ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -reqin question -respout answer{more}"
        ),
    );
    fs::read(folder.join("answer")).expect("an answer")
}

const GOOD: &str = "V\t491130000000Z\t\t100A\tunknown\t/CN=one.example";
const REVOKED: &str = "R\t491130000000Z\t261101000000Z,keyCompromise\t100A\tunknown\t/CN=one.example";

fn in_days(days: u64) -> UnixTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    UnixTime::since_unix_epoch(now + Duration::from_secs(days * 86_400))
}

#[test]
fn an_ocsp_response_has_certificate_validity_and_status() {
    let folder = prepared();
    let at = folder.path();
    let response = OcspResponse::parse(&answer(at, GOOD, " -ndays 2")).expect("a good response");
    let read = |name: &str| pem::certificates(&fs::read(at.join(name)).expect("a file")).remove(0);
    let id = CertId::of(&read("site.crt"), &read("ca.pem")).expect("an identity");
    assert_eq!(response.id(), &id);
    assert!(id.key().starts_with("303b300906052b0e03021a05000414") && id.key().ends_with("0202100a"));
    assert_eq!(CertId::from_key(&id.key()), Some(id.clone()));
    for other in ["", "3", "zz", "303b", "+f", &id.key().to_uppercase(), &format!("{}00", id.key())] {
        assert_eq!(CertId::from_key(other), None, "{other}");
    }
    assert_eq!(CertId::of(&read("ca.pem"), &read("site.crt")), None);
    assert_eq!(response.check(in_days(1)), Ok(()));
    assert_eq!(response.check(in_days(3)), Err("OCSP single response: no longer valid."));
    let day_before = UnixTime::since_unix_epoch(Duration::from_secs(in_days(0).as_secs() - 86_400));
    assert_eq!(response.check(day_before), Err("OCSP single response: not yet valid."));
}

/// Certificates are the exception: they are printed only as PEM.
#[test]
fn an_ocsp_response_is_printed_like_openssls_text() {
    let folder = prepared();
    for (line, more) in [(GOOD, " -ndays 2"), (REVOKED, " -ndays 2 -resp_key_id -resp_no_certs")] {
        let response = OcspResponse::parse(&answer(folder.path(), line, more)).expect("a response");
        openssl(folder.path(), "ocsp -respin answer -noverify -resp_text -out printed");
        let printed = fs::read_to_string(folder.path().join("printed")).expect("what was printed");
        let printed: String =
            printed.split_inclusive('\n').take_while(|line| !line.starts_with("Certificate:")).collect();
        let ours = response.describe();
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let ours = ours.split("-----BEGIN").next().unwrap_or_default();
        assert_eq!(plain(ours), plain(&printed), "{line}");
    }
}

#[test]
fn ocsp_responses_that_cannot_be_stapled_are_refused() {
    let folder = prepared();
    let good = answer(folder.path(), GOOD, " -ndays 2");
    let endless = answer(folder.path(), GOOD, "");
    assert_eq!(OcspResponse::parse(&endless), Err("OCSP single response: missing nextupdate."));
    assert_eq!(OcspResponse::parse(b"\x30\x03\x0a\x01\x06"), Err("OCSP response status not successful."));
    for length in 0..good.len() {
        assert!(OcspResponse::parse(&good[..length]).is_err(), "{length} bytes");
    }
    // No modified byte may cause a panic.
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 0x81;
        let _ = OcspResponse::parse(&changed).map(|response| response.describe());
    }
}

#[test]
fn a_certificate_uses_an_ocsp_file_only_if_it_is_about_that_certificate() {
    let folder = prepared();
    let site = folder.path().join("site.pem");
    let path = site.to_str().expect("a path");
    let good = answer(folder.path(), GOOD, " -ndays 2");
    fs::write(folder.path().join("site.pem.ocsp"), &good).expect("a file");
    let fault = loader(folder.path()).load(path).expect_err("nobody knows its issuer").remove(0);
    assert!(fault.contains("who issued it is not known"), "{fault}");
    fs::copy(folder.path().join("ca.pem"), folder.path().join("site.pem.issuer")).expect("a copy");
    let loaded = loader(folder.path()).load(path).expect("a certificate").remove(0);
    assert_eq!(loaded.certified.ocsp.as_deref(), Some(&good[..]));
    assert_eq!((loaded.certified.cert.len(), loaded.parts().issuer.len()), (1, 1), "the issuer is not shown");
    // A response about another certificate is ignored.
    let other = prepared();
    let parts = CertificateParts { ocsp: Some(answer(other.path(), GOOD, " -ndays 2")), ..loaded.parts() };
    let without = CertificateLoader::default().assemble(path, parts).expect("a certificate");
    assert!(without.response().is_none() && without.certified.ocsp.is_none());
    assert!(without.remarks[0].contains("it is about another certificate"), "{:?}", without.remarks);
}

#[test]
fn sct_files_that_haproxy_would_read_cause_a_remark() {
    let folder = prepared();
    let site = folder.path().join("site.pem");
    let path = site.to_str().expect("a path");
    let remarks =
        |loader: &CertificateLoader| loader.load(path).expect("a certificate").remove(0).remarks.clone();
    assert!(remarks(&loader(folder.path())).is_empty());
    fs::write(folder.path().join("site.pem.sctl"), [0; 8]).expect("a file");
    let found = remarks(&loader(folder.path()));
    assert!(found.len() == 1 && found[0].starts_with(&format!("'{path}.sctl' is not sent")), "{found:?}");
    let mut alone = loader(folder.path());
    alone.extra.sctl = false;
    assert!(remarks(&alone).is_empty());
    let replacing = CertificateLoader { replaces_extension: true, ..loader(folder.path()) };
    assert!(remarks(&replacing).is_empty(), "it would be 'site.sctl'");
}

/// The response to the request of `prepared`, signed with this certificate.
fn signed_by(folder: &Path, signer: &str, key: &str) -> OcspResponse {
    fs::write(folder.join("index"), format!("{GOOD}\n")).expect("a file");
    fs::write(folder.join("index.attr"), "").expect("a file");
    openssl(
        folder,
        &format!(
            "ocsp -index index -rsigner {signer} -rkey {key} -CA ca.pem -reqin question -respout answer -ndays 1"
        ),
    );
    OcspResponse::parse(&fs::read(folder.join("answer")).expect("an answer")).expect("a response")
}

/// Issues a delegate certificate with these extended key usages.
fn delegate(folder: &Path, name: &str, uses: &str, days: u32) {
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(folder, &format!("req {curve} -keyout {name}.key -out {name}.req -subj /CN={name}"));
    fs::write(folder.join("uses"), format!("extendedKeyUsage={uses}\n")).expect("a file");
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.req -CA ca.pem -CAkey ca.key -set_serial 7 -out {name}.pem -days {days} -extfile uses"
        ),
    );
}

#[test]
fn ocsp_requests_equal_openssls() {
    let folder = prepared();
    let at = folder.path();
    let read = |name: &str| pem::certificates(&fs::read(at.join(name)).expect("a file")).remove(0);
    let id = CertId::of(&read("site.crt"), &read("ca.pem")).expect("of this issuer");
    assert_eq!(id.question(), fs::read(at.join("question")).expect("a question"));
    let path = id.question_in_path();
    assert!(path.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'%'), "{path}");
    let text = path.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    assert_eq!(pem::decode_base64(&text), Some(id.question()));
}

#[test]
fn the_ocsp_responder_is_read_from_the_certificate() {
    let folder = prepared();
    let at = folder.path();
    let check = |access: &str, expected: Option<&str>| {
        fs::write(at.join("access"), format!("{access}\n")).expect("a file");
        openssl(
            at,
            "x509 -req -in site.req -CA ca.pem -CAkey ca.key -set_serial 9 -out told.crt -days 3 -extfile access",
        );
        let certificate = pem::certificates(&fs::read(at.join("told.crt")).expect("a file")).remove(0);
        assert_eq!(weir_tls::ocsp::responder(&certificate).as_deref(), expected, "{access}");
    };
    check("basicConstraints=CA:FALSE", None);
    check("authorityInfoAccess=caIssuers;URI:http://a.example/ca", None);
    check(
        "authorityInfoAccess=caIssuers;URI:http://a/,OCSP;URI:http://b/x,OCSP;URI:http://c/",
        Some("http://b/x"),
    );
    check("authorityInfoAccess=OCSP;URI:http://a.example/a b", None);
}

#[test]
fn ocsp_responses_may_be_signed_by_the_authority_or_its_delegate() {
    let folder = prepared();
    let at = folder.path();
    let authority = pem::certificates(&fs::read(at.join("ca.pem")).expect("a file")).remove(0);
    delegate(at, "delegate", "OCSPSigning", 9);
    delegate(at, "other", "serverAuth", 9);
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        at,
        &format!("req -x509 {curve} -keyout liar.key -out liar.pem -days 9 -subj /O=tests/CN=authority"),
    );
    openssl(
        at,
        &format!("req -x509 {curve} -keyout stranger.key -out stranger.pem -days 9 -subj /CN=stranger"),
    );
    let verdict = |name: &str, days| {
        let response = signed_by(at, &format!("{name}.pem"), &format!("{name}.key"));
        response.verify(&authority, in_days(days))
    };
    assert_eq!(verdict("ca", 0), Ok(()));
    assert_eq!(verdict("delegate", 0), Ok(()));
    assert_eq!(verdict("delegate", 10), Err("OCSP response: its signer's certificate is not valid now."));
    assert_eq!(verdict("other", 0), Err("OCSP response: its signer may not sign responses."));
    assert_eq!(verdict("liar", 0), Err("OCSP response: wrong signature."));
    assert_eq!(verdict("stranger", 0), Err("OCSP response: its signer is of another authority."));
    // Flips one bit of the signed part.
    let mut der = signed_by(at, "ca.pem", "ca.key").der().to_vec();
    let at_serial = der.windows(2).position(|two| two == [0x10, 0x0a]).expect("the number");
    let produced = der.windows(2).position(|two| two == [0x18, 0x0f]).expect("a time");
    assert!(produced < at_serial);
    der[produced + 15] ^= 0x01;
    let changed = OcspResponse::parse(&der).expect("still a response");
    assert_eq!(changed.verify(&authority, in_days(0)), Err("OCSP response: wrong signature."));
}
