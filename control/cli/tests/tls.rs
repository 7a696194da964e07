//! Sessions about certificates, authorities and lists, with a process of plain vectors.

mod toy;

use toy::{Toy, converse, toy};
use weir_cli::{Level, SessionSettings};

fn run_command_at(toy: &mut Toy, level: Level, line: &str) -> String {
    let settings = SessionSettings { level, ..SessionSettings::default() };
    converse(toy, settings, format!("{line}\n").as_bytes(), usize::MAX, usize::MAX)
}

#[track_caller]
fn check(dialogue: &[(&str, &str)]) {
    let mut toy = toy();
    for (line, expected) in dialogue {
        assert_eq!(run_command_at(&mut toy, Level::Admin, line), *expected, "to {line:?}");
    }
}

#[test]
fn a_certificate_change_takes_effect_at_its_commit() {
    check(&[
        ("show ssl cert", "# filename\n*star.pem\na.pem\n\n"),
        ("show ssl cert a.pem", "Filename: a.pem\nStatus: Used\nSerial: a.pem\n\n"),
        (
            "show ssl cert *a.pem",
            "Can't display the certificate: Not found or the certificate is a bundle!\n\n",
        ),
        ("show ssl cert \\\\*star.pem", "Filename: *star.pem\nStatus: Used\nSerial: *star.pem\n\n"),
        ("new ssl cert", "'new ssl cert' expects a filename\n\n"),
        ("new ssl cert a.pem", "Certificate 'a.pem' already exists!\n\n"),
        ("new ssl cert b.pem", "New empty certificate store 'b.pem'!\n\n"),
        ("show ssl cert b.pem", "Filename: b.pem\nStatus: Empty\n\n"),
        ("set ssl cert b.pem", "'set ssl cert' expects a filename and a certificate as a payload\n\n"),
        (
            "set ssl cert c.pem <<\nx\n",
            "Can't replace a certificate which is not referenced by the configuration!\nCan't update c.pem!\n\n",
        ),
        (
            "set ssl cert b.pem <<\ngarbage\n",
            "Invalid payload\nCan't load the payload\nCan't update b.pem!\n\n",
        ),
        ("commit ssl cert b.pem", "No ongoing transaction! !\nCan't commit b.pem!\n\n"),
        ("abort ssl cert b.pem", "No ongoing transaction!\n\n"),
        ("set ssl cert b.pem <<\nSerial: 7\n", "Transaction created for certificate b.pem!\n\n"),
        ("set ssl cert b.pem <<\nSerial: 8\n", "Transaction updated for certificate b.pem!\n\n"),
        (
            "set ssl cert a.pem <<\nx\n",
            "The ongoing transaction is about 'b.pem' but you are trying to set 'a.pem'\nCan't update a.pem!\n\n",
        ),
        ("show ssl cert", "# transaction\n*b.pem\n# filename\n*star.pem\na.pem\nb.pem\n\n"),
        ("show ssl cert *b.pem", "Filename: *b.pem\nStatus: Uncommitted\nSerial: 8\n\n"),
        (
            "abort ssl cert a.pem",
            "The ongoing transaction is about 'b.pem' but you are trying to abort a transaction for 'a.pem'\n\n",
        ),
        ("commit ssl cert b.pem", "Committing b.pem\nSuccess!\n\n"),
        ("show ssl cert b.pem", "Filename: b.pem\nStatus: Unused\nSerial: 8\n\n"),
        ("dump ssl cert b.pem", "Serial: 8\n\n"),
        ("set ssl cert a.pem <<\nSerial: 9\n", "Transaction created for certificate a.pem!\n\n"),
        ("abort ssl cert a.pem", "Transaction aborted for certificate 'a.pem'!\n\n"),
        ("set ssl cert a.pem <<\nSerial: 9\n", "Transaction created for certificate a.pem!\n\n"),
        ("commit ssl cert a.pem", "Committing a.pem..\nSuccess!\n\n"),
        (
            "del ssl cert a.pem",
            "Can't remove the certificate: certificate 'a.pem' in use, can't be deleted!\n\n",
        ),
        ("del ssl cert c.pem", "Can't remove the certificate: certificate 'c.pem' doesn't exist!\n\n"),
        ("del ssl cert b.pem", "Certificate 'b.pem' deleted!\n\n"),
    ]);
}

#[test]
fn ca_file_and_crl_file_commands_change_files_like_haproxy() {
    check(&[
        ("show ssl ca-file", "# filename\nca.pem - 1 certificate(s)\n\n"),
        (
            "show ssl ca-file ca.pem",
            "Filename: ca.pem\nStatus: Used\n \nCertificate #1:\nSerial: ca.pem\n \nCertificate #2:\nSerial: ca.pem\n\n",
        ),
        (
            "show ssl ca-file ca.pem:2",
            "Filename: ca.pem\nStatus: Used\n \nCertificate #2:\nSerial: ca.pem\n\n",
        ),
        ("show ssl ca-file ca.pem:3", "\n"),
        ("show ssl ca-file x", "Can't display the CA file : Not found!\n\n"),
        ("new ssl ca-file ca.pem", "CA file 'ca.pem' already exists!\n\n"),
        ("new ssl ca-file n", "New CA file created 'n'!\n\n"),
        ("set ssl ca-file n", "'set ssl ca-file' expects a filename and CAs as a payload\n\n"),
        ("set ssl ca-file n <<\ngarbage\n", "Invalid payload\nCan't update n!\n\n"),
        ("set ssl ca-file n <<\none\n", "transaction created for CA n!\n\n"),
        ("add ssl ca-file n <<\ntwo\n", "transaction updated for CA n!\n\n"),
        ("commit ssl ca-file n", "Committing n\nSuccess!\n\n"),
        (
            "del ssl ca-file ca.pem",
            "Can't remove the CA file: CA file 'ca.pem' in use, can't be deleted!\n\n",
        ),
        ("del ssl ca-file n", "CA file 'n' deleted!\n\n"),
        ("show ssl crl-file", "# filename\n\n"),
        ("new ssl crl-file r", "New CRL file created 'r'!\n\n"),
        ("set ssl crl-file r <<\none\n", "transaction created for CRL r!\n\n"),
        ("commit ssl crl-file r", "Committing r\nSuccess!\n\n"),
        ("show ssl crl-file r:1", "Filename: r\nStatus: Unused\n \nCertificate Revocation List #1:\none\n\n"),
        ("del ssl crl-file x", "Can't remove the CRL file: CRL file 'x' doesn't exist!\n\n"),
    ]);
}

#[test]
fn crt_list_commands_add_and_delete_lines() {
    check(&[
        ("show ssl crt-list", "sites\n\n"),
        ("show ssl crt-list x", "didn't find the specified filename\n\n"),
        (
            "show ssl crt-list -n sites",
            "# sites\na.pem:2 [verify none] *.example !b.example\na.pem:4 [verify none] *.example !b.example\n\n",
        ),
        ("add ssl crt-list", "'add ssl crtlist' expects a filename and a certificate name\n\n"),
        ("add ssl crt-list x a.pem", "Can't edit the crt-list: crt-list 'x' does not exist!\n\n"),
        ("add ssl crt-list sites x", "Can't edit the crt-list: certificate 'x' does not exist!\n\n"),
        ("new ssl cert b.pem", "New empty certificate store 'b.pem'!\n\n"),
        ("add ssl crt-list sites b.pem", "Can't edit the crt-list: certificate 'b.pem' is empty!\n\n"),
        (
            "add ssl crt-list sites <<\na.pem c.example\n",
            "Inserting certificate 'a.pem' in crt-list 'sites'.\nSuccess!\n\n",
        ),
        (
            "add ssl crt-list sites <<\na.pem\nb.pem\n",
            "Can't edit the crt-list: unsupported multiple lines payload!\n\n",
        ),
        ("del ssl crt-list sites x", "Can't delete the entry: certificate 'x' does not exist!\n\n"),
        (
            "del ssl crt-list sites a.pem",
            "Can't delete the entry: found the certificate 'a.pem' in several entries, please specify a line number preceded by colons (2, 4)!\n\n",
        ),
        (
            "del ssl crt-list sites a.pem:3",
            "Can't delete the entry: found a certificate 'a.pem' but the line number is incorrect, please specify a correct line number preceded by colons (2, 4)!\n\n",
        ),
        ("del ssl crt-list sites a.pem:2", "Entry 'a.pem' deleted in crtlist 'sites'!\n\n"),
        (
            "del ssl crt-list sites a.pem",
            "Can't delete the entry: certificate 'a.pem' cannot be deleted, it is used as default certificate by the following frontends:\n\t- a.cfg:3\n\t- a.cfg:9\n\n",
        ),
    ]);
}

#[test]
fn show_ssl_sni_lists_names_and_filters_by_expiry() {
    const HEAD: &str = "# Frontend/Bind\tSNI\tNegative Filter\tType\tFilename\tNotAfter\tNotBefore\n";
    let line =
        |ending: &str| format!("{HEAD}f/a.cfg:3\t*.example\t!b.example \trsa\ta.pem\tthen\t{ending}\n\n");
    let mut toy = toy();
    let mut run_command = |line: &str| run_command_at(&mut toy, Level::User, line);
    assert_eq!(run_command("show ssl sni"), line("None"));
    assert_eq!(run_command("show ssl sni -f f -A -t 2h"), line("Some(1795181242)"));
    assert_eq!(run_command("show ssl sni -f g"), "Couldn't find the specified frontend!\n\n");
    assert_eq!(run_command("show ssl sni -t"), "'-t' requires an offset in seconds!\n\n");
}

#[test]
fn only_administrators_change_certificates() {
    let mut toy = toy();
    for line in ["set ssl cert a.pem", "dump ssl cert a.pem", "show ssl crt-list", "new ssl ca-file x"] {
        assert_eq!(run_command_at(&mut toy, Level::Operator, line), "Permission denied\n\n", "to {line:?}");
    }
    assert!(run_command_at(&mut toy, Level::User, "show ssl cert").contains("a.pem"));
}

#[test]
fn tls_key_commands_list_and_add_session_ticket_keys() {
    check(&[
        ("show tls-keys", "# id (file)\n0 (b.keys)\n1 (a.keys)\n\n"),
        ("show tls-keys 0", "'show tls-keys' unable to locate referenced filename\n\n"),
        ("show tls-keys #2", "'show tls-keys' unable to locate referenced filename\n\n"),
        ("show tls-keys #0", "# id secret\n# 0 (b.keys)\n0.0 one\n0.1 two\n\n"),
        ("show tls-keys a.keys", "# id secret\n# 1 (a.keys)\n1.0 one\n1.1 two\n\n"),
        (
            "show tls-keys *",
            "# id secret\n# 0 (b.keys)\n0.0 one\n0.1 two\n# 1 (a.keys)\n1.0 one\n1.1 two\n\n\n",
        ),
        (
            "set ssl tls-key #0",
            "'set ssl tls-key' expects a filename and the new TLS key in base64 encoding.\n\n",
        ),
        ("set ssl tls-key 0 x", "'set ssl tls-key' unable to locate referenced filename\n\n"),
        ("set ssl tls-key a.keys ?", "'set ssl tls-key' received invalid base64 encoded TLS key.\n\n"),
        ("set ssl tls-key a.keys longer", "'set ssl tls-key' received a key of wrong size.\n\n"),
        ("set ssl tls-key #0 three", "TLS ticket key updated!\n\n"),
        ("show tls-keys #0", "# id secret\n# 0 (b.keys)\n0.0 one\n0.1 two\n0.2 three\n\n"),
    ]);
    let mut toy = toy();
    assert_eq!(run_command_at(&mut toy, Level::User, "show tls-keys *"), "Permission denied\n\n");
    assert_eq!(run_command_at(&mut toy, Level::User, "set ssl tls-key #0 x"), "Permission denied\n\n");
}

#[test]
fn ocsp_response_commands_list_show_and_replace_responses() {
    check(&[
        (
            "show ssl ocsp-response",
            "# Certificate IDs\n\
             Certificate ID key : 30aa\nCertificate path : 30aa.pem\n Certificate ID:\n   Serial Number: 7\n\n\
             Certificate ID key : 30bb\nCertificate path : 30bb.pem\n Certificate ID:\n   Serial Number: 7\n\n\n",
        ),
        ("show ssl ocsp-response 30aa", "of 30aa\n\n"),
        ("show ssl ocsp-response text 30aa.pem", "of 30aa.pem\n\n"),
        ("show ssl ocsp-response base64 30aa", "QUJD\n\n"),
        ("show ssl ocsp-response text", "'show ssl ocsp-response [text|base64]' expects a valid certid.\n\n"),
        (
            "show ssl ocsp-response b.pem",
            "'show ssl ocsp-response' expects a valid certid or certificate path.\n\n",
        ),
        ("show ssl cert *b.pem.ocsp", "of b.pem\n\n"),
        ("set ssl ocsp-response", "'set ssl ocsp-response' expects response in base64 encoding.\n\n"),
        ("set ssl ocsp-response ?", "'set ssl ocsp-response' received invalid base64 encoded response.\n\n"),
        ("set ssl ocsp-response QQ==", "too old\n\n"),
        ("set ssl ocsp-response <<\nQUJD\n", "OCSP Response updated!\n\n"),
    ]);
}

#[test]
fn ocsp_update_commands_list_and_start_updates() {
    check(&[
        (
            "show ssl ocsp-updates",
            "OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status | Last Update Status (str)\n\
             30aa | 30aa.pem | 23/Nov/2026:21:00:26 +0000 | 23/Nov/2026:21:00:24 +0000 | 1 | 0 | 1 | Update successful\n\
             30bb | 30bb.pem | 23/Nov/2026:21:00:26 +0000 | - | 0 | 1 | 4 | OCSP response check failure (why)\n\n",
        ),
        ("update ssl ocsp-response 30aa.pem", "of 30aa.pem\n\n"),
        ("update ssl ocsp-response x", "Can't send ocsp request for x: it is not known!\n\n"),
        ("update ssl ocsp-response", "'update ssl ocsp-response' expects a filename\n\n"),
        ("httpclient GET http://a/", "This command is restricted to expert mode only.\n\n"),
        ("expert-mode on; httpclient GET http://a/", "\nGET a/\n\n"),
        ("expert-mode on; httpclient GET a", "\nCan't send the request: the URL has no scheme.\n\n"),
        ("expert-mode on; httpclient GET", "\n'httpclient' expects a method and an URI\n\n"),
    ]);
}
