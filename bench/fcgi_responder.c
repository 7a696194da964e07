/* A FastCGI responder (specification 1.0) for measurements: it answers each request with the same page of BYTES (default 64) once the
 * request's STDIN has ended. Requests of one connection may overlap, and their answers come in the order of those ends. The connection
 * stays open if the last request set FCGI_KEEP_CONN. GET_VALUES is answered with FCGI_MPXS_CONNS=1 and FCGI_MAX_REQS=1024.
 * An address that begins with '/' is the path of a UNIX socket.
 * build: cc -O2 -pthread -o fcgi_responder fcgi_responder.c
 * usage: fcgi_responder PORT|PATH [BYTES [THREADS]] */
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
#include <sys/un.h>
#include <unistd.h>

enum { BEGIN_REQUEST = 1, ABORT_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, GET_VALUES = 9, GET_VALUES_RESULT, UNKNOWN_TYPE };
enum { IN_BYTES = 64 << 10, RECORD_BYTES = 65528, OUT_LIMIT = 4 << 20, IDS = 1 << 16, MAX_PAGE = 64 << 20, EVENTS = 256 };

/* `skip` bytes of the record's content and padding are still to come. `out` holds the bytes that the socket did not take. `open` has a bit for each
 * request that waits for the end of its STDIN. */
struct conn { int fd, in, keep, closing; size_t skip, out_at, out_len, out_room; char *out; char buf[IN_BYTES]; uint8_t open[IDS / 8]; };

static const char *address;
/* One whole answer, and where its request IDs are. */
static char *answer;
static size_t answer_len, *id_at, ids;
static int listener_unix = -1;

static void fail(const char *what) { perror(what); exit(1); }

static void header(char *at, int type, int id, size_t length) {
	memcpy(at, (char[]){ 1, type, id >> 8, id, length >> 8, length, 0, 0 }, 8);
}

/* Builds STDOUT with the head and the page, its end, and END_REQUEST. */
static void build(size_t page) {
	char head[128];
	size_t head_len = snprintf(head, sizeof head, "Status: 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", page);
	size_t total = head_len + page, records = total / RECORD_BYTES + 3;
	char *body = malloc(total);
	answer = malloc(total + records * 16);
	id_at = malloc(records * sizeof *id_at);
	if (!body || !answer || !id_at) fail("malloc");
	memcpy(body, head, head_len);
	memset(body + head_len, 'x', page);
	for (size_t at = 0; at < total; ) {
		size_t length = total - at < RECORD_BYTES ? total - at : RECORD_BYTES;
		id_at[ids++] = answer_len + 2;
		header(answer + answer_len, STDOUT, 0, length);
		memcpy(answer + answer_len + 8, body + at, length);
		answer_len += 8 + length;
		at += length;
	}
	id_at[ids++] = answer_len + 2;
	header(answer + answer_len, STDOUT, 0, 0);
	id_at[ids++] = answer_len + 10;
	header(answer + answer_len + 8, END_REQUEST, 0, 8);
	memset(answer + answer_len + 16, 0, 8);
	answer_len += 24;
	free(body);
}

/* Appends to the output and returns where, or NULL without memory. */
static char *push(struct conn *c, const char *bytes, size_t length) {
	if (c->out_at == c->out_len) c->out_at = c->out_len = 0;
	if (c->out_len + length > c->out_room) {
		size_t room = 2 * (c->out_len + length);
		char *more = realloc(c->out, room);
		if (!more) return NULL;
		c->out = more;
		c->out_room = room;
	}
	memcpy(c->out + c->out_len, bytes, length);
	c->out_len += length;
	return c->out + c->out_len - length;
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

static int respond(struct conn *c, int id) {
	char *at = push(c, answer, answer_len);
	if (!at) return -1;
	for (size_t i = 0; i < ids; i++) { at[id_at[i]] = id >> 8; at[id_at[i] + 1] = id; }
	c->closing = !c->keep;
	return 0;
}

/* Handles the whole records in the buffer, -1 on an error. */
static int records(struct conn *c) {
	int at = 0;
	while (!c->closing) {
		size_t held = c->in - at;
		if (c->skip) {
			size_t n = held < c->skip ? held : c->skip;
			c->skip -= n;
			at += n;
			if (c->skip) break;
			continue;
		}
		uint8_t *r = (uint8_t *)c->buf + at;
		if (held < 8) break;
		int id = r[2] << 8 | r[3], length = r[4] << 8 | r[5];
		int open = c->open[id / 8] >> id % 8 & 1;
		if (r[0] != 1) return -1;
		if (r[1] == BEGIN_REQUEST) {
			if (held < 16) break;
			/* Role 1 is the responder; a request that runs cannot begin again. */
			if (!id || length != 8 || r[8] || r[9] != 1 || open) return -1;
			c->keep = r[10] & 1;
			c->open[id / 8] |= 1 << id % 8;
		} else if (r[1] == GET_VALUES) {
			static const char values[] = "\x0f\x01" "FCGI_MPXS_CONNS" "1" "\x0d\x04" "FCGI_MAX_REQS" "1024";
			char result[8];
			header(result, GET_VALUES_RESULT, 0, sizeof values - 1);
			if (!push(c, result, sizeof result) || !push(c, values, sizeof values - 1)) return -1;
		} else if (!id) {
			char result[16] = { 0 };
			header(result, UNKNOWN_TYPE, 0, 8);
			result[8] = r[1];
			if (!push(c, result, sizeof result)) return -1;
		} else if (open && ((r[1] == STDIN && !length) || r[1] == ABORT_REQUEST)) {
			c->open[id / 8] &= ~(1 << id % 8);
			if (respond(c, id)) return -1;
		}
		at += 8;
		c->skip = length + r[6];
	}
	memmove(c->buf, c->buf + at, c->in - at);
	c->in -= at;
	return 0;
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
		if (records(c)) return -1;
	}
}

static int listen_tcp(void) {
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(address)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
	if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) fail("bind");
	return fd;
}

/* All threads share this one, because a path has one socket. */
static int listen_unix(void) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	if (strlen(address) >= sizeof a.sun_path) { fprintf(stderr, "the path is too long\n"); exit(1); }
	strcpy(a.sun_path, address);
	unlink(address);
	if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) fail("bind");
	return fd;
}

static void *loop(void *arg) {
	int one = 1, ep = epoll_create1(0), ls = listener_unix < 0 ? listen_tcp() : listener_unix;
	struct epoll_event ev = { .events = EPOLLIN | (listener_unix < 0 ? 0 : EPOLLEXCLUSIVE) }, evs[EVENTS];
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
	if (argc < 2) { fprintf(stderr, "usage: fcgi_responder PORT|PATH [BYTES [THREADS]]\n"); return 2; }
	address = argv[1];
	size_t page = argc > 2 ? strtoull(argv[2], NULL, 10) : 64;
	int threads = argc > 3 ? atoi(argv[3]) : 1;
	if (page > MAX_PAGE) { fprintf(stderr, "at most %d bytes\n", MAX_PAGE); return 2; }
	build(page);
	if (*address == '/') listener_unix = listen_unix();
	pthread_t thread;
	for (int i = 1; i < threads; i++) pthread_create(&thread, NULL, loop, NULL);
	loop(NULL);
}
