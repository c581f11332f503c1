// The barrier before every sample of every peer: the dissemination barrier that pycomm's shared memory uses, on a page
// that all ranks of a group map. A library's own barrier would let ranks leave at different distances, and that
// difference would be counted as the time of its all-reduce.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kCacheLine = 64, kBarrierRounds = 5, kMostRanks = 32, kSpins = 20000 };

typedef struct {
  _Alignas(kCacheLine) _Atomic uint64_t epoch;
} BarrierCell;

enum { kBarrierBytes = sizeof(BarrierCell) * kBarrierRounds * kMostRanks };

typedef struct {
  BarrierCell (*cells)[kBarrierRounds];  // [rank][round], each written by its rank alone
  int rank, ranks, spins;                // rounds of looking before the core is given away: none where ranks share it
  uint64_t epoch;
  void (*progress)(void);  // called now and then in a long wait, where a library needs that to finish its last call
} Barrier;

static inline void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline void barrier_wait(Barrier* barrier) {
  const uint64_t epoch = ++barrier->epoch;
  int round = 0;
  for (int distance = 1; distance < barrier->ranks; distance *= 2, ++round) {
    atomic_store_explicit(&barrier->cells[barrier->rank][round].epoch, epoch, memory_order_release);
    const int peer = (barrier->rank - distance + barrier->ranks) % barrier->ranks;
    int waited = 0;
    while (atomic_load_explicit(&barrier->cells[peer][round].epoch, memory_order_acquire) < epoch) {
      if (++waited <= barrier->spins) {
        pause_briefly();
        continue;
      }
      sched_yield();
      if (barrier->progress && waited % 64 == 0) barrier->progress();
    }
  }
}

// Maps the page behind `path`; returns 0, or -1 with errno set.
static inline int barrier_open(Barrier* barrier, const char* path, int rank, int ranks, int cores) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return -1;
  void* page = mmap(NULL, kBarrierBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return -1;
  *barrier = (Barrier){.cells = page, .rank = rank, .ranks = ranks, .spins = ranks > cores ? 0 : kSpins};
  return 0;
}
