/* Clients that measure what they suffer: each keeps a connection and sends a request every PERIOD ms, at times that were fixed
 * before, so a server that stalls delays nothing but answers. A connection that is closed between two answers although nobody
 * said so is torn; one that is closed under a request is a failure. Both are opened again.
 * On SIGTERM prints "done failed torn", then for each answer when it was due and how long it took, both in seconds.
 * usage: paced PORT CLIENTS PERIOD_MS */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 256
struct client { int fd, waits; size_t got; double due; char answer[4096]; };
struct sample { double due, took; };
static const char request[] = "GET /64 HTTP/1.1\r\nHost: paced\r\n\r\n";
static volatile sig_atomic_t over;
static struct client clients[CLIENTS];
static struct sample *samples;
static size_t done, room, failed, torn;
static int port;

static void stop(int number) { (void)number; over = 1; }

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void dial(struct client *c) {
	int one = 1;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (c->fd >= 0) close(c->fd);
	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(c->fd, (void *)&a, sizeof a)) { close(c->fd); c->fd = -1; failed++; return; }
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void keep(double due, double took) {
	if (done == room) {
		room = room ? 2 * room : 1 << 16;
		if (!(samples = realloc(samples, room * sizeof *samples))) { perror("realloc"); exit(1); }
	}
	samples[done++] = (struct sample){ due, took };
}

/* Reads what is there; answers have a Content-Length. */
static void hear(struct client *c, double period) {
	ssize_t n = recv(c->fd, c->answer + c->got, sizeof c->answer - 1 - c->got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
	if (n <= 0) {
		if (c->waits) { failed++; c->waits = 0; c->due += period; } else torn++;
		dial(c);
		return;
	}
	c->got += n;
	c->answer[c->got] = 0;
	char *end = strstr(c->answer, "\r\n\r\n"), *length = strcasestr(c->answer, "\r\ncontent-length:");
	if (!end || !length || c->got < (size_t)(end + 4 - c->answer) + strtoul(length + 17, NULL, 10)) return;
	if (strncmp(c->answer, "HTTP/1.1 200", 12)) failed++; else keep(c->due, now() - c->due);
	c->waits = 0;
	c->got = 0;
	c->due += period;
	char *close = strcasestr(c->answer, "\r\nconnection: close");
	if (close && close < end) dial(c);
}

int main(int argc, char **argv) {
	if (argc < 4) return 2;
	port = atoi(argv[1]);
	int count = atoi(argv[2]);
	if (count < 1 || count > CLIENTS) return 2;
	double period = atof(argv[3]) / 1e3, start = now();
	struct pollfd polled[CLIENTS];
	signal(SIGTERM, stop);
	for (int i = 0; i < count; i++) { clients[i].fd = -1; dial(&clients[i]); clients[i].due = start + period * i / count; }
	while (!over) {
		double t = now(), next = t + 1;
		for (int i = 0; i < count; i++) {
			struct client *c = &clients[i];
			if (c->fd < 0) dial(c);
			if (!c->waits && c->due <= t && c->fd >= 0) {
				c->waits = send(c->fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1;
				if (!c->waits) { failed++; c->due += period; }
			}
			if (!c->waits && c->due < next) next = c->due;
			polled[i] = (struct pollfd){ .fd = c->fd, .events = POLLIN };
		}
		double wait = next - now();
		struct timespec pause = { 0, wait > 0 ? (long)(wait * 1e9) % 1000000000 : 0 };
		if (ppoll(polled, count, &pause, NULL) <= 0) continue;
		for (int i = 0; i < count; i++) if (polled[i].revents) hear(&clients[i], period);
	}
	printf("%zu %zu %zu\n", done, failed, torn);
	for (size_t i = 0; i < done; i++) printf("%.6f %.6f\n", samples[i].due, samples[i].took);
	return 0;
}
