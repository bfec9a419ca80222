// The other end of TestCPeer: a C program that is rank 1 of a job whose rank 0
// is a Go program (programCPeer). It knows nothing of mpi4go but join and leave.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "peer.c:%d: not so: %s\n", __LINE__, #condition);                                                \
      MPI_Abort(MPI_COMM_WORLD, 9);                                                                                    \
    }                                                                                                                  \
  } while (0)

enum { GO = 0, TAG = 1, BACK = 2, MANY = 3, LAST = 4, LARGE = 5 };

static MPI_Comm private;

// join takes part in what mpicomm.Init does on all ranks.
static void join(const char *version) {
  char mine[128] = "", all[256];
  MPI_Comm local;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 1, MPI_INFO_NULL, &local);
  MPI_Comm_free(&local);
  MPI_Comm_dup(MPI_COMM_WORLD, &private);
  strncpy(mine, version, sizeof mine - 1);
  MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, private);
}

// leave takes part in what mpicomm.Finalize does. A blocking barrier does not
// go with the non-blocking one of the Go side.
static void leave(void) {
  MPI_Request r;
  MPI_Ibarrier(private, &r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static unsigned char byte(int64_t i, int seed) { return (unsigned char)(i * 7 + (i >> 8) + seed * 31); }

static void fill(unsigned char *b, int n, int seed) {
  for (int i = 0; i < n; i++) b[i] = byte(i, seed);
}

static void receive(int n, int seed) {
  MPI_Status status;
  int count;
  unsigned char *b = malloc(n + 1);
  CHECK(b != NULL);
  MPI_Recv(b, n + 1, MPI_BYTE, GO, TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &count);
  CHECK(count == n);
  for (int i = 0; i < n; i++) CHECK(b[i] == byte(i, seed));
  free(b);
}

static void sendback(int n, int seed, int synchronous) {
  unsigned char *b = malloc(n + 1);
  CHECK(b != NULL);
  fill(b, n, seed);
  (synchronous ? MPI_Ssend : MPI_Send)(b, n, MPI_BYTE, GO, BACK, MPI_COMM_WORLD);
  free(b);
}

static void plain(int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    int n = atoi(argv[i]);
    for (int way = 0; way < 4; way++) receive(n, way);
    for (int way = 0; way < 4; way++) sendback(n, way, way % 2);
  }
  // Doubles, and a message too long for its receiver.
  double numbers[100];
  MPI_Recv(numbers, 100, MPI_DOUBLE, GO, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 100; i++) CHECK(numbers[i] == i / 4.0);
  MPI_Send(numbers, 100, MPI_DOUBLE, GO, BACK, MPI_COMM_WORLD);
  sendback(100000, 1, 0);
  sendback(5000, 2, 0);
  // Each send was one message: when the last is here there is nothing but the
  // hundred before it.
  MPI_Recv(NULL, 0, MPI_BYTE, GO, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 100; i++) {
    MPI_Status status;
    int count;
    char b[1000];
    MPI_Recv(b, sizeof b, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(status.MPI_TAG == MANY && count == i * 5);
  }
  int flag;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
}

// large receives and sends messages over 2 GiB as blocks of 1 GiB and a rest.
static void large(int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    int64_t n = atoll(argv[i]);
    MPI_Datatype block, type;
    MPI_Type_contiguous(1 << 30, MPI_BYTE, &block);
    int lengths[2] = {(int)(n >> 30), (int)(n & ((1 << 30) - 1))};
    MPI_Aint at[2] = {0, (MPI_Aint)(n >> 30 << 30)};
    MPI_Datatype types[2] = {block, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, at, types, &type);
    MPI_Type_commit(&type);
    unsigned char *b = malloc(n);
    CHECK(b != NULL);
    MPI_Status status;
    MPI_Count count;
    MPI_Recv(b, 1, type, GO, LARGE, MPI_COMM_WORLD, &status);
    MPI_Get_elements_x(&status, MPI_BYTE, &count);
    CHECK(count == n);
    for (int64_t at = 0; at + 8 < n; at += 4096) {
      uint64_t mark;
      memcpy(&mark, b + at, 8);
      CHECK(mark == (uint64_t)at);
    }
    MPI_Send(b, 1, type, GO, LARGE, MPI_COMM_WORLD);
    free(b);
    MPI_Type_free(&type);
    MPI_Type_free(&block);
  }
}

// peer VERSION plain|large LENGTH...
// peer VERSION late, which calls MPI_Finalize 10 s after everybody else.
int main(int argc, char **argv) {
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CHECK(rank == 1);
  join(argv[1]);
  int late = strcmp(argv[2], "late") == 0;
  if (!late) (strcmp(argv[2], "large") == 0 ? large : plain)(argc - 3, argv + 3);
  leave();
  if (late) sleep(10);
  MPI_Finalize();
  puts("the C program has received all");
  return 0;
}
