/* The peer of bench/compare in C: what MPI itself takes, measured with plain MPI
 * calls. The README of the folder above says which arguments it takes and what it
 * prints.
 *
 *   mpicc -O2 -o peer peer.c && mpirun -n 2 ./peer latency:1 throughput:4096:1:64
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { TAG = 100, TAG_CONTROL = 99, SEEDS = 251, BURST = 200, SINGLES = 50000 };
enum { ORDER_END = 0, ORDER_VERIFY = -1 };

static int rank, peer, verified;
static double item_us, wait_us;

struct item {
	char kind[16];
	int size, frames, n;
	unsigned char **out, **in;
	int64_t *lengths;
	MPI_Request *requests;
	int *done;
};

static void fail(const char *what, const char *detail) {
	fprintf(stderr, "peer: rank %d: %s%s\n", rank, what, detail);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

/* Long buffers lie in huge pages, as numpy's and those of our mem.Alloc do. */
static void *memory_of(size_t bytes) {
	const size_t huge = 2 << 20;
	size_t whole = (bytes + huge - 1) / huge * huge;
	void *p = bytes < huge ? malloc(bytes ? bytes : 1) : aligned_alloc(huge, whole);
	if (!p)
		fail("no memory", "");
	if (bytes >= huge)
		madvise(p, whole, MADV_HUGEPAGE);
	return p;
}

static double now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double cpu_us(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static void sleep_us(double us) {
	struct timespec t = {(time_t)(us / 1e6), 0};
	t.tv_nsec = (long)((us - t.tv_sec * 1e6) * 1e3);
	nanosleep(&t, NULL);
}

/* contents is what a message of a seed has in it. */
static const unsigned char *contents(int size, int seed) {
	static unsigned char *pattern;
	static int length;
	if (length < size + SEEDS) {
		length = size + SEEDS;
		free(pattern);
		pattern = memory_of(length);
		for (int j = 0; j < length; j++)
			pattern[j] = (unsigned char)(j * 131 + (j >> 8) * 29 + 17);
	}
	return pattern + seed % SEEDS;
}

static void send_to(const void *b, int size) { MPI_Send(b, size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD); }
static void recv_from(void *b, int size) { MPI_Recv(b, size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

static void order(int64_t n) { MPI_Send(&n, 8, MPI_BYTE, peer, TAG_CONTROL, MPI_COMM_WORLD); }
static int64_t ordered(void) {
	int64_t n;
	MPI_Recv(&n, 8, MPI_BYTE, peer, TAG_CONTROL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return n;
}
static void tell(double a, double b) {
	double both[2] = {a, b};
	MPI_Send(both, 16, MPI_BYTE, peer, TAG_CONTROL, MPI_COMM_WORLD);
}
static void told(double both[2]) { MPI_Recv(both, 16, MPI_BYTE, peer, TAG_CONTROL, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

/* message_out sends the lengths of the frames, and a request for each frame. */
static void message_out(struct item *i) {
	for (int f = 0; f < i->frames; f++)
		i->lengths[f] = i->size;
	MPI_Isend(i->lengths, 8 * i->frames, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &i->requests[i->frames]);
	for (int f = 0; f < i->frames; f++)
		MPI_Isend(i->out[f], i->size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &i->requests[f]);
	MPI_Waitall(i->frames + 1, i->requests, MPI_STATUSES_IGNORE);
}

/* message_in learns the lengths, and then receives all frames at once. */
static void message_in(struct item *i) {
	MPI_Recv(i->lengths, 8 * i->frames, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int f = 0; f < i->frames; f++)
		MPI_Irecv(i->in[f], (int)i->lengths[f], MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &i->requests[f]);
	MPI_Waitall(i->frames, i->requests, MPI_STATUSES_IGNORE);
}

static void latency(struct item *i) {
	if (rank == 0)
		send_to(i->out[0], i->size), recv_from(i->in[0], i->size);
	else
		recv_from(i->in[0], i->size), send_to(i->out[0], i->size);
}

static void multi(struct item *i) {
	if (rank == 0)
		message_out(i), message_in(i);
	else
		message_in(i), message_out(i);
}

static void throughput(struct item *i) {
	int64_t answer = 0;
	for (int w = 0; w < i->n; w++)
		if (rank == 0)
			MPI_Isend(i->out[0], i->size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &i->requests[w]);
		else
			MPI_Irecv(i->in[0], i->size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &i->requests[w]);
	MPI_Waitall(i->n, i->requests, MPI_STATUSES_IGNORE);
	if (rank == 0)
		recv_from(&answer, 8);
	else
		send_to(&answer, 8);
}

/* rate makes so many turns of n ping-pongs at the same time, half of which start
 * on either rank: a receive is posted for each, and what has arrived is answered. */
static void rate(struct item *i, int64_t turns) {
	int64_t left = turns * i->n;
	int *received = memory_of(i->n * sizeof *received);
	for (int c = 0; c < i->n; c++) {
		received[c] = 0;
		MPI_Irecv(i->in[c], i->size, MPI_BYTE, peer, TAG + c, MPI_COMM_WORLD, &i->requests[c]);
	}
	for (int c = 0; c < i->n; c++)
		if ((c % 2 == 0) == (rank == 0))
			MPI_Send(i->out[c], i->size, MPI_BYTE, peer, TAG + c, MPI_COMM_WORLD);
	while (left > 0) {
		int count;
		MPI_Waitsome(i->n, i->requests, &count, i->done, MPI_STATUSES_IGNORE);
		for (int d = 0; d < count; d++) {
			int c = i->done[d], starts = (c % 2 == 0) == (rank == 0);
			left--;
			if (++received[c] < turns)
				MPI_Irecv(i->in[c], i->size, MPI_BYTE, peer, TAG + c, MPI_COMM_WORLD, &i->requests[c]);
			if (!starts || received[c] < turns)
				MPI_Send(i->out[c], i->size, MPI_BYTE, peer, TAG + c, MPI_COMM_WORLD);
		}
	}
	free(received);
}

static void turns(struct item *i, int64_t n) {
	if (!strcmp(i->kind, "rate")) {
		rate(i, n);
		return;
	}
	void (*turn)(struct item *) = !strcmp(i->kind, "latency") ? latency : !strcmp(i->kind, "multi") ? multi : throughput;
	for (int64_t j = 0; j < n; j++)
		turn(i);
}

static int buffers(struct item *i) { return !strcmp(i->kind, "rate") ? i->n : i->frames; }

static void verify(struct item *i) {
	verified++;
	int mine = 2 * verified + (rank != 0), theirs = 2 * verified + (rank == 0);
	for (int b = 0; b < buffers(i); b++) {
		memcpy(i->out[b], contents(i->size, mine + b), i->size);
		memset(i->in[b], 0, i->size);
	}
	turns(i, 1);
	if (!strcmp(i->kind, "throughput") && rank == 0)
		return;
	for (int b = 0; b < buffers(i); b++)
		if (memcmp(i->in[b], contents(i->size, theirs + b), i->size))
			fail("verification: a message is not what was sent: ", i->kind);
}

static double timed_turns(struct item *i, int64_t n) {
	order(n);
	double start = now_us();
	turns(i, n);
	return now_us() - start;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void timed(struct item *i) {
	if (rank != 0) {
		for (int64_t n; (n = ordered()) != ORDER_END;)
			if (n == ORDER_VERIFY)
				verify(i);
			else
				turns(i, n);
		return;
	}
	order(ORDER_VERIFY);
	verify(i);
	int64_t n = 1;
	double took;
	while ((took = timed_turns(i, n)) < item_us / 8) /* the warm-up */
		n *= 2;
	n = (int64_t)(n * (item_us / 2) / took);
	if (n < 2)
		n = 2;
	took = timed_turns(i, n);
	int messages = !strcmp(i->kind, "throughput") ? i->n : !strcmp(i->kind, "rate") ? 2 * i->n : 2;
	printf("{\"kind\":\"%s\",\"size\":%d,\"frames\":%d,\"n\":%d,\"iterations\":%lld,\"us\":%.6f", i->kind, i->size, i->frames, i->n, (long long)n,
	       took / n / messages);
	if (strcmp(i->kind, "rate")) {
		int64_t singles = n < SINGLES ? n : SINGLES;
		double *us = memory_of(singles * sizeof *us);
		order(singles);
		for (int64_t j = 0; j < singles; j++) {
			double start = now_us();
			turns(i, 1);
			us[j] = now_us() - start;
		}
		qsort(us, singles, sizeof *us, ascending);
		printf(",\"p50_us\":%.6f,\"p99_us\":%.6f", us[singles / 2] / messages, us[singles * 99 / 100] / messages);
		free(us);
	}
	printf("}\n");
	fflush(stdout);
	order(ORDER_VERIFY);
	verify(i);
	order(ORDER_END);
}

static void waiting(struct item *i) {
	double both[2];
	unsigned char byte = 0;
	for (int j = 0; j < BURST; j++)
		if (rank == 0)
			send_to(&byte, 1), recv_from(&byte, 1);
		else
			recv_from(&byte, 1), send_to(&byte, 1);
	int waits = !strcmp(i->kind, "wait");
	if (rank == 0) {
		sleep_us(wait_us);
		if (waits)
			tell(now_us(), 0);
		told(both);
		printf("{\"kind\":\"%s\",\"size\":1,\"frames\":1,\"n\":1,\"cpu_percent\":%.6f,\"wakeup_us\":%.3f}\n", i->kind, both[0], both[1]);
		fflush(stdout);
		return;
	}
	double from = now_us(), used = cpu_us(), wakeup = 0;
	if (waits) {
		told(both);
		wakeup = now_us() - both[0];
	} else {
		sleep_us(wait_us);
	}
	tell(100 * (cpu_us() - used) / (now_us() - from), wakeup);
}

static double status_bytes(const char *name) {
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, strlen(name)))
			kb = atol(line + strlen(name));
	if (f)
		fclose(f);
	return kb * 1024.0;
}

static double reset_peak(void) {
	FILE *f = fopen("/proc/self/clear_refs", "w");
	if (!f || fputs("5", f) < 0 || fclose(f))
		fail("resetting the peak of the memory", "");
	return status_bytes("VmRSS:");
}

/* memory measures one message: what it is sent from is there before, what it is
 * received into is not. */
static void memory(struct item *i) {
	double both[2];
	if (rank == 0) {
		for (int f = 0; f < i->frames; f++)
			memcpy(i->out[f], contents(i->size, f), i->size);
		ordered();
		double before = reset_peak();
		message_out(i);
		double grown = status_bytes("VmHWM:") - before;
		told(both);
		printf("{\"kind\":\"memory\",\"size\":%d,\"frames\":%d,\"n\":1,\"rss_bytes\":%.0f,\"sender_bytes\":%.0f,\"receiver_bytes\":%.0f}\n", i->size,
		       i->frames, both[0], grown, both[1]);
		fflush(stdout);
		return;
	}
	order(ORDER_END); /* so that connecting is over */
	double before = reset_peak();
	message_in(i);
	double peak = status_bytes("VmHWM:");
	for (int f = 0; f < i->frames; f++)
		if (memcmp(i->in[f], contents(i->size, f), i->size))
			fail("verification: a frame is not what was sent", "");
	tell(before, peak - before);
}

static double variable_us(const char *name) {
	const char *text = getenv(name);
	if (!text || atof(text) <= 0)
		fail(name, " is not a number of milliseconds");
	return atof(text) * 1e3;
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int size, length;
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2)
		fail("start it on 2 ranks with the mpirun of its MPI", "");
	peer = 1 - rank;
	item_us = variable_us("COMPARE_MS");
	wait_us = variable_us("COMPARE_WAIT_MS");
	MPI_Get_library_version(version, &length);
	version[strcspn(version, "\n\"\\,")] = 0;
	for (char *c = version; *c; c++)
		if (*c == '\t')
			*c = ' ';
	if (rank == 0)
		printf("{\"kind\":\"environment\",\"environment\":{\"mpi\":\"%s\",\"compiler\":\"%s\"}}\n", version, __VERSION__);
	for (int a = 1; a < argc; a++) {
		struct item i = {.size = 1, .frames = 1, .n = 1};
		if (sscanf(argv[a], "%15[a-z]:%d:%d:%d", i.kind, &i.size, &i.frames, &i.n) < 1)
			fail("not KIND:SIZE:FRAMES:N: ", argv[a]);
		int count = buffers(&i), most = i.n > i.frames ? i.n : i.frames;
		i.out = memory_of(count * sizeof *i.out);
		i.in = memory_of(count * sizeof *i.in);
		i.lengths = memory_of(i.frames * sizeof *i.lengths);
		i.requests = memory_of((most + 1) * sizeof *i.requests);
		i.done = memory_of(most * sizeof *i.done);
		for (int b = 0; b < count; b++)
			i.out[b] = memory_of(i.size), i.in[b] = memory_of(i.size);
		if (!strcmp(i.kind, "memory"))
			memory(&i);
		else if (!strcmp(i.kind, "wait") || !strcmp(i.kind, "idle"))
			waiting(&i);
		else if (!strcmp(i.kind, "latency") || !strcmp(i.kind, "multi") || !strcmp(i.kind, "throughput") || !strcmp(i.kind, "rate"))
			timed(&i);
		else
			fail("there is no measurement ", i.kind);
		for (int b = 0; b < count; b++)
			free(i.out[b]), free(i.in[b]);
		free(i.out), free(i.in), free(i.lengths), free(i.requests), free(i.done);
	}
	MPI_Finalize();
	return 0;
}
