// From a call to what each rank will do: the schedule, and the size of every message. All ranks make the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "algorithms/registry.hpp"
#include "base/dtype.hpp"
#include "base/op.hpp"
#include "schedule/schedule.hpp"

namespace pycomm {

struct Call {
  Collective collective = Collective::allreduce;
  std::string algorithm;
  Options options;
  Op op = Op::sum;
  DType dtype = DType::f32;
  std::int64_t count = 0;  // elements of the whole buffer, the larger where two differ; a multiple of ranks there
  bool in_place = false;
  bool symmetric = false;  // every rank's buffers can be read by its peers
  int root = 0;
};

struct Plan {
  Call call;
  Schedule schedule;
  int lanes = 1;  // of the schedule, at most

  // Where segment `segment` of chunk `chunk` lies: elements.
  Extent extent(std::int32_t chunk, std::int32_t segment) const;
  // Elements between the beginnings of two tmp chunks.
  std::int64_t tmp_stride() const;
  // The call in words. Two ranks may work together only if theirs agree.
  std::string signature() const;
};

// `slot_bytes`: what a message may have at most where it is copied into a queue.
Plan make_plan(const Call& call, int ranks, std::size_t slot_bytes);

}  // namespace pycomm
