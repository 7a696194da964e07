/* The floor: a forwarder that parses nothing, one origin connection for each client connection, edge-triggered epoll.
 * What a proxy costs above this is its own work. It copies through one hot buffer of BYTES (32 kB unless told), or, when
 * BYTES is `splice`, moves the bytes inside the kernel through one 256 kB pipe for each direction.
 * usage: floor LISTEN_PORT ORIGIN_PORT [BYTES|splice] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_BYTES (256 << 10)

struct side { struct side *peer; int fd, pipe[2]; size_t pend, off; char *keep; };
static char *buf;
static size_t buf_bytes = 32768;
static int splicing;

/* Moves what `from` has to `to` until one of them would block. */
static int copy(struct side *from, struct side *to) {
	for (;;) {
		if (to->pend) {
			ssize_t w = send(to->fd, to->keep + to->off, to->pend, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (w < 0) return errno == EAGAIN ? 0 : -1;
			to->off += w; to->pend -= w;
			if (to->pend) return 0;
			free(to->keep); to->keep = NULL;
		}
		ssize_t n = recv(from->fd, buf, buf_bytes, MSG_DONTWAIT);
		if (n == 0) return -1;
		if (n < 0) return errno == EAGAIN ? 0 : -1;
		ssize_t w = send(to->fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (w < 0) { if (errno != EAGAIN) return -1; w = 0; }
		if (w < n) { to->keep = malloc(n - w); memcpy(to->keep, buf + w, n - w); to->off = 0; to->pend = n - w; return 0; }
		if (n < (ssize_t)buf_bytes) return 0;   /* a short read: drained */
	}
}

/* The same through a pipe; `to->pend` counts what the pipe holds. */
static int move(struct side *from, struct side *to) {
	unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
	for (;;) {
		while (to->pend) {
			ssize_t w = splice(to->pipe[0], NULL, to->fd, NULL, to->pend, flags);
			if (w < 0) return errno == EAGAIN ? 0 : -1;
			to->pend -= w;
		}
		ssize_t n = splice(from->fd, NULL, to->pipe[1], NULL, PIPE_BYTES, flags);
		if (n == 0) return -1;
		if (n < 0) return errno == EAGAIN ? 0 : -1;
		to->pend = n;
	}
}

static int pump(struct side *from, struct side *to) { return splicing ? move(from, to) : copy(from, to); }

int main(int c, char **v) {
	int one = 1, ep = epoll_create1(0), ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(v[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, o = a;
	o.sin_port = htons(atoi(v[2]));
	splicing = c > 3 && !strcmp(v[3], "splice");
	if (c > 3 && !splicing) buf_bytes = strtoul(v[3], NULL, 10);
	buf = malloc(buf_bytes);
	signal(SIGPIPE, SIG_IGN);
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); return 1; }
	struct epoll_event e = { .events = EPOLLIN }, evs[256];
	epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
	for (;;) {
		int n = epoll_wait(ep, evs, 256, -1);
		for (int i = 0; i < n; i++) {
			struct side *s = evs[i].data.ptr;
			if (!s) {
				int fd;
				while ((fd = accept4(ls, 0, 0, SOCK_NONBLOCK)) >= 0) {
					struct side *x = calloc(2, sizeof *x), *y = x + 1;
					int b = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
					connect(b, (void *)&o, sizeof o);
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
					setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
					x->fd = fd; y->fd = b; x->peer = y; y->peer = x;
					for (struct side *z = x; z <= y; z++) {
						if (splicing) { pipe2(z->pipe, O_NONBLOCK); fcntl(z->pipe[0], F_SETPIPE_SZ, PIPE_BYTES); }
						struct epoll_event q = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = z };
						epoll_ctl(ep, EPOLL_CTL_ADD, z->fd, &q);
					}
				}
				continue;
			}
			if (s->fd < 0) continue;
			int r = 0;
			if (evs[i].events & EPOLLOUT) r = pump(s->peer, s);
			if (r >= 0 && evs[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) r = pump(s, s->peer);
			if (r < 0) {   /* leaks the two structs: events of this batch may still point at them */
				if (splicing) for (int k = 0; k < 2; k++) { close(s->pipe[k]); close(s->peer->pipe[k]); }
				close(s->fd); close(s->peer->fd); s->fd = s->peer->fd = -1;
			}
		}
	}
}
