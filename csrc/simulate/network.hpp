// Times a schedule on a network, message by message.
//
// A send joins its rank's out-port, which serves messages in order, size × β each. The head reaches the receiver α
// later; the in-port serves what arrived first, one message at a time, cut-through, size × β; the network buffers
// without limit. A lane takes messages in step order; reducing occupies the lane size × γ and overlaps with later
// arrivals. Links differ inside a host and between hosts; the ports of a host's network card are shared by its ranks.
//
// Ties: at one moment lanes move first, lower rank then lower lane first; then heads arrive, from the lower rank
// first. The same call gives the same times, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

struct LinkPiece {
  double from_bytes = 0;  // messages of at least this size, up to the next piece's
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

struct Network {
  std::vector<LinkPiece> between;    // sorted by from_bytes, the first from 0; the only link where `hosts` is empty
  std::vector<LinkPiece> inside;     // between ranks of one host; empty: as `between`
  double gamma_s_per_byte = 0;       // a reduced byte
  bool alpha_occupies_port = false;  // startup rather than latency
  std::vector<std::int32_t> hosts;   // hosts[rank]; empty: every rank has ports of its own
};

struct Payload {
  std::int64_t count = 0;  // elements of the larger buffer
  std::int64_t element_bytes = 4;
  std::int64_t align = 1;  // elements: chunk and segment borders, as part_of() sets them
};

struct ScheduleTimes {
  std::vector<double> finish_s;              // a rank: its steps done and its sends taken
  std::vector<std::int64_t> sent_bytes;      // a rank
  std::vector<std::int64_t> received_bytes;  // a rank
  std::int64_t messages = 0;
};

// Raises UsageError for a network without a link or with a negative or infinite figure, and ScheduleError, naming rank,
// lane and step, for a schedule whose ranks wait for ever.
ScheduleTimes simulate(const Schedule& schedule, const Payload& payload, const Network& network);

}  // namespace pycomm
