// What a builder may ask about the world it builds for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace pycomm {

using Options = std::map<std::string, int>;  // flags have the value 1

struct Shape {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int segments = 1;  // how often the body is repeated
  int lanes = 1;     // lanes to deal segments out to, at most; a builder uses no more than there are segments
  bool in_place = false;
  int root = 0;
  Options options;
  std::vector<int> hosts;  // hosts[rank] = index of its host; empty: one host
};

}  // namespace pycomm
