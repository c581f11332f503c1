// What no all-reduce of this machine can beat, timed by the same loop behind the same barrier.
//
//   limits SOCKET BARRIER LARGEST_COUNT RANKS
//
//   memory     each of the p ranks reads its n/p of all p inputs, adds, and stores its n/p of all p outputs past the
//              caches, waiting for nobody: (p + p) n/p bytes a rank, between buffers that all ranks share
//   line       two ranks at once: each stores into a line of its own and waits to see the other's. An all-reduce of
//              a few bytes contains this exchange
//   roundtrip  a line to the other rank and one back, one after the other
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <signal.h>
#include <sys/prctl.h>

#include "rank.h"

enum { kLineFloats = kCacheLine / sizeof(float) };

typedef struct {
  _Alignas(2 * kCacheLine) _Atomic uint64_t number;  // a pair of lines each: the prefetcher brings lines in pairs
} Line;

typedef struct {
  int rank, ranks;
  float *in[kMostRanks], *out[kMostRanks];
  int64_t count;
  Line* lines;
  uint64_t exchanged;
} Limits;

#if defined(__AVX512F__)
typedef __m512 Vector;
#define LOAD _mm512_load_ps
#define ADD _mm512_add_ps
#define STREAM _mm512_stream_ps
#define FENCE _mm_sfence
#elif defined(__AVX__)
typedef __m256 Vector;
#define LOAD _mm256_load_ps
#define ADD _mm256_add_ps
#define STREAM _mm256_stream_ps
#define FENCE _mm_sfence
#elif defined(__x86_64__)
typedef __m128 Vector;
#define LOAD _mm_load_ps
#define ADD _mm_add_ps
#define STREAM _mm_stream_ps
#define FENCE _mm_sfence
#else  // no non-temporal store that a compiler offers: ordinary ones, which read each line before they write it
typedef float Vector;
#define LOAD *
#define ADD(left, right) ((left) + (right))
#define STREAM(to, value) (*(to) = (value))
#define FENCE() ((void)0)
#endif

enum { kVectorFloats = sizeof(Vector) / sizeof(float) };

// A whole line of each stream at a time, so that every store fills its write-combining buffer. `ranks` is a constant
// where this is inlined.
__attribute__((always_inline)) static inline void stream_share(const Limits* limits, int ranks) {
  const int64_t lines = limits->count / kLineFloats;
  const int64_t end = lines * (limits->rank + 1) / limits->ranks * kLineFloats;
  for (int64_t element = lines * limits->rank / limits->ranks * kLineFloats; element < end; element += kLineFloats) {
    Vector sums[kLineFloats / kVectorFloats];
    for (int part = 0; part < kLineFloats / kVectorFloats; ++part)
      sums[part] = LOAD(limits->in[0] + element + part * kVectorFloats);
    for (int peer = 1; peer < ranks; ++peer)
      for (int part = 0; part < kLineFloats / kVectorFloats; ++part)
        sums[part] = ADD(sums[part], LOAD(limits->in[peer] + element + part * kVectorFloats));
    for (int peer = 0; peer < ranks; ++peer)
      for (int part = 0; part < kLineFloats / kVectorFloats; ++part)
        STREAM(limits->out[peer] + element + part * kVectorFloats, sums[part]);
  }
  FENCE();
}

static void memory(void* context) {
  const Limits* limits = context;
  switch (limits->ranks) {
    case 2: stream_share(limits, 2); break;
    case 4: stream_share(limits, 4); break;
    default: stream_share(limits, limits->ranks);
  }
}

static void await(const Line* line, uint64_t number) {
  while (atomic_load_explicit(&line->number, memory_order_acquire) < number) pause_briefly();
}

static void line(void* context) {
  Limits* limits = context;
  const uint64_t number = ++limits->exchanged;
  atomic_store_explicit(&limits->lines[limits->rank].number, number, memory_order_release);
  await(&limits->lines[1 - limits->rank], number);
}

static void roundtrip(void* context) {
  Limits* limits = context;
  const uint64_t number = ++limits->exchanged;
  if (limits->rank == 1) await(&limits->lines[0], number);
  atomic_store_explicit(&limits->lines[limits->rank].number, number, memory_order_release);
  if (limits->rank == 0) await(&limits->lines[1], number);
}

// The outputs of this rank's share are the sums of the inputs.
static int64_t wrong_elements(Limits* limits, Barrier* barrier) {
  for (int64_t element = 0; element < limits->count; ++element) {
    limits->in[limits->rank][element] = contribution(limits->rank, element);
    limits->out[limits->rank][element] = -1;
  }
  barrier_wait(barrier);
  memory(limits);
  barrier_wait(barrier);
  int64_t wrong = 0;
  for (int64_t element = 0; element < limits->count / kLineFloats * kLineFloats; ++element) {
    float sum = 0;
    for (int peer = 0; peer < limits->ranks; ++peer) sum += contribution(peer, element);
    wrong += limits->out[limits->rank][element] != sum;
  }
  return wrong;
}

static void live(Limits* limits, int cores, char** argv) {
  Barrier barrier;
  if (barrier_open(&barrier, argv[2], limits->rank, limits->ranks, cores) != 0) fail(argv[2]);
  const Controller controller = meet(argv[1], limits->rank, "limits");
  Request request;
  while (next_request(&controller, &request)) {
    void (*call)(void*) = strcmp(request.variant, "memory") == 0      ? memory
                          : strcmp(request.variant, "line") == 0      ? line
                          : strcmp(request.variant, "roundtrip") == 0 ? roundtrip
                                                                      : NULL;
    if (!call) {
      refuse(&controller, "limits are memory, line and roundtrip");
      continue;
    }
    if (call != memory && (limits->ranks != 2 || cores < 2)) {
      refuse(&controller, "the exchange of a line is between two ranks on two cores");
      continue;
    }
    limits->count = request.count;
    const int64_t wrong = request.check && call == memory ? wrong_elements(limits, &barrier) : -1;
    int64_t* samples_ns = time_loop(&request, &barrier, call, limits);
    answer(&controller, wrong, samples_ns, request.iterations);
    free(samples_ns);
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int64_t bytes = strtoll(argv[3], NULL, 10) * (int64_t)sizeof(float);
  Limits limits = {.ranks = atoi(argv[4])};
  if (limits.ranks < 1 || limits.ranks > kMostRanks) return 2;
  for (int rank = 0; rank < limits.ranks; ++rank) {
    limits.in[rank] = map_buffer(bytes, MAP_SHARED | MAP_ANONYMOUS);
    limits.out[rank] = map_buffer(bytes, MAP_SHARED | MAP_ANONYMOUS);
  }
  limits.lines = (Line*)map_buffer(sizeof(Line) * 2, MAP_SHARED | MAP_ANONYMOUS);
  for (int rank = 1; rank < limits.ranks && limits.rank == 0; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) fail("fork");
    if (pid == 0) {
      limits.rank = rank;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
  }
  live(&limits, pin_to_core(limits.rank), argv);
  return 0;
}
