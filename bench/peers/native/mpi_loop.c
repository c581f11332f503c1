// A rank of an MPI: MPI_Allreduce of float32, sum, out of place, in a loop of C. Built once by each MPI's own mpicc.
//
//   mpi_loop SOCKET BARRIER LARGEST_COUNT
#include <mpi.h>

#include "rank.h"

typedef struct {
  float *in, *out;
  int64_t count;
} Buffers;

static void allreduce(void* context) {
  const Buffers* buffers = context;
  MPI_Allreduce(buffers->in, buffers->out, (int)buffers->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void progress(void) {
  int found;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

// How many elements one call leaves wrong.
static int64_t wrong_elements(Buffers* buffers, int rank, int ranks) {
  for (int64_t element = 0; element < buffers->count; ++element) {
    buffers->in[element] = contribution(rank, element);
    buffers->out[element] = -1;
  }
  allreduce(buffers);
  int64_t wrong = 0;
  for (int64_t element = 0; element < buffers->count; ++element) {
    float sum = 0;
    for (int peer = 0; peer < ranks; ++peer) sum += contribution(peer, element);
    wrong += buffers->out[element] != sum;
  }
  return wrong;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  int rank, ranks, length;
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n")] = 0;
  Barrier barrier;
  if (barrier_open(&barrier, argv[2], rank, ranks, pin_to_core(rank)) != 0) fail(argv[2]);
  barrier.progress = progress;
  const int64_t bytes = strtoll(argv[3], NULL, 10) * (int64_t)sizeof(float);
  Buffers buffers = {map_buffer(bytes, MAP_PRIVATE | MAP_ANONYMOUS), map_buffer(bytes, MAP_PRIVATE | MAP_ANONYMOUS), 0};
  const Controller controller = meet(argv[1], rank, version);
  Request request;
  while (next_request(&controller, &request)) {
    buffers.count = request.count;
    const int64_t wrong = request.check ? wrong_elements(&buffers, rank, ranks) : -1;
    int64_t* samples_ns = time_loop(&request, &barrier, allreduce, &buffers);
    answer(&controller, wrong, samples_ns, request.iterations);
    free(samples_ns);
  }
  MPI_Finalize();
  return 0;
}
