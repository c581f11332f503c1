// A rank of a peer's process group: it sleeps in read() until the controller asks, measures, answers, sleeps again.
// The protocol is that of ../wire.py.
#pragma once

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "barrier.h"

typedef struct {
  char variant[64];
  int64_t count, warmup, iterations, batch;  // elements; samples not kept; samples kept; calls a sample
  int check;                                 // compare the result of one call before anything is timed
} Request;

typedef struct {
  FILE *asks, *answers;
} Controller;

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void fail(const char* what) {
  perror(what);
  exit(1);
}

// Rank r of every group runs on the r-th core, round and round. Returns how many cores there are.
static inline int pin_to_core(int rank) {
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all) != 0) fail("sched_getaffinity");
  const int cores = CPU_COUNT(&all);
  int wanted = rank % cores;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all) && wanted-- == 0) CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity");
  return cores;
}

// Memory for one buffer, on huge pages where the kernel gives them, as NumPy asks for its arrays. Not touched yet.
static inline float* map_buffer(int64_t bytes, int flags) {
  const size_t huge_page = (size_t)2 << 20;
  const size_t size = ((size_t)bytes + 2 * huge_page) / huge_page * huge_page;
  char* base = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail("mmap");
  madvise(base, size, MADV_HUGEPAGE);
  return (float*)(((uintptr_t)base + huge_page - 1) / huge_page * huge_page);
}

// What rank `rank` contributes at `element`: neighbours differ, a prime period, and sums exact in float32.
static inline float contribution(int rank, int64_t element) { return (float)((element + 7 * rank) % 251); }

static inline Controller meet(const char* socket_path, int rank, const char* version) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof address) != 0) fail(socket_path);
  dprintf(fd, "%d %s\n", rank, version);
  const Controller controller = {fdopen(fd, "r"), fdopen(dup(fd), "w")};
  if (!controller.asks || !controller.answers) fail(socket_path);
  return controller;
}

// Blocks until asked. Returns 0 when there is nothing more to do.
static inline int next_request(const Controller* controller, Request* request) {
  char line[256];
  if (!fgets(line, sizeof line, controller->asks)) return 0;
  return sscanf(line, "%63s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %d", request->variant, &request->count,
                &request->warmup, &request->iterations, &request->batch, &request->check) == 6;
}

static inline void refuse(const Controller* controller, const char* reason) {
  fprintf(controller->answers, "error %s\n", reason);
  fflush(controller->answers);
}

// `wrong` elements of this rank's result, -1 if not compared.
static inline void answer(const Controller* controller, int64_t wrong, const int64_t* samples_ns, int64_t samples) {
  fprintf(controller->answers, "ok %" PRId64 " %" PRId64 "\n", wrong, samples);
  fwrite(samples_ns, sizeof *samples_ns, (size_t)samples, controller->answers);
  fflush(controller->answers);
}

// Every sample begins as this rank leaves the barrier, and holds `batch` calls in a row.
static inline int64_t* time_loop(const Request* request, Barrier* barrier, void (*call)(void*), void* context) {
  int64_t* samples_ns = malloc(sizeof *samples_ns * (size_t)(request->iterations + 1));
  if (!samples_ns) fail("malloc");
  for (int64_t sample = -request->warmup; sample < request->iterations; ++sample) {
    barrier_wait(barrier);
    const int64_t start_ns = now_ns();
    for (int64_t again = 0; again < request->batch; ++again) call(context);
    const int64_t elapsed_ns = now_ns() - start_ns;
    if (sample >= 0) samples_ns[sample] = elapsed_ns;
  }
  return samples_ns;
}
