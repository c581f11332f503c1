// What each algorithm file gives: a function a collective, saying what one rank does.
#pragma once

#include "schedule/builder.hpp"

namespace pycomm::algorithms {

void ring_allreduce(Builder& rank);
void tree_allreduce(Builder& rank);
void ps_allreduce(Builder& rank);
void mesh_allreduce(Builder& rank);

}  // namespace pycomm::algorithms
