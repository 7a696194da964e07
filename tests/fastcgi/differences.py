"""Where weir deliberately differs from HAProxy 3.2. A test names the row and states both verdicts ([`World.want`])."""

DIFFERENCES = {
    # Configuration.
    "max-reqs": "HAProxy warns that it ignores max-reqs without multiplexing, and then refuses the configuration; weir only warns",
    # Parameters.
    "httpoxy": "HAProxy passes the header Proxy as HTTP_PROXY where pass-header names it; scripts would take their proxy from a client",
    "empty parameter": "HAProxy drops a parameter whose last rule is empty; the manual says that only the empty rule is ignored",
    "replaced parameters": "HAProxy sends REQUEST_METHOD twice where a rule sets it",
    "length of a body": "HAProxy sends CONTENT_LENGTH twice where a rule sets another one; weir sends that of the body",
    "parameters of any size": "HAProxy encodes all parameters into one buffer and answers 500 where they do not fit; weir sends several records",
    "path error": "a path that cannot be decoded safely is the client's fault, so 400 is as right as HAProxy's 500",
    # Bodies.
    "length required": "HAProxy answers 400 to a body of unknown length above its buffer; 411 says what the client has to do",
    "upload not read": "HAProxy may answer 502, close the client's connection or wait where an application answers, and does not read",
    # Responses.
    "unfinished head": "HAProxy waits for timeout server where STDOUT ends inside the head; weir answers 502 at once",
    "status": "HAProxy forwards a Status that no client can parse, or takes it for 200; weir answers 502",
    "body not allowed": "HAProxy answers 502 to a body after HEAD, or with 204 or 304; weir drops the body, as its records bound it",
    "control characters": "HAProxy forwards a NUL in a field; weir answers 502",
    "excess": "HAProxy answers 502 where more than Content-Length arrives with the head; cutting it there is as safe",
    # Records.
    "version": "HAProxy ignores the version of records; another version is another protocol, so weir answers 502",
    "not FastCGI": "HAProxy waits for timeout server where HTTP arrives instead of records; weir answers 502 at once",
    # Connections.
    "abort": "HAProxy reuses a connection without ABORT_REQUEST while the application still works for a client that left",
    "reset before the head": "HAProxy writes CD where a client resets its connection before the head of the response",
    "multiplexing refused": "HAProxy closes the client's connection without an answer where the application refuses to multiplex",
    "values": "HAProxy treats a broken answer to GET_VALUES as a failed connection, retries, and answers 503; weir may answer 502 as well",
    "values in time": "HAProxy gives requests to a connection by max-reqs until the answer to GET_VALUES is there",
    "repeats on kept connections": "HAProxy leaves it to the client to repeat a GET whose kept connection ended under it; weir may repeat it",
    "retries on kept connections": "HAProxy closes the client's connection where a kept one ends under a request, whatever retry-on says",
    # STDERR.
    "lines": "HAProxy logs a record of STDERR as one message with dots for line ends; weir logs lines",
    # Servers.
    "hidden headers": "HAProxy removes headers before it knows the server; an HTTP server of the backend needs Authorization",
    "body to HTTP": "HAProxy loses a chunked body on its way to an HTTP server of such a backend",
}
