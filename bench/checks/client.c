/* One client, one connection, one request after the other, and how long each took; then without the time for which this thread, or the threads of the
 * SCHEDSTAT files, were ready to run and the machine ran others. Prints p50 p90 p99 p99.9 p99.99 and the longest, in us: "raw ... | net ...".
 * usage: client PORT COUNT SCHEDSTAT... */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static int cmp(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return x < y ? -1 : x > y; }
static int fds[64], n;
static double delay(void) {
	double sum = 0; char b[128];
	for (int i = 0; i < n; i++) { ssize_t r = pread(fds[i], b, sizeof b - 1, 0); if (r <= 0) continue; b[r] = 0; char *s = strchr(b, ' '); sum += strtod(s, 0); }
	return sum / 1e3;
}
int main(int argc, char **argv) {
	long count = atol(argv[2]); char b[4096]; int one = 1;
	snprintf(b, sizeof b, "/proc/self/task/%ld/schedstat", (long)syscall(SYS_gettid)); fds[n++] = open(b, O_RDONLY);
	for (int i = 3; i < argc; i++) if ((fds[n] = open(argv[i], O_RDONLY)) >= 0) n++;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (connect(fd, (void *)&a, sizeof a)) { perror("connect"); return 1; }
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	static const char req[] = "GET /64 HTTP/1.1\r\nHost: t\r\n\r\n";
	double *raw = malloc(count * sizeof *raw), *net = malloc(count * sizeof *net);
	for (long k = -2000; k < count; k++) {
		double d0 = delay(), t0 = now();
		if (send(fd, req, sizeof req - 1, 0) < 0) { perror("send"); return 1; }
		size_t got = 0;
		for (;;) {
			ssize_t r = recv(fd, b + got, sizeof b - 1 - got, 0);
			if (r <= 0) { fprintf(stderr, "closed\n"); return 1; }
			got += r; b[got] = 0;
			char *e = strstr(b, "\r\n\r\n"), *l = strcasestr(b, "content-length:");
			if (e && got >= (size_t)(e + 4 - b) + (l ? atoi(l + 15) : 0)) break;
		}
		double t = now() - t0;
		if (k >= 0) { raw[k] = t; double d = t - (delay() - d0); net[k] = d > 0 ? d : 0; }
	}
	double q[] = { .5, .9, .99, .999, .9999 };
	for (int w = 0; w < 2; w++) {
		double *v = w ? net : raw;
		qsort(v, count, sizeof *v, cmp);
		printf("%s", w ? " | net" : "raw");
		for (int i = 0; i < 5; i++) printf(" %.1f", v[(long)(q[i] * count)]);
		printf(" %.1f", v[count - 1]);
	}
	printf("\n");
	return 0;
}
