/* Sends a process COUNT signals that mean a reload, one every half second, after a while without any. Starts nothing, so it takes
 * next to nothing of the processor that it disturbs. Prints when the quiet time began, when the reloads began, and when they were
 * over, in seconds of the monotonic clock.
 * usage: signals PID SIGNAL COUNT QUIET_SECONDS */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void rest(double seconds) {
	struct timespec t = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
	nanosleep(&t, NULL);
}

int main(int argc, char **argv) {
	if (argc < 5) return 2;
	double quiet = now();
	rest(atof(argv[4]));
	double reloads = now();
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (kill(atoi(argv[1]), atoi(argv[2]))) { perror("kill"); return 1; }
		rest(0.5);
	}
	printf("%.6f %.6f %.6f\n", quiet, reloads, now());
	return 0;
}
