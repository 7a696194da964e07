/* A SPOP agent (SPOE.txt 1.2, section 3) for measurements: it answers each NOTIFY at once, and all frames of one read in one write.
 * The ACK is empty or sets one variable: VARIABLE is SCOPE.NAME=VALUE with the scope proc, sess, txn, req or res. A value of digits
 * only is an integer, any other a string. The agent offers pipelining, answers health checks, and accepts frames of up to 65,532 bytes.
 * build: cc -O2 -pthread -o spop_agent spop_agent.c
 * usage: spop_agent PORT [empty|VARIABLE [THREADS]] */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HAPROXY_HELLO = 1, HAPROXY_DISCONNECT, NOTIFY, AGENT_HELLO = 101, AGENT_DISCONNECT, ACK };
enum { FRAME_BYTES = 65532, IN_BYTES = FRAME_BYTES + 4, OUT_LIMIT = 1 << 20, EVENTS = 256 };
enum { STATUS_NORMAL, STATUS_INVALID_FRAME = 4 };

struct conn { int fd, in, closing; size_t out_at, out_len, out_room; char *out; char buf[IN_BYTES]; };

static int port;
static char actions[512];
static size_t actions_len;

static size_t put_varint(char *at, uint64_t value) {
	size_t n = 0;
	if (value < 240) { at[0] = value; return 1; }
	at[n++] = value | 240;
	for (value = (value - 240) >> 4; value >= 128; value = (value - 128) >> 7) at[n++] = value | 128;
	at[n++] = value;
	return n;
}

/* The byte after the varint at `at`, or NULL if it does not end before `end`. */
static const uint8_t *take_varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
	if (at >= end) return NULL;
	*value = *at++;
	if (*value < 240) return at;
	for (int shift = 4; at < end && shift < 60; shift += 7) {
		*value += (uint64_t)*at << shift;
		if (*at++ < 128) return at;
	}
	return NULL;
}

static size_t put_text(char *at, const char *text, size_t length) {
	size_t n = put_varint(at, length);
	memcpy(at + n, text, length);
	return n + length;
}

/* The action that sets the variable of the command line. */
static void build(const char *variable) {
	static const char *scopes[] = { "proc.", "sess.", "txn.", "req.", "res." };
	const char *equals = strchr(variable, '='), *name = strchr(variable, '.');
	int scope = 0;
	while (scope < 5 && strncmp(variable, scopes[scope], strlen(scopes[scope]))) scope++;
	if (scope == 5 || !equals || equals <= ++name || strlen(variable) > 256) { fprintf(stderr, "expected SCOPE.NAME=VALUE\n"); exit(2); }
	const char *value = equals + 1;
	memcpy(actions, (char[]){ 1, 3, scope }, 3);
	actions_len = 3 + put_text(actions + 3, name, equals - name);
	if (*value && strspn(value, "0123456789") == strlen(value)) {
		actions[actions_len++] = 4;
		actions_len += put_varint(actions + actions_len, strtoull(value, NULL, 10) & INT64_MAX);
	} else {
		actions[actions_len++] = 8;
		actions_len += put_text(actions + actions_len, value, strlen(value));
	}
}

/* Appends a frame; -1 without memory. */
static int push(struct conn *c, int type, const void *ids, size_t ids_len, const char *payload, size_t length) {
	size_t frame = 5 + ids_len + length;
	if (c->out_at == c->out_len) c->out_at = c->out_len = 0;
	if (c->out_len + 4 + frame > c->out_room) {
		size_t room = 2 * (c->out_len + 4 + frame);
		char *more = realloc(c->out, room);
		if (!more) return -1;
		c->out = more;
		c->out_room = room;
	}
	char *at = c->out + c->out_len;
	/* The length, the type, and the flags with FIN. */
	memcpy(at, (char[]){ frame >> 24, frame >> 16, frame >> 8, frame, type, 0, 0, 0, 1 }, 9);
	memcpy(at + 9, ids, ids_len);
	memcpy(at + 9 + ids_len, payload, length);
	c->out_len += 4 + frame;
	return 0;
}

static int disconnect(struct conn *c, int status) {
	char payload[64];
	size_t n = put_text(payload, "status-code", 11);
	payload[n++] = 3;
	n += put_varint(payload + n, status);
	n += put_text(payload + n, "message", 7);
	payload[n++] = 8;
	n += put_text(payload + n, status ? "invalid frame" : "bye", status ? 13 : 3);
	c->closing = 1;
	return push(c, AGENT_DISCONNECT, "\0\0", 2, payload, n);
}

/* The pair at `at` of a KV-LIST: its name, and its value as an integer or a flag; other values are skipped. */
static const uint8_t *take_pair(const uint8_t *at, const uint8_t *end, const uint8_t **name, uint64_t *name_len, uint64_t *value) {
	if (!(at = take_varint(at, end, name_len)) || *name_len >= (uint64_t)(end - at)) return NULL;
	*name = at;
	at += *name_len;
	int type = *at++;
	uint64_t length;
	switch (type & 15) {
	case 0: return at;
	case 1: *value = type >> 4; return at;
	case 2: case 3: case 4: case 5: return take_varint(at, end, value);
	case 6: length = 4; break;
	case 7: length = 16; break;
	case 8: case 9: if (!(at = take_varint(at, end, &length))) return NULL; break;
	default: return NULL;
	}
	return length <= (uint64_t)(end - at) ? at + length : NULL;
}

static int hello(struct conn *c, const uint8_t *at, const uint8_t *end) {
	uint64_t limit = 0, check = 0;
	while (at < end) {
		const uint8_t *name;
		uint64_t name_len, value = 0;
		if (!(at = take_pair(at, end, &name, &name_len, &value))) return disconnect(c, STATUS_INVALID_FRAME);
		if (name_len == 14 && !memcmp(name, "max-frame-size", 14)) limit = value;
		if (name_len == 11 && !memcmp(name, "healthcheck", 11)) check = value;
	}
	char payload[128];
	size_t n = put_text(payload, "version", 7);
	payload[n++] = 8;
	n += put_text(payload + n, "2.0", 3);
	n += put_text(payload + n, "max-frame-size", 14);
	payload[n++] = 3;
	n += put_varint(payload + n, limit < FRAME_BYTES ? limit : FRAME_BYTES);
	n += put_text(payload + n, "capabilities", 12);
	payload[n++] = 8;
	n += put_text(payload + n, "pipelining", 10);
	c->closing = check;
	return push(c, AGENT_HELLO, "\0\0", 2, payload, n);
}

static int frame(struct conn *c, const uint8_t *at, const uint8_t *end) {
	uint64_t id;
	int type = *at;
	const uint8_t *ids = at + 5, *payload;
	if (!(payload = take_varint(ids, end, &id)) || !(payload = take_varint(payload, end, &id))) return disconnect(c, STATUS_INVALID_FRAME);
	switch (type) {
	case HAPROXY_HELLO: return hello(c, payload, end);
	case HAPROXY_DISCONNECT: return disconnect(c, STATUS_NORMAL);
	case NOTIFY: return push(c, ACK, ids, payload - ids, actions, actions_len);
	default: return 0;
	}
}

/* Handles the whole frames in the buffer; -1 ends the connection. */
static int frames(struct conn *c) {
	size_t at = 0;
	while (!c->closing && c->in - at >= 4) {
		uint8_t *b = (uint8_t *)c->buf + at;
		uint32_t length = (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
		if (length < 7 || length > FRAME_BYTES) return -1;
		if (c->in - at < 4 + (size_t)length) break;
		if (frame(c, b + 4, b + 4 + length)) return -1;
		at += 4 + length;
	}
	memmove(c->buf, c->buf + at, c->in - at);
	c->in -= at;
	return 0;
}

/* Sends as much as possible: 1 if all is sent, 0 if the socket is full, -1 on an error. */
static int flush_out(struct conn *c) {
	while (c->out_at < c->out_len) {
		ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0) return errno == EAGAIN ? 0 : -1;
		c->out_at += n;
	}
	return 1;
}

/* Reads and answers until the socket is empty, or full; -1 ends the connection. */
static int serve(struct conn *c) {
	for (;;) {
		int sent = flush_out(c);
		if (sent < 0 || (sent && c->closing)) return -1;
		if (c->closing || c->out_len - c->out_at > OUT_LIMIT) return 0;
		ssize_t n = recv(c->fd, c->buf + c->in, IN_BYTES - c->in, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) return 0;
		if (n <= 0) return -1;
		c->in += n;
		if (frames(c)) return -1;
	}
}

static void *loop(void *arg) {
	int one = 1, ep = epoll_create1(0), ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(ls, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
	if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); exit(1); }
	struct epoll_event ev = { .events = EPOLLIN }, evs[EVENTS];
	epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ev);
	for (;;) {
		int n = epoll_wait(ep, evs, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;
			if (c) {
				if (serve(c) < 0) { close(c->fd); free(c->out); free(c); }
				continue;
			}
			int fd;
			while ((fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
				if (!(c = calloc(1, sizeof *c))) { close(fd); continue; }
				c->fd = fd;
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
				struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = c };
				epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
			}
		}
	}
	return arg;
}

int main(int argc, char **argv) {
	if (argc < 2) { fprintf(stderr, "usage: spop_agent PORT [empty|VARIABLE [THREADS]]\n"); return 2; }
	port = atoi(argv[1]);
	int threads = argc > 3 ? atoi(argv[3]) : 1;
	if (argc > 2 && strcmp(argv[2], "empty")) build(argv[2]);
	pthread_t thread;
	for (int i = 1; i < threads; i++) pthread_create(&thread, NULL, loop, NULL);
	loop(NULL);
}
