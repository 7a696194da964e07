"""The address that requests reach, if the address or port of a server is not from its line."""
import contextlib
import os
import socket

from lib.name_server import A, SRV, NameServer, address, record, service
from lib.origin import Origin
from lib.program import wait_until
from resolvers.world import World

ONE, TWO, THREE = "127.0.0.10", "127.0.0.11", "127.0.0.12"
DNS = "resolvers r init-addr none resolve-prefer ipv4"
WORDS = "accepted_payload_size 8192"
TURNS = "balance roundrobin\n    "


class Origins(contextlib.ExitStack):
    """Servers that answer each request with their own address and port."""

    def __init__(self, *hosts):
        super().__init__()
        self.places = [self.open(host) for host in hosts]

    def open(self, host, port=0):
        """Starts one more server. Returns its address."""
        origin = self.enter_context(Origin(host=host, port=port))
        place = f"{host}:{origin.port}"
        origin.answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(place)}\r\n\r\n{place}".encode()
        return place

    @staticmethod
    def port(place):
        """The port of a place."""
        return int(place.rpartition(":")[2])


def arrival(world, path="/"):
    """The server address reached by a request, or the status of the response. Empty without a response."""
    with socket.create_connection(("127.0.0.1", world.port), timeout=5) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        with connection.makefile("rb") as stream:
            status, length = stream.readline().decode(), stream.readline().decode()
            # A server of TCP mode stays connected.
            is_answer = " 200 " in status and length.startswith("Content-Length:") and stream.readline() == b"\r\n"
            return stream.read(int(length.split(":")[1])).decode() if is_answer else status[9:12]


def reaches(world, *places, seconds=5):
    """Waits until requests reach exactly these servers. False on timeout."""
    found = set()

    def is_there():
        found.clear()
        found.update(arrival(world) for _ in range(4 * len(places)))
        return found == set(places)

    return wait_until(is_there, seconds) or print(f"reached {found}, not {places}; {world.said[-6:]}")


def answer_with(*records, brings=True):
    """An SRV answer of hosts and ports, with or without their addresses."""
    def answer(query):
        beside = [record(host, A, address(ip)) for host, _, ip in records] if brings else []
        return query.answer([service(host, port) for host, port, _ in records], additional=beside)
    return answer


def named(brings, **services):
    """A zone of services with their records."""
    zone = {}
    for name, records in services.items():
        zone[f"_{name}._tcp.test", SRV] = answer_with(*records, brings=brings)
        zone.update({(host, A): [ip] for host, _, ip in records})
    return zone


def test_requests_reach_the_port_of_an_srv_record(binary, folder):
    """The port of the record outweighs that of the line, over HTTP and TCP, with checks and without; logs and statistics agree."""
    cases = [("", "", ""), ("", "check inter 100ms", ""), ("", "", "mode tcp"), (":1", "check inter 100ms", ""),
             (":+7", "", ""), (":-7", "", "http-reuse always")]
    with Origins(ONE, TWO) as origins:
        first, second = origins.places
        records = [("a.test", origins.port(first), ONE)], [("b.test", origins.port(second), TWO)]
        for brings in (True, False):
            for port, words, lines in cases:
                ns = NameServer(named(brings, h=records[0]))
                ns.zone["b.test", A] = [TWO]
                lines = f"{TURNS}{lines}\n    log-format at:%si:%sp\n    server-template s 2 _h._tcp.test{port} {DNS} {words}"
                with World(binary, folder, [ns], lines, WORDS) as world:
                    assert reaches(world, first), (port, words, lines)
                    assert world.has_said(f"at:{first}"), world.said
                    ns.zone["_h._tcp.test", SRV] = answer_with(*records[1], brings=brings)
                    assert reaches(world, second), (port, words, lines)
                    shown = next(f"{row['srv_addr']}:{row['srv_port']}" for row in map(world.state, ("s1", "s2")) if row["srv_addr"] != "-")
                    assert shown == second, shown


def test_unassigned_servers_of_an_srv_template_show_the_configured_port(binary, folder):
    """`srv_port` of a server without a record; after a record is removed it is 0."""
    with Origins(ONE) as origins:
        ns = NameServer(named(True, h=[("a.test", origins.port(origins.places[0]), ONE)]))
        lines = f"server-template s 2 _h._tcp.test:77 {DNS}\n    server-template t 1 _g._tcp.test {DNS}"
        with World(binary, folder, [ns], lines, WORDS) as world:
            assert reaches(world, *origins.places)
            assert [world.state(name)["srv_port"] for name in ("s2", "t1")] == ["77", "0"]
            ns.zone["_h._tcp.test", SRV] = 3
            assert world.is_at("-", "s1") and world.state("s1")["srv_port"] == "0", world.state("s1")


def test_srv_records_of_one_host_with_several_ports_get_a_server_each(binary, folder):
    """In one service, in two services of a backend, beside a server of that name, and without additional records."""
    with Origins(ONE, ONE, ONE) as origins:
        ports = [origins.port(place) for place in origins.places]
        records = [("a.test", port, ONE) for port in ports]
        for brings in (True, False):
            lines = f"{TURNS}server-template s 4 _h._tcp.test {DNS} check inter 100ms"
            with World(binary, folder, [NameServer(named(brings, h=records))], lines, WORDS) as world:
                assert reaches(world, *origins.places)
                assert world.is_at("-", "s4")
            lines = f"{TURNS}server-template s 2 _h._tcp.test {DNS}\n    server-template t 1 _g._tcp.test {DNS}"
            with World(binary, folder, [NameServer(named(brings, h=records[:2], g=records[2:]))], lines, WORDS) as world:
                assert reaches(world, *origins.places)
            lines = f"{TURNS}server n a.test:{ports[0]} {DNS}\n    server-template s 2 _h._tcp.test {DNS}"
            with World(binary, folder, [NameServer(named(brings, h=records[1:]))], lines, WORDS) as world:
                assert reaches(world, *origins.places)
        # Servers of a name share no address, whatever their ports are (manual, "allow-dup-ip").
        lines = f"{TURNS}server n a.test:{ports[0]} {DNS}\n    server m a.test:{ports[1]} {DNS}"
        with World(binary, folder, [NameServer(named(False, h=records))], lines, WORDS) as world:
            assert reaches(world, origins.places[0]) and world.is_at("-", "m")


def test_set_server_addr_changes_ports_and_port_mappings(binary, folder):
    """`set server addr … port`, from and to mappings, on lines with and without a port."""
    with Origins(ONE, TWO, TWO) as origins:
        one, two, other = origins.places
        lines = f"log-format at:%si:%sp\n    http-reuse always\n    server s {ONE}\n    server t {ONE}:{origins.port(one)} check inter 100ms disabled"
        with World(binary, folder, [NameServer()], lines) as world:
            mapped = origins.open(ONE, world.port)

            def change(host, port, *said, server="s"):
                answer = world.ask(f"set server l/{server} addr {host} port {port}")
                assert answer == ", ".join(said) + " by 'stats socket command'\n\n", answer

            def offset(place):
                return f"{origins.port(place) - world.port:+}"

            assert reaches(world, mapped) and world.state()["srv_port"] == "0"
            to_two = f"IP changed from '{ONE}' to '{TWO}'"
            change(TWO, origins.port(two), to_two, f"port changed from '+0' to '{origins.port(two)}'")
            assert reaches(world, two) and world.has_said(f"at:{two}") and world.state()["srv_port"] == str(origins.port(two))
            change(TWO, offset(other), f"port changed from '{origins.port(two)}' to '{offset(other)}'")
            assert reaches(world, other) and world.has_said(f"at:{other}"), world.said
            assert world.state()["srv_port"] == offset(other), "with a sign, for state files"
            assert world.ask(f"set server l/s addr {TWO} port {offset(other)}") == "nothing changed\n\n"
            change(TWO, offset(two), f"port changed from '{offset(other)}' to '{offset(two)}'")
            assert reaches(world, two)
            change(ONE, "+0", f"IP changed from '{TWO}' to '{ONE}'", f"port changed from '{offset(two)}' to '+0'")
            assert reaches(world, mapped) and world.state()["srv_port"] == "0"
            # A check must know its port: nothing changes, the address included.
            refused = world.ask(f"set server l/t addr {TWO} port +1")
            assert refused.startswith("can't change <port> to port map because"), refused
            assert (world.state("t")["srv_addr"], world.state("t")["srv_port"]) == (ONE, str(origins.port(one)))
            world.ask(f"set server l/t check-port {origins.port(one)}")
            change(ONE, offset(one), f"port changed from '{origins.port(one)}' to '{offset(one)}'", server="t")
            world.ask("set server l/s state maint")
            world.ask("enable server l/t")
            assert reaches(world, one) and wait_until(lambda: "UP" in world.status("t")), world.status("t")


def test_dns_answers_keep_the_ports_set_by_set_server_addr(binary, folder):
    """A new address of a name keeps the port set by an operator; a server of an SRV record gets the port of its record again."""
    with Origins(ONE, TWO, ONE) as origins:
        one, two, of_service = origins.places
        ns = NameServer(named(True, h=[("h.test", origins.port(of_service), ONE)]) | {("a.test", A): [ONE]})
        lines = f"server s a.test:1 {DNS}\n    server-template t 1 _h._tcp.test {DNS} disabled"
        with World(binary, folder, [ns], lines, WORDS) as world:
            assert world.is_at(ONE) and world.is_at(ONE, "t1")
            world.ask(f"set server l/s addr {ONE} port {origins.port(one)}")
            assert reaches(world, one)
            ns.zone["a.test", A] = [TWO]
            world.ask(f"set server l/s addr {ONE} port {origins.port(two)}")
            assert reaches(world, two)
            ns.zone["a.test", A] = []
            assert world.is_at("-") and world.state()["srv_port"] == str(origins.port(two))
            assert world.ask("set server l/t1 fqdn a.test") == "set server <b>/<s> fqdn failed because SRV resolution is configured.\n\n"
            said = world.ask(f"set server l/t1 addr {TWO} port 1")
            assert said == f"IP changed from '{ONE}' to '{TWO}', port changed from '{origins.port(of_service)}' to '1' by 'stats socket command'\n\n", said
            world.ask("enable server l/t1")
            assert reaches(world, of_service)


def test_state_files_keep_ports_and_port_mappings(binary, folder):
    """The port of an operator or of a service outlives a reload, and so does a mapping."""
    path = os.path.join(folder.path, "ports")
    with Origins(ONE, ONE, ONE) as origins:
        one, two, of_service = origins.places
        silent = NameServer({("_h._tcp.test", SRV): lambda query: None})
        ns = NameServer(named(True, h=[("h.test", origins.port(of_service), ONE)]))
        lines = f"load-server-state-from-file global\n    use-server %[path,field(2,/)] if TRUE\n    server a {ONE}\n    server b {ONE}:+1\n    " \
                f"server c {ONE}:7\n    server d {ONE}:+1\n    server-template t 1 _h._tcp.test resolvers r init-addr last,none"
        with World(binary, folder, [ns], lines, WORDS, globals=f"server-state-file {path}") as world:
            assert wait_until(lambda: arrival(world, "/t1") == of_service)
            world.ask(f"set server l/a addr {ONE} port {origins.port(one)}")
            world.ask(f"set server l/b addr {ONE} port {origins.port(two)}")
            world.ask(f"set server l/c addr {ONE} port {origins.port(one) - world.port:+}")
            assert [arrival(world, f"/{server}") for server in "abc"] == [one, two, one]
            states = world.ask("show servers state")
            port = world.port
        with open(path, "w", encoding="utf-8") as file:
            file.write(states.rstrip("\n") + "\n")
        with World(binary, folder, [silent], lines, "hold timeout 10s", globals=f"server-state-file {path}") as world:
            moved = origins.open(ONE, world.port + origins.port(one) - port)
            mapped = origins.open(ONE, world.port + 1)
            assert [arrival(world, f"/{server}") for server in ("a", "b", "c", "d", "t1")] == [one, two, moved, mapped, of_service]
