// The same barrier for ranks written in Python, through ctypes: one group a process.
#include "barrier.h"

static Barrier barrier;

int peers_barrier_open(const char* path, int rank, int ranks, int cores) {
  return barrier_open(&barrier, path, rank, ranks, cores);
}

void peers_barrier_wait(void) { barrier_wait(&barrier); }
