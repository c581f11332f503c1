// What an algorithm says: the steps of ONE rank. build() calls the algorithm for every rank and collects the programs.
//
//   rank.chunks(2);                         // cut the buffer
//   rank.deal([&] {                         // lanes that share this body and take the segments in turn
//     rank.send(in(0), rank.ahead(1));
//     rank.combine(out(0), {own(in(0)), message(rank.ahead(-1))});
//   });
//
// Errors: none here; what is written is proved (or refused) by verify().
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace pycomm::algorithms {

// A place, and the chunk whose extent is meant: a place's own, but for tmp, whose places hold any chunk.
struct Spot {
  Place place;
  int chunk;
  bool operator==(const Spot&) const = default;
};

constexpr Spot in(int chunk) { return {{Buffer::in, chunk}, chunk}; }
constexpr Spot out(int chunk) { return {{Buffer::out, chunk}, chunk}; }
constexpr Spot tmp(int index, int chunk) { return {{Buffer::tmp, index}, chunk}; }

// Chunks that follow each other in `in` or `out`.
struct Run {
  Buffer buffer;
  int first;
  int count;
  constexpr Spot operator[](int k) const { return {{buffer, first + k}, first + k}; }
};

constexpr Run ins(int first, int count) { return {Buffer::in, first, count}; }
constexpr Run outs(int first, int count) { return {Buffer::out, first, count}; }

constexpr Operand own(Spot spot) { return {-1, spot.place}; }
constexpr Operand message(int peer) { return {peer, {}}; }

class Builder {
 public:
  // `like`: the program of another rank, about as long as this one will be.
  Builder(const Shape& shape, int rank, int workers, const Program* like = nullptr)
      : shape_(shape), rank_(rank), workers_(workers), like_(like) {}

  int rank() const { return rank_; }
  int ranks() const { return shape_.ranks; }
  int workers() const { return workers_; }
  int root() const { return shape_.root; }
  const Shape& shape() const { return shape_; }
  // The value of an option; `otherwise` if it was not given.
  int option(std::string_view name, int otherwise) const;
  // The rank `distance` places further on, round the circle; distance may be negative.
  int ahead(int distance) const { return ((rank_ + distance) % ranks() + ranks()) % ranks(); }

  // Cuts the buffer; the same on every rank. 1 unless said.
  void chunks(int count) { chunks_ = count; }
  // This rank passes no buffers: it has `tmp` alone.
  void passes_no_buffers() { program_.passes_buffers = false; }

  // Lanes, at most shape().lanes and one a segment, that share `body`; lane l takes the segments l, l + lanes, …
  template <class Body>
  void deal(Body&& body) {
    const int lanes = std::max(1, std::min(shape_.lanes, shape_.segments));
    const std::int32_t index = fill(body);
    for (std::int32_t first = 0; first < lanes; ++first) program_.lanes.push_back({index, first, lanes});
  }

  // A lane of its own that takes every segment in order. Returns its number.
  template <class Body>
  int lane(Body&& body) {
    program_.lanes.push_back({fill(body), 0, 1});
    return static_cast<int>(program_.lanes.size()) - 1;
  }

  // The steps, as schedule.hpp's Action describes them. Each returns its number in the body, for after().
  int send(Spot from, int peer);
  int recv(Spot to, int peer);
  int recv_reduce(Spot to, int peer);
  // A run of chunks, in one message.
  void send(Run from, int peer);
  void recv(Run to, int peer);
  void combine(Run to, Run mine, int peer);  // each chunk of `to` from that of `mine` and the peer's message
  int copy(Spot to, Spot from);              // nothing, and -1, where the two are one memory
  int reduce(Spot to, Spot from);
  int combine(Spot to, std::span<const Operand> operands);  // one operand: copy or recv
  int combine(Spot to, std::initializer_list<Operand> operands) {
    return combine(to, std::span(operands.begin(), operands.size()));
  }
  int scale(Spot spot);
  // All workers' contributions in rank order, this rank's own from `mine`, the others' from their messages; and scale.
  void combine_all(Spot to, Spot mine);
  int wait(int peer);
  int after(int lane, int step);

  // For build().
  int chunks() const { return chunks_; }
  int longest_run() const { return longest_run_; }
  Program finish() { return std::move(program_); }

 private:
  template <class Body>
  std::int32_t fill(Body&& body) {
    const std::size_t index = program_.bodies.size();
    program_.bodies.emplace_back();
    if (like_ != nullptr && index < like_->bodies.size()) program_.bodies.back().reserve(like_->bodies[index].size());
    body();
    return static_cast<std::int32_t>(program_.bodies.size()) - 1;
  }
  int push(const Step& step);
  void join_last(int count);  // the steps pushed last
  int extent(Spot spot);      // Step::chunk; counts tmp's places

  const Shape& shape_;
  int rank_;
  int workers_;
  const Program* like_;
  int chunks_ = 1;
  int longest_run_ = 1;
  Program program_;
};

}  // namespace pycomm::algorithms
