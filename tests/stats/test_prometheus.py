"""The exporter for Prometheus beside the reference program's: names, types, labels, order, filters, some values.


Where `promtool` is installed (Debian's package `prometheus`), it reads a scrape, too.
"""
import contextlib
import functools
import json
import os
import re
import socket
import subprocess
import time
import urllib.request

from lib.archive import newer_haproxy
from lib.needs import installed
from lib.program import ROOT, Program, ask, free_port, request, run, wait_until

# Metrics of the reference program without a counterpart in weir.
LEFT_OUT = {
    # weir does not pool or count pipes.
    "haproxy_process_pipes_used_total", "haproxy_process_pipes_free_total",
    # Keys of sessions with servers are not counted.
    "haproxy_process_current_backend_ssl_key_rate", "haproxy_process_max_backend_ssl_key_rate",
    # Compression is not implemented yet.
    "haproxy_process_http_comp_bytes_in_total", "haproxy_process_http_comp_bytes_out_total", "haproxy_process_limit_http_comp",
    "haproxy_process_current_zlib_memory", "haproxy_process_max_zlib_memory",
    # Peers are not implemented yet, and all jobs can be stopped.
    "haproxy_process_active_peers", "haproxy_process_connected_peers", "haproxy_process_unstoppable_jobs",
    # Busy polling does not exist, and failures are counted by name server only.
    "haproxy_process_busy_polling_enabled", "haproxy_process_failed_resolutions",
    # A listener's connections are its sessions.
    "haproxy_listener_connections_total",
}
# Extra counters that weir has. The others are of protocol engines that count nothing yet.
EXTRA = re.compile(r"haproxy_(frontend|listener|backend|server)_ssl_(sess|reused_sess|failed_handshake|ocsp_staple|failed_ocsp_staple)"
                   r"|haproxy_(frontend|backend)_h1_(open_connections|total_connections|total_streams|bytes_in|bytes_out|spliced_bytes_in"
                   r"|spliced_bytes_out)|haproxy_backend_h1_open_streams|haproxy_(frontend|backend)_h2_(headers_rcvd|data_rcvd|settings_rcvd"
                   r"|rst_stream_rcvd|goaway_rcvd|detected_conn_protocol_errors|detected_strm_protocol_errors|rst_stream_resp|goaway_resp"
                   r"|open_connections|backend_open_streams|total_connections|backend_total_streams)")
# Metrics added to the reference program after 2.6, which may be missing from an older one's response.
NEWER = re.compile(r"haproxy_process_(node|description|total_warnings)|haproxy_\w+_current_session_rate|haproxy_server_(active|backup)"
                   r"|haproxy_server_http_requests_total|haproxy_resolver_\w+")
# Metrics that only weir has.
OWN = re.compile(r"haproxy_sticktable_(evicted|refused)_total")

CONFIGURATION = """
global
    description all
    stats socket {cli} level admin
    nbthread 2
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
resolvers r1
    nameserver n1 127.0.0.1:1
frontend fe
    description front
    bind 127.0.0.1:{port} name l1
    option socket-stats
    http-request use-service prometheus-exporter if {{ path /metrics }}
    http-request deny if {{ path /deny }}
    http-request redirect location / if {{ path /redirect }}
    default_backend be
frontend ftcp
    mode tcp
    bind 127.0.0.1:{other}
    default_backend btcp
backend be
    stick-table type ip size 1k store http_req_cnt
    server s1 127.0.0.1:1 check inter 100 fall 1
    server s2 127.0.0.1:1 disabled
    server s3 127.0.0.1:1
    server s4 127.0.0.1:1 backup
    option redispatch
    retries 0
backend btcp
    mode tcp
    server s1 127.0.0.1:1 weight 7 maxconn 30 maxqueue 3
backend nosrv
frontend off
    disabled
    bind 127.0.0.1:{other}
"""


class Scraped:
    """A program with the configuration above, and its exporter's answers."""

    def __init__(self, binary, folder, name):
        self.port = free_port()
        self.cli = os.path.join(folder.path, f"{name}.sock")
        text = CONFIGURATION.format(cli=self.cli, port=self.port, other=free_port())
        self.program = Program(binary, "-f", folder.file(f"{name}.cfg", text))

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        checked = lambda: 'haproxy_server_status{proxy="be",server="s1",state="DOWN"} 1\n' in self.text("metrics=haproxy_server_status")
        if not wait_until(checked):
            raise AssertionError("the server that is checked is not down")
        return self

    def __exit__(self, *_):
        self.program.__exit__()

    def answer(self, query, method="GET"):
        """Status, content type and body of the answer to a query."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics?{query}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers["Content-Type"], ""

    def text(self, query=""):
        """The body of a response with status 200."""
        status, _, text = self.answer(query)
        assert status == 200, f"{query}: status {status}"
        return text

    def metrics(self, query=""):
        """Name -> (type, {series: value}), in the order in which they come."""
        return parsed(self.text(query))


def parsed(text):
    """Parses the metrics of a text. Every line must be valid, and the lines of a metric must be contiguous."""
    found, name = {}, None
    for line in text.splitlines():
        if title := re.fullmatch(r"# HELP (\w+) (.+)", line):
            name = title[1]
            assert name not in found, f"{name} stands twice"
            found[name] = (None, {})
        elif title := re.fullmatch(r"# TYPE (\w+) (gauge|counter)", line):
            assert title[1] == name, line
            found[name] = (title[2], {})
        else:
            label = r'\w+="(?:[^"\\\n]|\\["\\n])*"'
            sample = re.fullmatch(rf"(\w+)((?:\{{{label}(?:,{label})*\}})?) (-?\d+(?:\.\d+)?|NaN)", line)
            assert sample and sample[1] == name, f"not a line of the format: {line}"
            assert sample[2] not in found[name][1], f"twice: {line}"
            found[name][1][sample[2]] = sample[3]
    return found


def comparable(metrics):
    """Series without the values that belong to the program or to the machine."""
    plain = lambda series: re.sub(r'version="[^"]*"', 'version="V"', series)
    return {name: (kind, [plain(one) for one in series if 'resolver="default"' not in one])
            for name, (kind, series) in metrics.items() if name not in LEFT_OUT}


def same(worlds, query):
    """Checks for the same names in the same order, with the same types and series. Returns their number."""
    theirs, ours = (comparable(world.metrics(query)) for world in worlds)
    more = [name for name in ours if name not in theirs and not OWN.fullmatch(name)]
    assert not [name for name in more if is_newest() or not NEWER.fullmatch(name)], f"{query}: only weir has {more}"
    ours = {name: series for name, series in ours.items() if name in theirs}
    assert list(ours) == list(theirs), f"{query}: missing {[name for name in theirs if name not in ours]}, or in another order"
    for name, series in theirs.items():
        assert ours[name] == series, f"{query}: {name}: {series} there, {ours[name]} here"
    return len(theirs)


REFERENCE = os.environ.get("HAPROXY", "haproxy")


@functools.cache
def is_newest():
    """Whether the reference program has everything that weir has."""
    return tuple(map(int, re.search(r"version (\d+)\.(\d+)", run(REFERENCE, "-v")[1]).groups())) >= (3, 2)


@contextlib.contextmanager
def both(binary, folder, reference=None):
    """The reference program and weir, each with the configuration."""
    with Scraped(reference or installed(REFERENCE), folder, "reference") as theirs, Scraped(binary, folder, "weir") as ours:
        yield theirs, ours


def test_metrics_have_the_names_types_and_labels_of_haproxy(binary, folder):
    """Of everything."""
    with both(binary, folder) as worlds:
        count = same(worlds, "")
        assert count > 180, f"only {count} metrics"


def test_desc_labels_adds_descriptions_as_labels(binary, folder):
    """`desc-labels`, which 2.6 does not know and 3.2 does."""
    with both(binary, folder, newer_haproxy()) as worlds:
        assert same(worlds, "desc-labels&scope=frontend&scope=listener") > 40


def test_extra_counters_adds_the_counters_of_h1_h2_and_ssl(binary, folder):
    """`extra-counters`."""
    with both(binary, folder) as worlds:
        plain, ours = worlds[1].metrics(), worlds[1].metrics("extra-counters")
        extra = [name for name in ours if name not in plain]
        assert len(extra) == 15 + 4 * 5 + 26 and all(EXTRA.fullmatch(name) for name in extra), extra
        assert all(f'mod="{name.split("_")[2]}"' in series for name in extra for series in ours[name][1])
        if not is_newest():
            return
        theirs = worlds[0].metrics("extra-counters")
        for name in extra:
            assert ours[name][0] == theirs[name][0], f"{name}: {theirs[name][0]} there"
            # The reference program exports these for objects in other modes, too.
            assert set(ours[name][1]) <= set(theirs[name][1]), f"{name}: {theirs[name][1]} there, {ours[name][1]} here"


QUERIES = [
    "scope=global", "scope=server&scope=backend", "scope=*", "scope=", "scope=*&scope=", "scope=*&scope=server", "scope=&scope=listener",
    "scope=%73erver", "scope=sticktable", "scope=SERVER", "scope=nonsuch", "scope", "metrics", "metrics=", "metrics=,", "a=b=c", "x=%zz", "x",
    "metrics=haproxy_server_status", "metrics=-haproxy_server_status", "metrics=haproxy_server_status,-haproxy_server_status",
    "metrics=haproxy_server_status,haproxy_server_weight&metrics=-haproxy_server_status", "metrics=nonsuch",
    "metrics=haproxy_process_nbthread,haproxy_backend_status&scope=backend", "no-maint&scope=server", "no-maint=&scope=backend", "&&scope=frontend&",
]


def test_metric_filters_select_the_same_series_as_haproxy(binary, folder):
    """`scope`, `metrics`, `no-maint`, and refused queries."""
    with both(binary, folder) as worlds:
        for query in QUERIES:
            theirs, ours = (world.answer(query)[:2] for world in worlds)
            if not is_newest() and re.search("metrics|resolver|a=b", query):
                continue  # 2.6 has no filter by name
            assert ours[0] == theirs[0], f"{query}: {theirs} there, {ours} here"
            if ours[0] == 200:
                assert ours == theirs, f"{query}: {theirs} there, {ours} here"
                same(worlds, query)


def test_the_metrics_parameter_selects_series_by_name(binary, folder):
    """`metrics`, whatever the reference program is."""
    with Scraped(binary, folder, "weir") as ours:
        wanted = ["haproxy_process_nbthread", "haproxy_server_weight"]
        assert list(ours.metrics("metrics=" + ",".join(wanted))) == wanted
        assert list(ours.metrics("scope=server&metrics=" + ",".join(wanted))) == wanted[1:]
        assert "haproxy_server_weight" not in ours.metrics("metrics=-haproxy_server_weight")


VALUES = """frontend_status frontend_http_responses_total frontend_requests_denied_total frontend_limit_session_rate listener_status
backend_status backend_agg_server_status backend_agg_check_status backend_http_responses_total backend_active_servers backend_backup_servers
backend_weight backend_uweight backend_connection_errors_total server_status server_weight server_limit_sessions server_queue_limit
server_current_throttle server_check_status server_check_failures_total server_active server_backup server_uweight
server_connection_errors_total sticktable_size sticktable_used""".split()


def test_metrics_have_the_values_of_haproxy_after_the_same_traffic(binary, folder):
    """For values that do not depend on time."""
    with both(binary, folder) as worlds:
        for world in worlds:
            for path in ["/deny", "/deny", "/redirect", "/", "/"]:
                request(world.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            # An exchange counts when its stream ends, which may be after its client has read the answer.
            failed = 'haproxy_frontend_http_responses_total{proxy="fe",code="5xx"} 2\n'
            assert wait_until(lambda: failed in world.text()), "two requests without a server"
        theirs, ours = (world.metrics() for world in worlds)
        for name in (f"haproxy_{name}" for name in VALUES):
            if name not in theirs and not is_newest():
                continue
            there, here = (dict(found[name][1]) for found in (theirs, ours))
            for found in (there, here):
                # Counts of failed checks, and of queries by this script.
                found.pop('{proxy="be",server="s1"}' if name.endswith("check_failures_total") else None, None)
                found.pop('{proxy="fe",code="2xx"}', None)
            assert there == here, f"{name}: {there} there, {here} here"
        assert ours["haproxy_frontend_requests_denied_total"][1]['{proxy="fe"}'] == "2"


def test_histograms_are_cumulative_and_count_ended_requests(binary, folder):
    """`histograms`: classic ones, of frontends, backends and servers; without the parameter none, as in the reference program."""
    with Scraped(binary, folder, "weir") as ours:
        assert " histogram\n" not in ours.text("extra-counters")
        for path in ["/deny", "/redirect", "/", "/"]:
            request(ours.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        text = ours.text("histograms&metrics=haproxy_frontend_total_duration_seconds,haproxy_backend_queue_duration_seconds")
        buckets = re.findall(r'(\w+)_bucket{proxy="(\w+)",le="([^"]+)"} (\d+)', text)
        count = {(name, proxy): int(value) for name, proxy, value in re.findall(r'(\w+)_count{proxy="(\w+)"} (\d+)', text)}
        # One request was refused, one redirected, two found no server, and each scrape before this one is a request, too.
        assert count["haproxy_frontend_total_duration_seconds", "fe"] >= 5, text
        assert count["haproxy_frontend_total_duration_seconds", "ftcp"] == 0, text
        # The two requests found no server that took their connections.
        assert count["haproxy_backend_queue_duration_seconds", "be"] == 2, text
        for (name, proxy), total in count.items():
            mine = [(float(le), int(value)) for one, of, le, value in buckets if (one, of) == (name, proxy)]
            assert len(mine) == 22 and mine == sorted(mine), mine
            values = [value for _, value in mine]
            assert values == sorted(values) and values[-1] == total, (name, proxy, mine)


def test_the_exporter_answers_post_head_and_http_1_0(binary, folder):
    with both(binary, folder) as worlds:
        for world in worlds:
            assert world.answer("", "POST")[0] == 200
            head = request(world.port, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"haproxy_" not in head, head
            assert world.answer("")[1] == "text/plain; version=0.0.4"
        # Some releases of the reference program send chunks to HTTP/1.0 clients.
        old = request(worlds[1].port, b"GET /metrics?scope=global HTTP/1.0\r\n\r\n")
        assert old.startswith(b"HTTP/1.1 200 OK\r\n") and b"transfer-encoding" not in old.lower(), old


def test_promtool_accepts_the_metrics(binary, folder):
    """The parser of Prometheus itself."""
    tool = installed("promtool")
    with Scraped(binary, folder, "weir") as ours:
        text = ours.text("desc-labels&extra-counters&histograms")
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
    # 3: promtool recommends other names.
    assert done.returncode in (0, 3), done.stdout + done.stderr
    broken = subprocess.run([tool, "check", "metrics"], input=text + 'x{a="b} 1\n', capture_output=True, text=True, timeout=30)
    assert broken.returncode == 1, "it takes anything"


DASHBOARD = os.path.join(ROOT, "packaging", "grafana", "weir.json")


def questions():
    """The title and expression of each dashboard panel with a query."""
    with open(DASHBOARD) as file:
        dashboard = json.load(file)
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_the_dashboard_queries_existing_metrics(binary, folder):
    """Each metric in an expression of the dashboard is scraped, and has each label that the expression names."""
    with Scraped(binary, folder, "weir") as ours:
        text = ours.text("histograms")
    there = {}
    for line in text.splitlines():
        if sample := re.match(r"(\w+)({.*})? ", line):
            there.setdefault(sample[1], set()).update(re.findall(r'[{,](\w+)="', sample[2] or ""))
    asked = set()
    for title, expression in questions():
        names = re.findall(r"haproxy_\w+", expression)
        assert names, (title, expression)
        for name in names:
            assert name in there, f"{title}: nothing is called {name}"
            grouped = re.findall(r"by \(([^)]*)\)", expression)
            wanted = {label.strip() for group in grouped for label in group.split(",")} | set(re.findall(r"(\w+)=~?\"", expression))
            missing = wanted - there[name] - {"instance"}
            assert not missing, f"{title}: {name} has no label {missing}"
        asked.update(names)
    assert len(asked) > 25, asked


class Prometheus:
    """A real one, which scrapes this port each second, with the histograms."""

    def __init__(self, folder, port, *options):
        server = installed("prometheus")
        job = ('{"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [{"job_name": "weir", "params": {"histograms": [""]},'
               ' "static_configs": [{"targets": ["127.0.0.1:%d"]}]}]}' % port)
        self.port = free_port()
        self.command = [server, "--config.file", folder.file("prometheus.yml", job), "--storage.tsdb.path", os.path.join(folder.path, "tsdb"),
                        "--web.listen-address", f"127.0.0.1:{self.port}", "--log.level", "error", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)

    def answers(self, expression):
        """Labels and value of each result; nothing while it has only begun."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=10) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            # 503: it has only begun. A wrong expression is never answered.
            assert error.code == 503, (expression, error.read())
            return []
        except OSError:
            return []
        return [(sample["metric"], sample["value"][1]) for sample in found["data"]["result"] if sample["value"][1] != "NaN"]


def test_prometheus_answers_the_dashboard(binary, folder):
    """A real Prometheus scrapes weir under load; each panel has an answer, except those for queues of servers, which
    stay empty."""
    with Scraped(binary, folder, "weir") as ours, Prometheus(folder, ours.port) as prometheus:
        waiting = {}
        for title, expression in questions():
            for name, value in (("$instance", ".*"), ("$proxy", ".*"), ("$__rate_interval", "1m")):
                expression = expression.replace(name, value)
            waiting[expression] = title

        def all_answered():
            request(ours.port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            for expression in [one for one in waiting if prometheus.answers(one)]:
                del waiting[expression]
            # No server takes a connection here, so none connects or responds.
            return all(re.search("(connect|response)_duration", one) for one in waiting)
        assert wait_until(all_answered, 60), list(waiting.values())


def test_prometheus_reads_native_histograms(binary, folder):
    """With `--enable-feature=native-histograms` it prefers Protocol Buffers and gets them: native histograms, and
    everything else with the same values as in text."""
    with Scraped(binary, folder, "weir") as ours, Prometheus(folder, ours.port, "--enable-feature=native-histograms") as prometheus:
        for _ in range(20):
            # Slow requests. The time of a request begins with its first byte.
            with socket.create_connection(("127.0.0.1", ours.port), 10) as client:
                client.sendall(b"GET /deny HTTP/1.1\r\nHost: x\r\n")
                time.sleep(0.02)
                client.sendall(b"Connection: close\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 403")
        name = "haproxy_frontend_total_duration_seconds"

        def value(expression):
            found = {labels.get("proxy"): float(number) for labels, number in prometheus.answers(expression)}
            return found.get("fe")
        # Scrapes are requests, too.
        assert wait_until(lambda: (value(f"histogram_count({name})") or 0) > 20, 30), prometheus.answers(name)
        assert value(f"histogram_count({name}{{proxy='ftcp'}})") is None and not prometheus.answers(f"{name}_bucket")
        middle, most = value(f"histogram_quantile(0.5, {name})"), value(f"histogram_quantile(1, {name})")
        mean = value(f"histogram_sum({name}) / histogram_count({name})")
        assert 0.01 < middle <= most < 5 and 0.005 < mean < 5, (middle, most, mean)
        # The median matches the program's own within two buckets. Scrapes are few, and may take longer.
        shown = [line.split(",") for line in ask(ours.cli, "show latency").splitlines() if line.startswith("fe,FRONTEND,total,")]
        assert abs(middle / (int(shown[0][5]) / 1e6) - 1) < 0.2, (middle, shown)
        # All other values are the same in both formats.
        assert value("haproxy_frontend_requests_denied_total") == 20
        text = ours.text("histograms")
        weights = re.findall(r'haproxy_server_weight{proxy="(\w+)",server="(\w+)"} (\d+)', text)
        there = [(labels["proxy"], labels["server"], number) for labels, number in prometheus.answers("haproxy_server_weight")]
        assert sorted(weights) == sorted(there) and weights, (weights, there)
        states = {labels["state"]: number for labels, number in prometheus.answers("haproxy_frontend_status{proxy='fe'}")}
        assert states == {"UP": "1", "DOWN": "0"}, states
        kinds = json.load(urllib.request.urlopen(f"http://127.0.0.1:{prometheus.port}/api/v1/metadata", timeout=10))["data"]
        titles = dict(re.findall(r"# TYPE (\w+) (\w+)", text))
        wrong = {metric: known for metric, known in kinds.items() if metric in titles and known[0]["type"] != titles[metric]}
        assert not wrong and len(set(kinds) & set(titles)) > 100, (wrong, len(kinds))
