"""Configurations with a mistake: whether both programs refuse them, and for which lines.

Features that weir reports as not implemented yet are left out of the comparison.
"""
from reference.exchanges import only

HEAD = """defaults
    mode http
    timeout client 1s
    timeout server 1s
    timeout connect 1s
"""

FRONTEND = HEAD + "frontend f\n    bind 127.0.0.1:1\n"
BACKEND = HEAD + "backend b\n"
GLOBAL = "global\n"

_FRONTEND_LINES = """
nonsense|bind|bind 127.0.0.1|bind 127.0.0.1:x|bind 127.0.0.1:99999|bind 127.0.0.1:2 nonsense|bind 127.0.0.1:2 maxconn|bind 127.0.0.1:2 maxconn x|bind 300.1.1.1:2|bind :2-1|bind unix@|bind 127.0.0.1:2 name|bind 127.0.0.1:2 id 0|bind 127.0.0.1:2 backlog x|bind nobody.invalid:2|bind fd@x|bind 127.0.0.1:2 nice 9999|bind 127.0.0.1:2 defer-accept tfo
mode|mode nonsense|mode http x|mode tcp|mode health|maxconn|maxconn x|maxconn -1|maxconn 10|backlog x|default_backend|default_backend nobody|default_backend a b|use_backend|use_backend nobody if TRUE|use_backend f if TRUE|use_backend x|use_backend b if|use_backend b when TRUE
acl|acl a|acl a nonsense|acl a path|acl a path /x|acl 1bad,name path /x|acl a path -i|acl a path -f /nonexistent|acl a path -m nonsense x|acl a path_beg -i /x|acl a src 10.0.0.0/40|acl a src nonsense|acl a hdr(host)|acl a hdr host|acl a hdr_cnt(x) gt|acl a hdr_cnt(x) gt x|acl a dst_port 1:|acl a dst_port 5:1|acl a path_reg [|acl a path -M /x|acl a path -u x /x|acl if path /x|acl or path /x|acl TRUE path /x|acl a always_true|acl a str(x) x
http-request|http-request nonsense|http-request deny x|http-request deny if|http-request deny if nobody|http-request deny if { path }|http-request deny if { path /x|http-request deny if { nonsense }|http-request deny if TRUE or|http-request deny if ! TRUE|http-request deny if TRUE FALSE|http-request deny unless|http-request deny if TRUE && FALSE|http-request deny deny_status|http-request deny deny_status x|http-request deny deny_status 999|http-request deny deny_status 200|http-request deny status 201 default-errorfiles|http-request deny status 204 content-type a/b string x|http-request return status 204 content-type a/b string x|http-request return status 304 string x|http-request return status 204 content-type a/b lf-string x|http-request return status 205 content-type a/b string x|http-request return status 204 file /dev/null|http-request deny status 403 content-type text/plain|http-request deny string x|http-request deny content-type text/plain string x|http-request deny errorfile /nonexistent|http-request deny errorfiles nobody|http-request deny hdr a
http-request set-header|http-request set-header a|http-request set-header a b c|http-request set-header a "%[nonsense]"|http-request set-header a "%[path"|http-request set-header a "%[path,nonsense]"|http-request set-header a "%[path,lower(1)]"|http-request set-header a "%nonsense"|http-request set-header a "%"|http-request set-header a "%{+Z}[path]"|http-request set-header a "%[status]"|http-request set-header a "%[res.hdr(a)]"|http-request set-header "" b|http-request set-header a ""|http-request add-header a|http-request del-header|http-request del-header a -m|http-request del-header a -m nonsense|http-request del-header [ -m reg|http-request replace-header a|http-request replace-header a b|http-request replace-header a [ b|http-request replace-header a b c d|http-request set-path|http-request set-query|http-request set-method|http-request set-uri
http-request set-var|http-request set-var(x) str(a)|http-request set-var(nonsense.x) str(a)|http-request set-var(txn.) str(a)|http-request set-var(txn.a-b) str(a)|http-request set-var(txn.a)|http-request set-var(txn.a) nonsense|http-request set-var(txn.a) str(a) x|http-request set-var(txn.a,nonsense) str(a)|http-request set-var txn.a str(a)|http-request set-var-fmt(txn.a)|http-request set-var-fmt(txn.a) ""|http-request unset-var|http-request unset-var(x)|http-request redirect|http-request redirect location|http-request redirect nonsense x|http-request redirect location / code 200|http-request redirect location / code x|http-request redirect location / code|http-request redirect prefix|http-request redirect scheme https set-cookie|http-request return|http-request return status|http-request return status 99|http-request return status 999|http-request return nonsense|http-request return status 200 string x|http-request return status 200 content-type a string x file y|http-request return status 200 content-type a file /nonexistent|http-request return status 200 hdr a|http-request return status 200 hdr a b|http-request return content-type a lf-string "%[nonsense]"
http-request tarpit|http-request auth realm|http-request auth nonsense|http-request capture|http-request capture path|http-request capture path len|http-request capture path len x|http-request capture path id 3|http-request set-nice|http-request set-nice x|http-request set-log-level|http-request set-log-level nonsense|http-request set-tos x|http-request set-mark x|http-request set-timeout|http-request set-timeout nonsense 1s|http-request set-timeout server|http-request set-timeout server x|http-request set-src|http-request set-src nonsense|http-request wait-for-body|http-request wait-for-body time|http-request wait-for-body time x|http-request normalize-uri|http-request normalize-uri nonsense|http-request early-hint|http-request early-hint a|http-request strict-mode|http-request strict-mode x|http-request add-acl|http-request add-acl(x) y|http-request set-map(x) a|http-request del-map(x) a b|http-request use-service nonsense|http-request lua.x|http-request silent-drop x|http-request reject x
http-response|http-response nonsense|http-response set-status|http-response set-status x|http-response set-status 99|http-response set-status 200 reason|http-response set-status 200 reason x|http-response deny x|http-response set-header a "%[path]"|http-response set-header a "%[req.hdr(a)]"|http-response set-header a "%[res.hdr(a)]"|http-response tarpit|http-response auth|http-response deny if { path /x }|http-response capture res.hdr(a) len 3|http-response capture res.hdr(a) id 0|http-after-response|http-after-response nonsense|http-after-response deny|http-after-response set-header a b|http-after-response capture res.hdr(a) len 3
tcp-request|tcp-request nonsense|tcp-request connection|tcp-request connection nonsense|tcp-request connection accept|tcp-request connection reject if { path /x }|tcp-request connection accept x|tcp-request session nonsense|tcp-request session accept|tcp-request content|tcp-request content nonsense|tcp-request content accept if WAIT_END|tcp-request content accept if { res.payload(0,1) -m found }|tcp-request inspect-delay|tcp-request inspect-delay x|tcp-request inspect-delay 5s|tcp-request content set-var(txn.a) str(a)|tcp-request content capture path len 3|tcp-response|tcp-response content accept|tcp-response inspect-delay 1s|tcp-request connection expect-proxy layer4|tcp-request connection expect-proxy
log|log nonsense|log 127.0.0.1|log 127.0.0.1 local0|log 127.0.0.1 nonsense|log 127.0.0.1 local0 nonsense|log 127.0.0.1 local0 info nonsense|log 127.0.0.1 local0 info err|log 127.0.0.1 len x local0|log 127.0.0.1 len 100 local0|log 127.0.0.1 format nonsense local0|log 127.0.0.1 sample 1:0 local0|log 127.0.0.1 sample x local0|log global|log global x|log stdout format raw local0|log /dev/log local0|log ring@nobody local0|log-format|log-format "%nonsense"|log-format "%[nonsense]"|log-format "%[res.hdr(a)]"|log-format "%[path]"|log-format "%ci" x|log-format "%{+Q"|log-tag|log-tag x|unique-id-format|unique-id-format "%[path]"|unique-id-header|error-log-format "%ci"|log-format-sd "%ci"|option httplog|option tcplog|option httplog clf|option httplog nonsense
option|option nonsense|option httplogg|option forwardfor nonsense|option forwardfor except|option forwardfor except x|option forwardfor header|option originalto except 10.0.0.0/33|option http-keep-alive x|option httpclose|option http-server-close|option forceclose|option tcpka x|no option|no option nonsense|no option httplog|no option httplog clf|no bind 127.0.0.1:1|no maxconn|option accept-invalid-http-request|option dontlognull x|option redispatch|option redispatch x|option abortonclose|option contstats|option http-use-htx|option splice-auto|option socket-stats|option tcp-smart-accept|option http-tunnel|option log-health-checks|option allbackups|option persist|option checkcache|option transparent|option nolinger|option http-no-delay|option http-buffer-request|option http-ignore-probes|option http-use-proxy-header|option clitcpka|option srvtcpka|option independent-streams|option logasap|option dontlog-normal|option log-separate-errors|option prefer-last-server|option tcp-smart-connect|option splice-request|option http-pretend-keepalive|option disable-h2-upgrade|option idle-close-on-response|option h1-case-adjust-bogus-client|option srvlog
timeout|timeout nonsense 1s|timeout client|timeout client x|timeout client 1x|timeout client 1s x|timeout client -1|timeout client 99999999999|timeout client 50d|timeout http-request 1s|timeout tarpit 1s|timeout server 1s|timeout connect 1s|timeout client-fin 1s|timeout tunnel 1h|timeout queue 1s|timeout check 1s|timeout http-keep-alive 1s|clitimeout 1000|contimeout 1000|errorfile|errorfile 400|errorfile 400 /nonexistent|errorfile 999 /dev/null|errorfile x /dev/null|errorfile 400 /dev/null|errorloc 400|errorloc 999 /x|errorloc302 400 /x|errorloc303 400 /x|errorfiles|errorfiles nobody|http-error|http-error status 400|http-error status 200 string x content-type a|http-error status 999|http-error status 400 errorfile /dev/null|http-error status 400 content-type text/plain string x|http-error nonsense
capture|capture request|capture request header|capture request header a|capture request header a len|capture request header a len x|capture request header a len 3|capture response header a len 3|capture cookie a|capture cookie a len 3|capture cookie a len x|declare|declare capture|declare capture request|declare capture request len|declare capture request len 3|declare capture response len x|redirect|redirect location|redirect location /|redirect nonsense /|redirect location / if|monitor-uri|monitor-uri /x|monitor fail|monitor fail if|monitor fail if TRUE|monitor fail if nobody|monitor-net 1.1.1.1|stats|stats nonsense|stats enable|stats uri|stats uri /x|stats auth|stats auth x|stats auth a:b|stats realm|stats realm x|stats refresh|stats refresh x|stats scope|stats scope .|stats admin|stats admin if TRUE|stats hide-version|stats show-node|stats show-node a b|stats show-desc|stats show-legends|stats http-request|stats http-request deny|stats http-request nonsense|stats show-modules
id|id x|id 0|id 5|description|description a b|disabled|enabled|bind-process 1|grace 1|rate-limit|rate-limit sessions|rate-limit sessions x|rate-limit sessions 5|server s 127.0.0.1:1|balance roundrobin|cookie a insert|stick on src|stick-table type ip size 1|retries 3|fullconn 3|hash-type consistent|dispatch 127.0.0.1:1|source 127.0.0.1|use-server s if TRUE|http-reuse safe|persist rdp-cookie|force-persist if TRUE|ignore-persist if TRUE|dynamic-cookie-key x|http-check expect status 200|tcp-check connect|email-alert to x|compression algo gzip|filter|filter nonsense|filter trace|http-send-name-header x|load-server-state-from-file none|max-keep-alive-queue 3|external-check command x|acl a path /x # comment|description 'unterminated|description "unterminated|description \\|description a\\ b|description "$NOBODY"|description "${NOBODY-x}"|description "${NOBODY"|description "${9}"|tune.bufsize 1|reqadd X|rspadd X|reqrep a b|block if TRUE|appsession x|appsession x len 1 timeout 1
"""
_BACKEND_LINES = """
nonsense|server|server s|server s 127.0.0.1|server s 127.0.0.1:x|server s 127.0.0.1:99999|server s 127.0.0.1:1 nonsense|server s 127.0.0.1:1 weight|server s 127.0.0.1:1 weight x|server s 127.0.0.1:1 weight 257|server s 127.0.0.1:1 weight -1|server s 127.0.0.1:1 maxconn x|server s 127.0.0.1:1 maxconn|server s 127.0.0.1:1 minconn 5 maxconn 3|server s 127.0.0.1:1 backup x|server s 127.0.0.1:1 cookie|server s 127.0.0.1:1 id 0|server s 127.0.0.1:1 id x|server s 127.0.0.1:1 redir|server s 127.0.0.1:1 redir /x|server s 127.0.0.1:1 slowstart x|server s 127.0.0.1:1 source|server s 127.0.0.1:1 source 1.1.1.1|server s 127.0.0.1:1 source nonsense|server s 127.0.0.1:1 send-proxy-v2 proxy-v2-options nonsense|server s 127.0.0.1:1 track|server s 127.0.0.1:1 track b/x|server s 127.0.0.1:1 init-addr nonsense|server s 127.0.0.1:1 pool-max-conn x|server s 127.0.0.1:1 pool-purge-delay x|server s 127.0.0.1:1 max-reuse x|server s 127.0.0.1:1 error-limit 0|server s 127.0.0.1:1 observe nonsense|server s 127.0.0.1:1 on-error nonsense|server s 127.0.0.1:1 namespace x|server s 127.0.0.1:1 proto nonsense|server s 127.0.0.1:1 resolvers nobody|server s nobody.invalid:1|server s nobody.invalid:1 init-addr none|server s unix@/tmp/x|server s abns@x|server s ipv6@127.0.0.1:1|server s ipv4@127.0.0.1:1|server s *:1|server s :1|server s/x 127.0.0.1:1|server "" 127.0.0.1:1|server s 127.0.0.1:1-5|server s 127.0.0.1:+5|server s 127.0.0.1:0|server s 127.0.0.1:1 disabled enabled|server s 127.0.0.1:1 tfo|server s 127.0.0.1:1 maxqueue 5|server s 127.0.0.1:1 log-proto x|server s 127.0.0.1:1 ws nonsense|server s 127.0.0.1:1 socks4 x
server s 127.0.0.1:1%n    server s 127.0.0.1:2|server s 127.0.0.1:1 id 1%n    server t 127.0.0.1:2 id 1|server s 127.0.0.1:1 cookie a%n    server t 127.0.0.1:2 cookie a|cookie S insert%n    server t 127.0.0.1:2|default-server|default-server nonsense|default-server weight 5|default-server 127.0.0.1:1|default-server weight|server-template|server-template s|server-template s 3|server-template s 3 127.0.0.1:80|server-template s x 127.0.0.1:80|server-template s 3-1 127.0.0.1:80
balance|balance nonsense|balance roundrobin|balance roundrobin x|balance static-rr|balance leastconn|balance first|balance source|balance uri|balance uri len|balance uri len x|balance uri len 5|balance uri depth 3|balance uri whole|balance uri path-only|balance uri nonsense|balance url_param|balance url_param a|balance url_param a check_post|balance url_param a check_post 5|balance url_param a nonsense|balance hdr|balance hdr(a)|balance hdr()|balance hdr(a) use_domain_only|balance hdr(a) nonsense|balance random|balance random(3)|balance random(0)|balance random(x)|balance rdp-cookie|balance rdp-cookie(x)|balance hash path|balance hash|hash-type|hash-type nonsense|hash-type map-based|hash-type consistent djb2|hash-type consistent nonsense|hash-type consistent djb2 avalanche|hash-type consistent djb2 nonsense|hash-type consistent crc32 avalanche x|hash-balance-factor 50|hash-balance-factor 150|hash-balance-factor x
cookie|cookie a|cookie a nonsense|cookie a insert|cookie a insert rewrite|cookie a prefix rewrite|cookie a insert indirect nocache|cookie a rewrite indirect|cookie a prefix indirect|cookie a insert domain|cookie a insert domain x|cookie a insert maxidle|cookie a insert maxidle x|cookie a insert maxidle 10|cookie a insert maxlife 1d|cookie a insert attr|cookie a insert attr "a;b"|cookie a insert preserve|cookie a preserve|cookie a postonly|cookie a insert dynamic|cookie a insert httponly secure
retries|retries x|retries -1|retries 3 4|retry-on|retry-on nonsense|retry-on none|retry-on all-retryable-errors|retry-on 503 504|retry-on 200|retry-on none 503|fullconn|fullconn x|fullconn 5|http-reuse|http-reuse nonsense|http-reuse always|source|source nonsense|source 127.0.0.1|source 127.0.0.1 usesrc clientip|source 127.0.0.1 interface lo|source 127.0.0.1 nonsense|use-server|use-server s|use-server s if TRUE|use-server nobody if TRUE%n    server s 127.0.0.1:1|use-server s if TRUE%n    server s 127.0.0.1:1|dispatch|dispatch x|option redispatch|option redispatch -1|option redispatch x|option redispatch 5|no option redispatch|option httpchk|option transparent|force-persist|force-persist if|force-persist if TRUE|ignore-persist unless TRUE|persist|persist rdp-cookie|persist rdp-cookie(x)|persist nonsense|bind 127.0.0.1:1|maxconn 5|default_backend b|use_backend b if TRUE|monitor-uri /x|capture request header a len 3|option httplog|log-format "%ci"|unique-id-format "%ci"|option forwardfor|http-request deny|http-response deny|tcp-request connection accept|tcp-request session accept|tcp-request content accept|tcp-response content reject|http-send-name-header|http-send-name-header X|stats enable|email-alert mailers x|timeout client 1s|timeout http-request 1s|timeout queue 1s|max-keep-alive-queue 5|load-server-state-from-file|load-server-state-from-file nonsense|http-request set-header a "%[fe_name]"|http-request set-header a "%[srv_name]"|http-request set-header a "%[nbsrv(nobody)]"|http-request deny if { nbsrv(b) lt 1 }|http-request deny if { srv_is_up(b/nobody) }|http-request deny if { srv_is_up(b/s) }%n    server s 127.0.0.1:1|http-request deny if { http_auth(nobody) }
"""
_GLOBAL_LINES = """
nonsense|maxconn|maxconn x|maxconn -1|maxconn 100|maxconn 100 200|nbthread|nbthread x|nbthread 0|nbthread 1|nbthread 5000|nbproc 1|nbproc 2|daemon|daemon x|log|log nonsense|log 127.0.0.1 local0|log 127.0.0.1 local0 nonsense|log-tag|log-tag x|log-send-hostname|log-send-hostname x|chroot|chroot /nonexistent|user|user nobody-has-this-name|group nobody-has-this-name|uid x|uid 0|gid x|pidfile|pidfile /tmp/x|ulimit-n|ulimit-n x|ulimit-n 1000|stats|stats nonsense|stats socket|stats socket nonsense/|stats socket /tmp/weir-x.sock level nonsense|stats socket /tmp/weir-x.sock mode x|stats socket /tmp/weir-x.sock level admin|stats socket /tmp/weir-x.sock user nobody-has-this-name|stats timeout|stats timeout x|stats timeout 10s|stats maxconn|stats maxconn x|stats maxconn 5|stats bind-process 1
tune.bufsize|tune.bufsize x|tune.bufsize 0|tune.bufsize 16384|tune.maxrewrite|tune.maxrewrite 1024|tune.maxrewrite x|tune.http.maxhdr|tune.http.maxhdr 0|tune.http.maxhdr 100|tune.http.maxhdr 99999|tune.maxaccept|tune.maxaccept x|tune.maxpollevents 10|tune.http.cookielen 10|tune.http.logurilen 100|tune.nonsense 1|tune.rcvbuf.client 10000|tune.sndbuf.server x|tune.pipesize 100|tune.idletimer 1s|tune.idletimer x|tune.recv_enough 5|tune.runqueue-depth 20|tune.sched.low-latency on|tune.sched.low-latency x|tune.pattern.cache-size 5|tune.vars.global-max-size 100|tune.h2.initial-window-size 70000|tune.fd.edge-triggered on|tune.listener.multi-queue on|tune.listener.multi-queue x|tune.memory.hot-size 1|tune.pool-low-fd-ratio 5|tune.pool-low-fd-ratio 200|tune.buffers.limit 10|tune.buffers.reserve 3|tune.comp.maxlevel 5
spread-checks x|spread-checks 5|hard-stop-after|hard-stop-after x|hard-stop-after 5s|grace x|node|node a|node a/b|description|description x|cpu-map|cpu-map 1|cpu-map 1 0|cpu-map all 0-1|cpu-map x 0|cpu-map 1/1-2 0-1|ssl-default-bind-ciphers x|crt-base /x|ca-base /x|setenv|setenv A|setenv A b|presetenv A b|resetenv|unsetenv A|set-var|set-var proc.x|set-var proc.x str(a)|set-var txn.x str(a)|set-var proc.x nonsense|set-var-fmt proc.x "%[str(a)]"|server-state-file /x|server-state-base /x|unix-bind|unix-bind mode 600|unix-bind nonsense|noepoll|nopoll|nosplice|nogetaddrinfo|noreuseport|quiet|debug|zero-warning|strict-limits|no strict-limits|expose-experimental-directives|insecure-fork-wanted|insecure-setuid-wanted|master-worker|localpeer|localpeer x|busy-polling|profiling.tasks on|profiling.tasks x|maxconnrate x|maxconnrate 5|maxsessrate 5|maxpipes 5|maxsslconn 5|maxsslrate 5|maxcomprate 5|fd-hard-limit x|fd-hard-limit 1000|external-check|lua-load /nonexistent|h1-case-adjust|h1-case-adjust a B|h1-case-adjust host Host|h1-case-adjust-file /nonexistent|set-dumpable|wurfl-data-file x|thread-groups 1|thread-group 1 1|numa-cpu-mapping|default-path|default-path current|default-path nonsense|default-path config|uid 1 2|nbthread 1 1|log-tag a b|bind 127.0.0.1:1|mode http|timeout client 1s
"""


def _lines(text):
    return [line for line in text.replace("\n", "|").split("|") if line]


_OK = HEAD + "frontend f\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n    server s 127.0.0.1:2\n"
CONFIGURATIONS = {f"frontend: {line}": FRONTEND + "    " + line + "\nbackend b\n" for line in _lines(_FRONTEND_LINES)}
CONFIGURATIONS |= {f"backend: {line}": BACKEND + "    " + line.replace("%n", "\n") + "\n" + "frontend f\n    bind 127.0.0.1:1\n    default_backend b\n" for line in _lines(_BACKEND_LINES)}
CONFIGURATIONS |= {f"global: {line}": GLOBAL + "    " + line + "\n" + _OK for line in _lines(_GLOBAL_LINES)}
CONFIGURATIONS |= {
    "nothing": "", "only blanks": "\n\n   \n", "no section": "mode http\n", "unknown section": "nonsense\n    mode http\n", "unknown section with a name": _OK + "backendd x\n    server s 127.0.0.1:1\n",
    "no end of line": _OK.rstrip("\n"), "carriage returns": _OK.replace("\n", "\r\n"), "a nul": _OK + "    # \0\n", "tabs": _OK.replace("    ", "\t"), "frontend without a name": HEAD + "frontend\n    bind 127.0.0.1:1\n",
    "backend without a name": HEAD + "backend\n", "two names": HEAD + "frontend a b\n    bind 127.0.0.1:1\n", "bad name": HEAD + "frontend a/b\n    bind 127.0.0.1:1\n", "frontend twice": _OK + "frontend f\n    bind 127.0.0.1:3\n",
    "backend twice": _OK + "backend b\n", "listen as a frontend": _OK + "listen f\n    bind 127.0.0.1:3\n", "frontend as a backend": _OK + "frontend b\n    bind 127.0.0.1:3\n", "frontend without bind": HEAD + "frontend f\n",
    "backend without servers": HEAD + "frontend f\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n", "no timeouts": "frontend f\n    mode http\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n    mode http\n    server s 127.0.0.1:1\n",
    "modes that do not fit": HEAD + "frontend f\n    mode tcp\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n    server s 127.0.0.1:1\n", "modes that do not fit either": HEAD + "frontend f\n    bind 127.0.0.1:1\n    default_backend b\nbackend b\n    mode tcp\n    server s 127.0.0.1:1\n",
    "defaults with a rule": "defaults\n    http-request deny\n" + _OK, "named defaults with a rule": "defaults d\n    mode http\n    timeout client 1s\n    http-request deny\nfrontend f from d\n    bind 127.0.0.1:1\n", "from nobody": HEAD + "frontend f from nobody\n    bind 127.0.0.1:1\n",
    "from and nothing": HEAD + "frontend f from\n    bind 127.0.0.1:1\n", "defaults twice": "defaults d\n    mode http\ndefaults d\n    mode tcp\n" + _OK.replace("frontend f", "frontend f from d"), "defaults of defaults": "defaults a\n    mode http\ndefaults b from a\n    timeout client 1s\nfrontend f from b\n    bind 127.0.0.1:1\n",
    "if without an end": ".if 1\n" + _OK, "end without if": ".endif\n" + _OK, "else without if": ".else\n" + _OK, "bad condition": ".if nonsense(1)\n.endif\n" + _OK, "true condition": ".if 1\n" + _OK + ".endif\n", "false condition": ".if 0\nnonsense\n.endif\n" + _OK, "unknown directive": ".nonsense\n" + _OK,
    "notice": ".notice hello\n" + _OK, "warning": ".warning hello\n" + _OK, "alert": ".alert hello\n" + _OK, "many words": HEAD + "frontend f\n    bind 127.0.0.1:1\n    acl a path" + " /x" * 100 + "\n", "long line": HEAD + "frontend f\n    bind 127.0.0.1:1\n    description " + "x" * 3000 + "\n",
    "userlist": _OK + "userlist u\n    user a insecure-password b\n    group g users a\n", "userlist of nobody": _OK + "userlist u\n    group g users a\n", "userlist without a name": _OK + "userlist\n", "user without a password": _OK + "userlist u\n    user a\n", "user in no group": _OK + "userlist u\n    user a insecure-password b groups g\n",
    "http-errors": _OK + "http-errors e\n    errorfile 404 /dev/null\n", "http-errors without a name": _OK + "http-errors\n", "http-errors twice": _OK + "http-errors e\nhttp-errors e\n", "http-errors nonsense": _OK + "http-errors e\n    nonsense\n",
    "peers": _OK + "peers p\n    peer a 127.0.0.1:3\n", "global late": _OK + "global\n    maxconn 10\n", "rule order": HEAD + "frontend f\n    bind 127.0.0.1:1\n    use_backend b if TRUE\n    http-request deny\n    tcp-request connection accept\n    tcp-request content accept\nbackend b\n",
    "acl used before it is": HEAD + "frontend f\n    bind 127.0.0.1:1\n    http-request deny if late\n    acl late path /x\n", "reserved acl": HEAD + "frontend f\n    bind 127.0.0.1:1\n    acl HTTP path /x\n    http-request deny if HTTP\n", "same port twice": HEAD + "frontend f\n    bind 127.0.0.1:1\n    bind 127.0.0.1:1\n",
    "same port in two": HEAD + "frontend f\n    bind 127.0.0.1:1\nfrontend g\n    bind 127.0.0.1:1\n", "same id": HEAD + "frontend f\n    id 5\n    bind 127.0.0.1:1\nfrontend g\n    id 5\n    bind 127.0.0.1:2\n", "two mistakes": FRONTEND + "    nonsense\n    mode x\nbackend b\n    server s\n", "use_backend with a format": FRONTEND + "    use_backend %[path]\n", "ring": _OK + "ring r\n    size 1000\n", "program": _OK + "program p\n    command x\n", "cache": _OK + "cache c\n    total-max-size 1\n", "resolvers": _OK + "resolvers r\n    nameserver a 127.0.0.1:53\n",
}

STRICT = "what is no number, or too much, is refused"
DIFFERENT = {name: STRICT for name in (
    'frontend: bind 127.0.0.1:2 maxconn x',
    'frontend: bind 127.0.0.1:2 backlog x',
    'frontend: maxconn x',
    'frontend: maxconn -1',
    'frontend: backlog x',
    'frontend: http-request set-var-fmt(txn.a)',
    'frontend: http-request set-nice x',
    'frontend: capture request header a len x',
    'frontend: capture cookie a len x',
    'frontend: stats show-node a b',
    'backend: server s 127.0.0.1:1 weight',
    'backend: server s 127.0.0.1:1 weight x',
    'backend: server s 127.0.0.1:1 maxconn x',
    'backend: server s 127.0.0.1:1 maxconn',
    'backend: server s 127.0.0.1:1 pool-max-conn x',
    'backend: server s 127.0.0.1:1 max-reuse x',
    'backend: default-server weight',
    'backend: balance roundrobin x',
    'backend: hash-type consistent crc32 avalanche x',
    'backend: hash-balance-factor x',
    'backend: retries x',
    'backend: retries -1',
    'backend: fullconn x',
    'global: maxconn -1',
    'global: uid x',
    'global: gid x',
    'global: ulimit-n x',
    'global: tune.maxrewrite x',
    'global: tune.maxaccept x',
    'global: maxconnrate x',
    'global: fd-hard-limit x',
    'global: spread-checks x',
)}
DIFFERENT["frontend: external-check command x"] = "a setting ignored in frontends is not validated"
DIFFERENT |= {name: "3.5 has removed the word" for name in (
    'frontend: dispatch 127.0.0.1:1',
    'backend: option redispatch x',
    'global: nogetaddrinfo',
)}
DIFFERENT |= {name: only("2.6", "newer versions have removed the word") for name in ('frontend: bind-process 1', 'global: stats bind-process 1')}
DIFFERENT |= {name: only("2.6", "what is no number, or too much, is refused") for name in ('global: maxconn x', 'global: tune.sndbuf.server x')}
DIFFERENT |= {f"frontend: option {name}": only("3.2", "3.2 warns that frontends ignore the option, and then reports it as unknown") for name in (
    'allbackups', 'persist', 'checkcache', 'transparent', 'srvtcpka', 'prefer-last-server', 'tcp-smart-connect', 'http-pretend-keepalive')}
DIFFERENT["frontend: option abortonclose"] = only("3.2", "since 3.3 a frontend may have it (manual, \"option abortonclose\")")
DIFFERENT |= {
    "frontend: log ring@nobody local0": "a ring that is not there is an error",
    "ring": only("2.6", "a size that is too small is warned of, and the ring has the least size"),
}
DIFFERENT |= {name: only("2.6", "2.6 crashes") for name in (
    'frontend: http-request add-acl',
    'frontend: http-request set-map(x) a',
)}
DIFFERENT |= {name: "the fault is reported with its place, and together with others" for name in (
    'backend: source nonsense',
    'backend: server s 127.0.0.1:1 resolvers nobody',
    'global: h1-case-adjust-file /nonexistent',
    'unknown section with a name',
    'two names',
    'from and nothing',
    'userlist of nobody',
    'user in no group',
    'same id',
    'program',
)}
DIFFERENT |= {
    'frontend: use-server s if TRUE': 'what has no effect here is warned of, not read',
    'backend: default_backend b': 'what has no effect here is warned of, not read',
    'backend: use_backend b if TRUE': 'what has no effect here is warned of, not read',
    'frontend: http-request set-var-fmt(txn.a) ""': '3.4 and later refuse empty arguments',
    'global: tune.memory.hot-size 1': only("2.6", "2.6 lacks the word"),
}
