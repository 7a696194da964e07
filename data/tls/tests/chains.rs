//! Compares chain verification with `openssl verify`: the same faults at the same depths in the same order.
//!
//! `openssl verify` continues after some faults. Here verification ends at the first fault at which it would stop.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension,
    DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
    NameConstraints, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use weir_tls::clock::UnixTime;
use weir_tls::pem;
use weir_tls::verify::{Authorities, CertificatePurpose, ChainFault, algorithms};

/// Tomorrow, because certificates of the openssl command become valid today.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
        + Duration::from_secs(24 * 3600)
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2900, 1, 1);
    params.use_authority_key_identifier_extension = true;
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn root(params: CertificateParams) -> Issuer {
    CertifiedIssuer::self_signed(params, key()).expect("an authority")
}

fn below(issuer: &Issuer, params: CertificateParams) -> Issuer {
    CertifiedIssuer::signed_by(params, key(), issuer).expect("a certificate")
}

/// A root, an authority that it issued, and a peer certificate that the authority issued.
struct Chain {
    root: Issuer,
    middle: Issuer,
    peer: Issuer,
}

impl Chain {
    fn new(
        of_root: impl FnOnce(&mut CertificateParams),
        of_middle: impl FnOnce(&mut CertificateParams),
        of_peer: impl FnOnce(&mut CertificateParams),
    ) -> Chain {
        let mut parts = [authority_params("root"), authority_params("middle"), params("peer")];
        of_root(&mut parts[0]);
        of_middle(&mut parts[1]);
        of_peer(&mut parts[2]);
        let [of_root, of_middle, of_peer] = parts;
        let root = root(of_root);
        let middle = below(&root, of_middle);
        let peer = below(&middle, of_peer);
        Chain { root, middle, peer }
    }

    fn good() -> Chain {
        Chain::new(|_| {}, |_| {}, |_| {})
    }

    #[track_caller]
    fn check(&self, what: &str, expected: &[(u16, u16)]) {
        compare(what, &self.peer.pem(), &[self.middle.pem()], &[self.root.pem()], &[], expected);
    }
}

/// Compares the results for a peer's certificate, the other certificates that it sent, trusted authorities, and revocation lists.
#[track_caller]
fn compare(
    what: &str,
    peer: &str,
    sent: &[String],
    trusted: &[String],
    lists: &[String],
    expected: &[(u16, u16)],
) {
    let of_openssl = by_openssl(peer, sent, trusted, lists);
    let ours = by_us(peer, sent, trusted, lists);
    assert_eq!(ours, of_openssl, "{what}: ours, openssl's");
    assert_eq!(ours, expected, "{what}");
}

fn by_us(peer: &str, sent: &[String], trusted: &[String], lists: &[String]) -> Vec<(u16, u16)> {
    let certificates = pem::certificates(trusted.concat().as_bytes());
    let lists = pem::revocation_lists(lists.concat().as_bytes());
    let authorities = Authorities::new(&certificates, &lists).expect("good authorities");
    let peer = pem::certificates(peer.as_bytes());
    let sent = pem::certificates(sent.concat().as_bytes());
    let mut found = Vec::new();
    let mut judge = |fault: ChainFault| {
        found.push((fault.code, fault.depth));
        GOES_ON.contains(&fault.code)
    };
    let now = UnixTime::since_unix_epoch(now());
    let _ = authorities.check(&peer[0], &sent, CertificatePurpose::Client, now, &algorithms(), &mut judge);
    found
}

fn by_openssl(peer: &str, sent: &[String], trusted: &[String], lists: &[String]) -> Vec<(u16, u16)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [
        ("peer", peer.to_owned()),
        ("sent", sent.concat()),
        ("trusted", trusted.concat()),
        ("lists", lists.concat()),
    ] {
        fs::write(path(name), text).expect("a file");
    }
    let mut command = Command::new("openssl");
    command.args([
        "verify",
        "-auth_level",
        "2",
        "-purpose",
        "sslclient",
        "-attime",
        &now().as_secs().to_string(),
    ]);
    command.args(["-no-CApath", "-no-CAstore"]).arg("-CAfile").arg(path("trusted"));
    if !sent.is_empty() {
        command.arg("-untrusted").arg(path("sent"));
    }
    if !lists.is_empty() {
        command.args(["-crl_check", "-crl_check_all"]).arg("-CRLfile").arg(path("lists"));
    }
    let output = command.arg(path("peer")).output().expect("the openssl command");
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let found: Vec<(u16, u16)> = text.lines().filter_map(found_in).collect();
    assert!(!found.is_empty() || text.contains(": OK"), "openssl says: {text}");
    found
}

/// Code and depth of a line such as `error 10 at 0 depth lookup: certificate has expired`.
fn found_in(line: &str) -> Option<(u16, u16)> {
    let words: Vec<&str> = line.strip_prefix("error ")?.split(' ').collect();
    let [code, "at", depth, "depth", ..] = words[..] else { return None };
    Some((code.parse().ok()?, depth.parse().ok()?))
}

#[test]
fn valid_certificate_chains_are_accepted() {
    let chain = Chain::good();
    chain.check("three links", &[]);
    let alone = below(&chain.root, params("alone"));
    compare("no authority between", &alone.pem(), &[], &[chain.root.pem()], &[], &[]);
    compare("one that is trusted itself", &chain.root.pem(), &[], &[chain.root.pem()], &[], &[(26, 0)]);
    let sent = [root(authority_params("other")).pem(), chain.root.pem(), chain.middle.pem()];
    compare("sent in any order", &chain.peer.pem(), &sent, &[chain.root.pem()], &[], &[]);
    let trusted = [chain.root.pem(), chain.middle.pem()];
    compare("all of it trusted", &chain.peer.pem(), &[], &trusted, &[], &[]);
}

#[test]
fn an_untrusted_chain_is_reported_with_its_depth() {
    let chain = Chain::good();
    let other = root(authority_params("other"));
    let (peer, middle) = (chain.peer.pem(), chain.middle.pem());
    let stranger = [other.pem()];
    compare("nobody known", &peer, &[], &stranger, &[], &[(20, 0)]);
    compare("the root is missing", &peer, std::slice::from_ref(&middle), &stranger, &[], &[(20, 1)]);
    compare("the middle is missing", &peer, &[], &[chain.root.pem()], &[], &[(20, 0)]);
    compare("only the middle is trusted", &peer, &[], std::slice::from_ref(&middle), &[], &[(2, 1)]);
    compare("a root that nobody trusts", &peer, &[middle, chain.root.pem()], &stranger, &[], &[(19, 2)]);
    compare("signed by itself", &chain.root.pem(), &[], &stranger, &[], &[(18, 0), (26, 0)]);
    // Another certificate with the same name is not trusted.
    let mut same = authority_params("root");
    same.use_authority_key_identifier_extension = false;
    let impostor = root(same.clone());
    let trusted = [root(same).pem()];
    compare("an impostor alone", &impostor.pem(), &[], &trusted, &[], &[(18, 0), (26, 0)]);
    let mut victim = params("victim");
    victim.use_authority_key_identifier_extension = false;
    let victim = below(&impostor, victim).pem();
    compare("an impostor above", &victim, &[impostor.pem()], &trusted, &[], &[(7, 0)]);
}

#[test]
fn verification_of_a_loop_of_issuers_terminates() {
    let mut of_one = authority_params("one");
    let mut of_two = authority_params("two");
    of_one.use_authority_key_identifier_extension = false;
    of_two.use_authority_key_identifier_extension = false;
    let (first, second) = (root(of_one.clone()), root(of_two.clone()));
    let one = CertifiedIssuer::signed_by(of_one, key(), &second).expect("a certificate");
    let two = CertifiedIssuer::signed_by(of_two, key(), &one).expect("a certificate");
    let peer = below(&two, {
        let mut peer = params("peer");
        peer.use_authority_key_identifier_extension = false;
        peer
    });
    let stranger = [root(authority_params("other")).pem()];
    compare("a loop", &peer.pem(), &[one.pem(), two.pem()], &stranger, &[], &[(20, 2)]);
    drop(first);
}

#[test]
fn validity_times_are_checked_from_the_root() {
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2025, 1, 1);
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(2800, 1, 1);
    Chain::new(|_| {}, |_| {}, expired).check("the peer's expired", &[(10, 0)]);
    Chain::new(|_| {}, expired, expired).check("two expired", &[(10, 1), (10, 0)]);
    Chain::new(expired, |_| {}, expired).check("the root's expired", &[(10, 2), (10, 0)]);
    Chain::new(|_| {}, |_| {}, early).check("the peer's not valid yet", &[(9, 0)]);
    Chain::new(|_| {}, early, expired).check("the middle's not valid yet", &[(9, 1)]);
}

#[test]
fn authorities_are_recognised_by_their_extensions() {
    let nobody = |params: &mut CertificateParams| {
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages.clear();
    };
    Chain::new(|_| {}, nobody, |_| {}).check("no authority", &[(79, 1), (26, 1)]);
    let silent = |params: &mut CertificateParams| {
        params.is_ca = IsCa::NoCa;
        params.key_usages.clear();
    };
    Chain::new(|_| {}, silent, |_| {}).check("not said to be one", &[(79, 1), (26, 1)]);
    let no_signing = |params: &mut CertificateParams| params.key_usages = vec![KeyUsagePurpose::CrlSign];
    Chain::new(|_| {}, no_signing, |_| {}).check("may not sign", &[(79, 1), (26, 1), (32, 1)]);
    let none_below =
        |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    Chain::new(none_below, |_| {}, |_| {}).check("an authority too many", &[(25, 2)]);
    Chain::new(|_| {}, none_below, |_| {}).check("none below but the peer", &[]);
}

#[test]
fn key_usage_extensions_are_checked_for_the_whole_chain() {
    let for_servers = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
    };
    let for_clients = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]
    };
    let for_any =
        |params: &mut CertificateParams| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
    Chain::new(|_| {}, |_| {}, for_clients).check("for clients", &[]);
    Chain::new(|_| {}, |_| {}, for_servers).check("for servers", &[(26, 0)]);
    Chain::new(|_| {}, |_| {}, for_any).check("for anything", &[(26, 0)]);
    Chain::new(|_| {}, for_servers, for_clients).check("authority for servers", &[(26, 1)]);
    let encipher =
        |params: &mut CertificateParams| params.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    Chain::new(|_| {}, |_| {}, encipher).check("a key that does not sign", &[(26, 0)]);
}

#[test]
fn unknown_critical_extensions_are_errors() {
    let critical = |params: &mut CertificateParams| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        extension.set_criticality(true);
        params.custom_extensions.push(extension);
    };
    Chain::new(|_| {}, |_| {}, critical).check("of the peer", &[(34, 0)]);
    Chain::new(|_| {}, critical, critical).check("of two", &[(34, 0), (34, 1)]);
}

#[test]
fn enforces_the_name_constraints_of_authorities() {
    let dns = |name: &str| GeneralSubtree::DnsName(name.to_owned());
    let under = |permitted: Vec<GeneralSubtree>, excluded: Vec<GeneralSubtree>, names: &[&str]| {
        let names: Vec<SanType> = names
            .iter()
            .map(|name| match name.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) if name.contains('@') => SanType::Rfc822Name((*name).try_into().expect("a name")),
                Err(_) => SanType::DnsName((*name).try_into().expect("a name")),
            })
            .collect();
        Chain::new(
            |_| {},
            |params| {
                params.name_constraints =
                    Some(NameConstraints { permitted_subtrees: permitted, excluded_subtrees: excluded });
            },
            |params| params.subject_alt_names = names,
        )
    };
    under(vec![dns("example")], vec![], &["a.example"]).check("inside", &[]);
    under(vec![dns("example")], vec![], &["example.org"]).check("outside", &[(47, 0)]);
    under(vec![dns("example")], vec![], &["badexample"]).check("not at a label", &[(47, 0)]);
    under(vec![], vec![dns("example")], &["A.EXAMPLE"]).check("excluded", &[(48, 0)]);
    under(vec![dns("example")], vec![], &["10.0.0.1"]).check("of another kind", &[]);
    let net = || GeneralSubtree::IpAddress(rcgen::CidrSubnet::from_v4_prefix([10, 0, 0, 0], 8));
    under(vec![net()], vec![], &["10.1.2.3"]).check("inside a network", &[]);
    under(vec![net()], vec![], &["11.1.2.3"]).check("outside a network", &[(47, 0)]);
    let mail = || GeneralSubtree::Rfc822Name("example".to_owned());
    under(vec![mail()], vec![], &["a@example"]).check("a mail inside", &[]);
    under(vec![mail()], vec![], &["a@b.example"]).check("a mail outside", &[(47, 0)]);
    // Without alternative names, a common name that looks like a host name is used.
    let constrain = |params: &mut CertificateParams| {
        let permitted_subtrees = vec![GeneralSubtree::DnsName("example".to_owned())];
        params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: vec![] });
    };
    let called = |name: &'static str| {
        move |params: &mut CertificateParams| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
        }
    };
    Chain::new(|_| {}, constrain, called("host.org")).check("a common name", &[(47, 0)]);
    Chain::new(|_| {}, constrain, called("host")).check("a common name without a dot", &[]);
    let mut named = rcgen::DistinguishedName::new();
    named.push(DnType::OrganizationName, "Weir");
    let organisation = |excluded: bool| {
        let tree = vec![GeneralSubtree::DirectoryName(named.clone())];
        let (permitted_subtrees, excluded_subtrees) = if excluded { (vec![], tree) } else { (tree, vec![]) };
        move |params: &mut CertificateParams| {
            params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees });
        }
    };
    let member = |params: &mut CertificateParams| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "WEIR ");
        params.distinguished_name.push(DnType::CommonName, "peer");
    };
    Chain::new(|_| {}, organisation(false), member).check("of the organisation", &[]);
    Chain::new(|_| {}, organisation(false), |_| {}).check("of none", &[(47, 0)]);
    Chain::new(|_| {}, organisation(true), member).check("of an excluded one", &[(48, 0)]);
}

fn list(issuer: &Issuer, revoked: &[u64], this: i32, next: i32) -> String {
    list_of_key(issuer, KeyIdMethod::Sha256, revoked, this, next)
}

fn list_of_key(issuer: &Issuer, key: KeyIdMethod, revoked: &[u64], this: i32, next: i32) -> String {
    let revoked = revoked.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: date_time_ymd(2024, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(this, 1, 1),
        next_update: date_time_ymd(next, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: key,
    };
    params.signed_by(issuer).expect("a list").pem().expect("PEM")
}

#[test]
fn revoked_certificates_are_found_in_the_crls_of_their_issuers() {
    let number = |serial: u64| {
        move |params: &mut CertificateParams| params.serial_number = Some(SerialNumber::from(serial))
    };
    let chain = Chain::new(number(128), number(2), number(3));
    let check = |what: &str, lists: &[String], expected: &[(u16, u16)]| {
        compare(what, &chain.peer.pem(), &[chain.middle.pem()], &[chain.root.pem()], lists, expected);
    };
    let (root, middle) = (&chain.root, &chain.middle);
    let good = |issuer: &Issuer| list(issuer, &[77], 2024, 2900);
    check("none is revoked", &[good(root), good(middle)], &[]);
    check("the peer's", &[good(root), list(middle, &[3], 2024, 2900)], &[(23, 0)]);
    check("the middle's", &[list(root, &[2], 2024, 2900), good(middle)], &[(23, 1)]);
    check("the root's own", &[list(root, &[128], 2024, 2900), good(middle)], &[(23, 2)]);
    check("a list is missing", &[good(middle)], &[(3, 1)]);
    check("all lists are missing", &[good(&self::root(authority_params("other")))], &[(3, 0)]);
    check("an old list", &[good(root), list(middle, &[], 2024, 2025)], &[(12, 0)]);
    check("an old list that revokes", &[good(root), list(middle, &[3], 2024, 2025)], &[(12, 0), (23, 0)]);
    check("a list of tomorrow", &[good(root), list(middle, &[], 2800, 2900)], &[(11, 0)]);
    check(
        "a newer list is better than an old one",
        &[good(root), list(middle, &[3], 2024, 2025), good(middle)],
        &[],
    );
    let impostor = self::root(authority_params("middle"));
    check("a list of another key", &[good(root), good(&impostor)], &[(3, 0)]);
    let key = KeyIdMethod::PreSpecified(authority_params("middle").key_identifier(middle.key()));
    let forged = list_of_key(&impostor, key, &[], 2024, 2900);
    check("a list that somebody else signed", &[good(root), forged], &[(8, 0)]);
}

/// A certificate that `issuer` issued by the openssl command, of a kind that rcgen does not support.
fn by_openssl_below(
    folder: &Path,
    issuer: Option<&Issuer>,
    key: &[&str],
    digest: &str,
    extensions: &str,
) -> String {
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .output()
            .expect("the openssl command");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fs::write(folder.join("extensions"), extensions).expect("a file");
    run(&[&["genpkey", "-out", "key"], key].concat());
    run(&["req", "-new", "-key", "key", "-subj", "/CN=peer", "-out", "request"]);
    let mut sign =
        vec!["x509", "-req", "-in", "request", digest, "-days", "36500", "-out", "made", "-set_serial", "7"];
    match issuer {
        Some(issuer) => {
            fs::write(folder.join("ca"), issuer.pem()).expect("a file");
            fs::write(folder.join("ca.key"), issuer.key().serialize_pem()).expect("a file");
            sign.extend(["-CA", "ca", "-CAkey", "ca.key"]);
        }
        None => sign.extend(["-signkey", "key"]),
    }
    if !extensions.is_empty() {
        sign.extend(["-extfile", "extensions"]);
    }
    run(&sign);
    fs::read_to_string(folder.join("made")).expect("a certificate")
}

#[test]
fn reports_weak_keys_and_old_versions_as_openssl_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = root(authority_params("root"));
    let rsa = |bits: &'static str| ["-algorithm", "RSA", "-pkeyopt", bits];
    let ec = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let make = |key: &[&str], digest: &str, extensions: &str| {
        by_openssl_below(folder.path(), Some(&root), key, digest, extensions)
    };
    let check = |what: &str, peer: &str, expected: &[(u16, u16)]| {
        compare(what, peer, &[], &[root.pem()], &[], expected);
    };
    check("version 1", &make(&ec, "-sha256", ""), &[]);
    check("RSA of 2048 bits", &make(&rsa("rsa_keygen_bits:2048"), "-sha256", ""), &[]);
    check("RSA of 1024 bits", &make(&rsa("rsa_keygen_bits:1024"), "-sha256", ""), &[(66, 0)]);
    check("RSA of 512 bits", &make(&rsa("rsa_keygen_bits:512"), "-sha256", ""), &[(66, 0)]);
    check("SHA-1", &make(&ec, "-sha1", ""), &[(68, 0)]);
    check("Netscape's type of servers", &make(&ec, "-sha256", "nsCertType=server"), &[(26, 0)]);
    check("Netscape's type of clients", &make(&ec, "-sha256", "nsCertType=client"), &[]);
    let alone = by_openssl_below(folder.path(), None, &ec, "-sha1", "");
    compare("version 1 signed by itself", &alone, &[], std::slice::from_ref(&alone), &[], &[]);
}

/// A revocation list from `openssl ca`, signed with SHA-1.
#[test]
fn accepts_crls_signed_with_sha1() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = root(authority_params("root"));
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    file("ca", &root.pem());
    file("ca.key", &root.key().serialize_pem());
    file("index", "");
    file("number", "01\n");
    file("settings", "[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=number\n");
    let arguments = ["ca", "-config", "settings", "-gencrl", "-crldays", "3000", "-md", "sha1"];
    let output = Command::new("openssl")
        .args(arguments)
        .args(["-cert", "ca", "-keyfile", "ca.key"])
        .current_dir(folder.path())
        .output()
        .expect("the openssl command");
    let list = String::from_utf8(output.stdout).expect("PEM");
    let peer = below(&root, params("peer"));
    compare("SHA-1", &peer.pem(), &[], &[root.pem()], std::slice::from_ref(&list), &[]);
}

#[test]
fn rejects_a_certificate_with_a_modified_signature() {
    let chain = Chain::good();
    let mut der = chain.peer.der().to_vec();
    *der.last_mut().expect("a byte") ^= 1;
    let changed = folded_pem(&der);
    compare("changed", &changed, &[chain.middle.pem()], &[chain.root.pem()], &[], &[(7, 0)]);
}

fn folded_pem(der: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("der");
    fs::write(&path, der).expect("a file");
    let output = Command::new("openssl").args(["x509", "-inform", "DER", "-in"]).arg(&path).output();
    String::from_utf8(output.expect("the openssl command").stdout).expect("PEM")
}

#[test]
fn a_tolerated_verification_error_does_not_hide_other_errors() {
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2025, 1, 1);
    let chain = Chain::new(|_| {}, |_| {}, expired);
    let certificates = pem::certificates(root(authority_params("other")).pem().as_bytes());
    let authorities = Authorities::new(&certificates, &[]).expect("good authorities");
    let mut found = Vec::new();
    let mut judge = |fault: ChainFault| {
        found.push((fault.code, fault.depth));
        fault.code == 20
    };
    let now = UnixTime::since_unix_epoch(now());
    let sent = [chain.middle.der().clone()];
    let checked = authorities.check(
        chain.peer.der(),
        &sent,
        CertificatePurpose::Client,
        now,
        &algorithms(),
        &mut judge,
    );
    assert_eq!(checked, Err(ChainFault { code: 10, depth: 0 }));
    assert_eq!(found, [(20, 1), (10, 0)]);
}

/// Faults after which `openssl verify` continues.
const GOES_ON: [u16; 8] = [10, 11, 12, 18, 25, 26, 34, 79];
