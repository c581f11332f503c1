// What each algorithm file gives: a function a collective, saying what one rank does.
#pragma once

#include "schedule/builder.hpp"

namespace pycomm::algorithms {

void ring_allreduce(Builder& rank);
void ring_reduce_scatter(Builder& rank);
void ring_allgather(Builder& rank);
void ring_broadcast(Builder& rank);

void tree_allreduce(Builder& rank);
void tree_broadcast(Builder& rank);
void tree_reduce(Builder& rank);

void double_tree_allreduce(Builder& rank);

void recursive_doubling_allreduce(Builder& rank);

void halving_doubling_allreduce(Builder& rank);

void ps_allreduce(Builder& rank);

void mesh_allreduce(Builder& rank);
void mesh_reduce_scatter(Builder& rank);
void mesh_allgather(Builder& rank);
void mesh_reduce(Builder& rank);
void mesh_broadcast(Builder& rank);
void mesh_alltoall(Builder& rank);

void direct_allreduce(Builder& rank);
void direct_reduce(Builder& rank);
void direct_broadcast(Builder& rank);

void hierarchical_allreduce(Builder& rank);

}  // namespace pycomm::algorithms
