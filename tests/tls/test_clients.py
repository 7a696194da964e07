"""TLS of clients other than curl, openssl and Python (Java, Go), and difficult hellos and certificates."""
import os
import socket
import subprocess
import time

import pytest

from lib.needs import installed
from lib.program import ask, wait_until
from lib.tls import Authority, World, ask_over, connect, frontend, openssl
from tls.records import Client, Hello, raw, record, still_serves, vector

JAVA = """
import java.io.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
public class Ask {
    public static void main(String[] words) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (InputStream file = new FileInputStream(words[0])) {
            store.setCertificateEntry("a", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trusted.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trusted.getTrustManagers(), null);
        for (String version : new String[] {"TLSv1.2", "TLSv1.3"})
            for (int time = 0; time < 2; time++) {
                java.net.Socket plain = new java.net.Socket("127.0.0.1", Integer.parseInt(words[1]));
                SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, "one.example", plain.getPort(), true);
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setProtocols(new String[] {version});
                parameters.setEndpointIdentificationAlgorithm("HTTPS");
                parameters.setApplicationProtocols(new String[] {"http/1.1"});
                socket.setSSLParameters(parameters);
                // Half a megabyte, and an end that is announced.
                byte[] body = new byte[500000];
                OutputStream out = socket.getOutputStream();
                out.write(("POST / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: " + body.length + "\\r\\n\\r\\n").getBytes());
                out.write(body);
                out.flush();
                String answer = new String(socket.getInputStream().readAllBytes());
                System.out.println(answer.substring(0, 15) + " " + answer.substring(answer.lastIndexOf('\\n') + 1));
                socket.close();
            }
    }
}
"""
GO = """
package main

import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "os"; "strings")

func main() {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(os.Args[1])
	pool.AppendCertsFromPEM(pem)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{RootCAs: pool, ServerName: "one.example", MinVersion: version, MaxVersion: version,
			NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(9)}
		for time := 0; time < 2; time++ {
			connection, failed := tls.Dial("tcp", "127.0.0.1:"+os.Args[2], config)
			if failed != nil { panic(failed) }
			fmt.Fprintf(connection, "POST / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Length: 500000\\r\\n\\r\\n")
			connection.Write(make([]byte, 500000))
			// A cut without a word is a failure.
			answer, failed := io.ReadAll(connection)
			if failed != nil { panic(failed) }
			text := string(answer)
			fmt.Println(text[:15], text[strings.LastIndex(text, "\\n")+1:])
			connection.Close()
		}
	}
}
"""
FACTS = "%[ssl_fc_protocol] %[ssl_fc_alpn] %[ssl_fc_is_resumed] %[req.body_size]"


def asks_as_others_do(binary, folder, command, seconds):
    """Requests with bodies in both versions, twice each: the second time with a resumed session."""
    authority = Authority(folder)
    text = frontend(f"ssl crt {authority.issue('one.example')} alpn http/1.1", FACTS, more="http-request wait-for-body time 5s")
    with World(binary, folder, text, extra="tune.bufsize 600000", defaults="timeout client 30s") as world:
        done = subprocess.run([*command, authority.certificate, str(world.port)], capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stderr[-2000:]
        expected = [f"HTTP/1.1 200 OK {version} http/1.1 {again} 500000" for version in ("TLSv1.2", "TLSv1.3") for again in (0, 1)]
        assert done.stdout.split("\n")[:4] == expected, done.stdout


def test_java_clients_resume_sessions(binary, folder):
    """JSSE, which resumes sessions of its context."""
    installed("javac")
    asks_as_others_do(binary, folder, ["java", "-XX:TieredStopAtLevel=1", folder.file("Ask.java", JAVA)], 60)


def test_go_clients_resume_sessions_and_get_a_close_notify(binary, folder):
    """crypto/tls, which reports an end without `close_notify` as an error."""
    installed("go")
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "CGO_ENABLED": "0"}
    program = os.path.join(folder.path, "ask")
    command = ["go", "build", "-o", program, folder.file("ask.go", GO)]
    try:
        built = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    except subprocess.TimeoutExpired:
        pytest.skip("Go's library is not built within two minutes here")
    assert built.returncode == 0, built.stderr
    asks_as_others_do(binary, folder, [program], 60)


def test_a_client_hello_in_several_records_is_accepted(binary, folder):
    """40 kB in three records are one ClientHello, up to the limit."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, frontend(f"ssl crt {site}")) as world:
        with Client(world.port) as client:
            whole = Hello(client.hello()).having(21, b"\0" * 40_000).bytes()
        body = whole[5:]
        pieces = [record(22, body[at:at + 16384]) for at in range(0, len(body), 16384)]
        assert len(pieces) == 3
        with socket.create_connection(("127.0.0.1", world.port), 5) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.05)
            answer = connection.recv(65536)
            assert answer[0] == 22 and answer[5] == 2, answer[:20]
        still_serves(world)


def test_sni_of_127_labels_is_accepted_and_of_255_refused(binary, folder):
    """A name of 127 labels is looked up like others; one of 255 labels is too long and refused at once."""
    authority = Authority(folder)
    longest = ".".join("a" * 127)
    sites = [authority.issue("one.example"), os.path.join(folder.path, "long.pem")]
    # Longer than a common name may be.
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", sites[1], "-out", authority.path("long"),
            "-subj", "/CN=long", "-addext", f"subjectAltName=DNS:*.{longest[2:]}")
    with open(sites[1], "a") as file:
        file.write(open(authority.path("long")).read())
    text = frontend(f"ssl crt {sites[0]} crt {sites[1]} {{}}", "%[ssl_fc_sni,length] %[ssl_f_s_dn(CN)]")
    with World(binary, folder, text.replace("{}", "strict-sni")) as world:
        answer = ask_over(connect(world.port, name=longest))
        assert answer.split(b"\r\n\r\n")[1].startswith(b"253 long"), answer
        with Client(world.port) as client:
            hello = Hello(client.hello())
        name = b".".join([b"a"] * 255)
        assert raw(world.port, hello.having(0, vector(b"\0" + vector(name))).bytes()) in (47, 50, 112)
        # 255 empty labels, and labels that are too long.
        for name in (b"." * 255, b"a" * 255, b"\xff" * 255):
            assert raw(world.port, hello.having(0, vector(b"\0" + vector(name))).bytes()) in (47, 50, 112), name
        still_serves(world)


def test_expired_certificates_are_still_served(binary, folder):
    """An expired certificate is still served: clients judge it. A new one takes its place without a restart."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    database, settings = folder.file("index", ""), folder.file("serial", "01\n")
    settings = folder.file("ca.cnf", f"[ca]\ndefault_ca=c\n[c]\ndatabase={database}\nserial={settings}\nnew_certs_dir={folder.path}\n"
                           "default_md=sha256\npolicy=p\ncopy_extensions=copy\nunique_subject=no\n[p]\nCN=supplied\nO=optional\n")
    request, signed = authority.path("r"), authority.path("soon")
    end = time.strftime("%y%m%d%H%M%SZ", time.gmtime(time.time() + 6))
    said = openssl("ca", "-batch", "-notext", "-config", settings, "-in", request, "-out", signed, "-cert", authority.certificate, "-keyfile", authority.key,
                   "-startdate", "200101000000Z", "-enddate", end)
    assert os.path.exists(signed) and os.path.getsize(signed), said
    soon = folder.file("soon.pem", open(signed).read() + open(authority.path("k")).read())
    path = os.path.join(folder.path, "cli")
    with World(binary, folder, frontend(f"ssl crt {soon}", "%[ssl_f_notafter]"), extra=f"stats socket {path} level admin") as world:
        def verifies():
            try:
                return b"200 OK" in ask_over(connect(world.port, authority))
            except OSError as error:
                assert "expired" in str(error), error
                return False
        assert verifies()
        assert wait_until(lambda: not verifies(), 15)
        assert end.encode() in ask_over(connect(world.port)), "it is shown to who does not look"
        new = "".join(open(site).read().split("\n\n"))
        assert "Transaction created" in ask(path, f"set ssl cert {soon} <<\n{new}\n")
        assert "Success" in ask(path, f"commit ssl cert {soon}")
        assert verifies()
