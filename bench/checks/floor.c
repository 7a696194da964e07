/* What the system calls of health checks cost by themselves: a loop that makes them as weir does, as many together as weir, to 127.0.0.1:PORT.
 *   tcp   connect, connect (does it stand?), disconnect
 *   http  these, a send, a receive, and an epoll that all sockets are registered with for good
 *   once  as http, and sends without asking whether the connection stands
 * Prints CPU of a check in us after SECONDS and one more.
 * usage: floor PORT CHECKS_PER_SECOND SECONDS tcp|http|once */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS 64
static int ep, fds[SOCKETS], state[SOCKETS];
static struct sockaddr_in peer;
static struct sockaddr none = { .sa_family = AF_UNSPEC };
static const char request[] = "GET /64 HTTP/1.0\r\n\r\n";
static long done, failed, waits;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static int fresh(void) {
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct linger no = { 1, 0 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof no);
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}
int main(int argc, char **argv) {
	if (argc < 5) return 2;
	int port = atoi(argv[1]), rate = atoi(argv[2]); double secs = atof(argv[3]);
	int http = strcmp(argv[4], "tcp") != 0, once = !strcmp(argv[4], "once");
	int batch = rate * 4 / 1000; double period = 0.004; if (batch < 1) { batch = 1; period = 1.0 / rate; }
	if (batch < 1 || batch > SOCKETS) return 2;
	char buf[16384];
	peer = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	ep = epoll_create1(0);
	for (int i = 0; i < SOCKETS; i++) {
		fds[i] = fresh();
		struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.u32 = i };
		if (http) epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e);
	}
	double start = now(), due = start; struct rusage r0, r1; int warm = 0;
	int next = 0;
	while (now() < start + secs + 1) {
		if (!warm && now() > start + 1) { warm = 1; getrusage(RUSAGE_SELF, &r0); done = waits = failed = 0; }
		if (now() >= due) {
			due += period;
			for (int k = 0; k < batch; k++) {
				int i = next;
				if (!http) {
					int c = connect(fds[0], (void *)&peer, sizeof peer);
					if (c && errno == EINPROGRESS) c = connect(fds[0], (void *)&peer, sizeof peer);
					if (c) failed++;
					connect(fds[0], &none, sizeof none); done++;
					continue;
				}
				for (int n = 0; state[i] && n < SOCKETS; n++) i = (i + 1) % SOCKETS;
				if (state[i]) { failed++; continue; }
				next = (i + 1) % SOCKETS;
				int c = connect(fds[i], (void *)&peer, sizeof peer);
				if (!once) { if (c && errno == EINPROGRESS) c = connect(fds[i], (void *)&peer, sizeof peer); if (c) failed++; }
				state[i] = send(fds[i], request, sizeof request - 1, MSG_NOSIGNAL) > 0;
				if (!state[i]) { failed++; connect(fds[i], &none, sizeof none); }
			}
		}
		double w = due - now();
		int ms = w > 0 ? (int)(w * 1000 + 0.999) : 0;
		struct epoll_event ev[64];
		int n = epoll_wait(ep, ev, 64, ms); waits++;
		for (int k = 0; k < n; k++) {
			int i = ev[k].data.u32;
			if (!state[i] || !(ev[k].events & EPOLLIN)) continue;
			ssize_t r = recv(fds[i], buf, sizeof buf, 0);
			if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; failed++; }
			connect(fds[i], &none, sizeof none); state[i] = 0; done++;
		}
	}
	getrusage(RUSAGE_SELF, &r1);
#define S(a) ((r1.a.tv_sec - r0.a.tv_sec) * 1e6 + (r1.a.tv_usec - r0.a.tv_usec))
	printf("%s cpu %.1f us (user %.1f system %.1f) checks %ld failed %ld waits/check %.2f rate %.0f\n", argv[4], (S(ru_utime) + S(ru_stime)) / done, S(ru_utime) / done, S(ru_stime) / done, done, failed, (double)waits / done, done / secs);
}
