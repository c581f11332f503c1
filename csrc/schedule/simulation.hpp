// Follows a schedule step by step, in one of the orders in which it may run: see verify.hpp. (The simulator that tells
// time is simulate/.)
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "schedule/count.hpp"
#include "schedule/layout.hpp"
#include "schedule/places.hpp"
#include "schedule/refuse.hpp"

namespace pycomm {

class Simulation {
 public:
  Simulation(const Schedule& schedule, std::vector<std::int32_t> segments, std::int32_t calls);

  // Raises ScheduleError.
  void run();

  // Before run(): have it keep the messages (of all calls).
  void record() { recording_ = true; }
  std::vector<Message>& messages() { return messages_; }
  std::int32_t depth() const { return depth_; }  // the greatest round of a message in the first call

  std::size_t expressions() const { return expressions_.size() - 1; }

 private:
  struct Item {  // a message, or a chunk of one that carries a run
    Expressions::Id value = Expressions::kNone;
    Clocks::Ref clock = Clocks::kNothing;  // what the sender knew
    std::int32_t sent_time = 0;
    std::uint32_t hold = 0;
    std::int32_t extent = 0;
    bool joined = false;                         // to the item before
    bool landed = false;                         // it was stored at the receiver by the combine before the send:
    Clocks::Ref store_clock = Clocks::kNothing;  // what the sender knew then
    std::int32_t store_time = 0;
    std::size_t message = 0;  // recorded
  };

  struct Queue {  // of one (from, to, lane); one slot
    Item item;    // the first; the others of its run are in behind_
    bool full = false;
    Clocks::Ref take_clock = Clocks::kNothing;  // what the taker knew at the last take
    std::int32_t take_time = 0;
    std::int32_t round = 0;       // of the last message
    std::int32_t take_round = 0;  // what the taker knew at the last take
    std::size_t message = 0;      // the last that was recorded
  };

  struct LaneState {
    std::int32_t rank = 0, number = 0;
    std::int32_t segment = 0;  // index into segments_
    std::int32_t step = 0;
    std::int32_t operand = 0;  // of a combine: those before have arrived
    std::int32_t time = 0;     // steps done, over all segments and calls
    std::int32_t round = 0;    // of the latest message that it has, or was told of
    Clocks::Ref clock = Clocks::kNothing;
    std::int64_t waits_on = -1;  // a queue, kAfter, or -1: it can go on
    bool stores = false;         // the last steps were a combine into `stored`, its division, and sends of it
    Place stored{};
    Clocks::Ref store_clock = Clocks::kNothing;  // what was known at that combine
    std::int32_t store_time = 0;
    std::vector<std::int32_t> after;  // by lane of this rank: the steps that this one was made to come after
    bool queued = false;
    bool done = false;
    bool watched = false;  // another lane has an `after` on it
  };

  struct RankState {
    std::int32_t call = 0;
    std::int32_t running = 0;  // lanes
    std::int32_t untaken = 0;  // sends
    std::size_t first_place = 0;
    Layout layout;
  };

  static constexpr std::int64_t kAfter = -2;

  // simulation.cpp: the order of things.
  void enter_call(std::int32_t rank);
  void end_call_if_over(std::int32_t rank);
  void go_on(std::size_t lane);
  bool do_step(LaneState& lane, const Step& step);  // false: it must wait
  bool may_send(LaneState& lane, const Step& step);
  bool has_arrived(LaneState& lane, std::int32_t from);
  bool all_arrived(LaneState& lane, const Step& step);
  bool past(LaneState& lane, const Step& step);
  void skip_segments_of_others(LaneState& lane) const;
  void wake(std::size_t lane);
  const Step* current(const LaneState& lane) const;

  // effects.cpp: what a step does to the places.
  void send(LaneState& lane, const Step& step);
  Expressions::Id take(LaneState& lane, std::int32_t from, const Step& step);
  void receive(LaneState& lane, const Step& step);
  void combine(LaneState& lane, const Step& step);
  Expressions::Id read(LaneState& lane, Place place, const Step& step);
  void write(LaneState& lane, Place place, Expressions::Id value, const Step& step);
  void check_landing(LaneState& lane, const Step& step, const Item& item);
  void need_over(const LaneState& lane, const PlaceState& place, const char* doing);
  void remember_store(LaneState& lane, const Step& step);
  void end_take(LaneState& lane, std::int32_t from);

  // outcome.cpp: what each rank must hold at the end of a call.
  void check_outcome(std::int32_t rank);
  void check_sum(const Site& site, Expressions::Id value, std::int32_t part);
  void check_copy(const Site& site, Expressions::Id value, std::int32_t from, std::int32_t part);
  std::string name_of_input(Expressions::Id input) const;

  // circle.cpp
  [[noreturn]] void refuse_deadlock();
  struct Wait {
    std::int64_t lane;  // it waits for; -1: nobody can end the wait
    std::string text;
  };
  Wait wait_of(std::size_t lane) const;

  std::int32_t segment_of(const LaneState& lane) const { return segments_[static_cast<std::size_t>(lane.segment)]; }
  Site site_of(const LaneState& lane) const { return {lane.rank, lane.number, lane.step, segment_of(lane)}; }
  std::size_t lane_index(std::int32_t rank, std::int32_t lane) const {
    return static_cast<std::size_t>(rank) * lanes_ + static_cast<std::size_t>(lane);
  }
  std::size_t queue_index(std::int32_t from, std::int32_t to, std::int32_t lane) const {
    return (static_cast<std::size_t>(to) * static_cast<std::size_t>(schedule_.ranks) + static_cast<std::size_t>(from)) *
               lanes_ +
           static_cast<std::size_t>(lane);
  }
  Queue& queue_at(std::size_t index);
  PlaceState& place_at(const LaneState& lane, Place place);
  std::int32_t part_number(std::int32_t chunk, std::int32_t segment) const {
    return chunk * static_cast<std::int32_t>(segments_.size()) + segment;
  }
  const Program& program_of(const LaneState& lane) const {
    return schedule_.programs[static_cast<std::size_t>(lane.rank)];
  }

  const Schedule& schedule_;
  std::vector<std::int32_t> segments_;
  std::int32_t calls_;
  std::size_t lanes_;  // of a rank, at most

  std::vector<LaneState> lane_states_;
  std::vector<RankState> rank_states_;
  std::vector<std::int32_t> queue_numbers_;  // by queue_index; -1: not used yet
  std::vector<Queue> queues_;
  std::unordered_map<std::size_t, std::deque<Item>> behind_;  // by queue_index: the rest of a run
  std::vector<PlaceState> places_;
  Uses uses_;
  Expressions expressions_;
  Clocks clocks_;
  bool landing_;  // some steps are landed
  bool waiting_;  // some steps are waits
  bool track_reads_;
  std::vector<std::size_t> ready_;
  std::vector<Expressions::Id> operand_values_;

  struct Past {  // a watched step that is over
    Clocks::Ref clock;
    std::int32_t time;
    std::int32_t round;
    std::vector<std::int32_t> after;
  };
  std::unordered_map<std::uint64_t, Past> past_;  // by lane, step and segment, of the lane's current call

  std::vector<Expressions::Id> agreed_;  // by call and part: what the first rank held
  std::vector<std::uint32_t> complete_;  // by expression: 1 + the number of the call and part whose full sum it is
  std::vector<std::int32_t> stamps_;     // by rank: the last walk that met its contribution
  std::int32_t walk_ = 0;

  bool recording_ = false;
  std::vector<Message> messages_;
  std::int32_t depth_ = 0;

  bool odd_extent_ = false;  // a message whose ends disagree on its size: told if nothing worse is found
  Site odd_site_{};
  std::string odd_text_;
};

}  // namespace pycomm
