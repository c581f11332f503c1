#include "cuda/emulator/machine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "cuda/emulator/shim.hpp"

namespace pycomm::emulator {

namespace {

thread_local Machine* running_machine = nullptr;  // accessors have no argument to pass it in

}  // namespace

Machine& running() { return *running_machine; }

void check_own_device(const void* place) {
  Machine& machine = running();
  if (machine.memory().device_of(place) != machine.current().block->grid->device)
    throw Fault("an access of device scope to another device's memory");
}

Machine::Machine(std::uint64_t seed) : random_(seed), memory_(seed) { reset(seed); }
Machine::~Machine() = default;

void Machine::reset(std::uint64_t seed, Mutation mutation) {
  random_ = Random(seed * 2 + 1);
  memory_.reset(seed * 2);
  mutation_ = mutation;
  constexpr std::uint32_t drain_percents[] = {3, 15, 50, 95};
  constexpr std::uint32_t switch_rates[] = {2, 6, 20, 100};
  drain_percent_ = drain_percents[random_.below(4)];
  switch_one_in_ = switch_rates[random_.below(4)];
  switches_ = 0;
  bulk_copies_ = 0;
  next_block_ = 0;
  queues_.clear();
  ready_.clear();
  free_.clear();
  for (const auto& thread : threads_) free_.push_back(thread.get());
  current_ = nullptr;
  fault_ = nullptr;
}

void Machine::launch(int device, std::uint32_t blocks, std::uint32_t threads, std::function<void()> kernel, int stream,
                     std::uint32_t shared_bytes) {
  auto grid = std::make_unique<GridRun>();
  grid->device = device;
  grid->stream = stream < 0 ? device : stream;
  grid->blocks = blocks;
  grid->threads = threads;
  grid->shared_bytes = shared_bytes;
  grid->kernel = std::move(kernel);
  const auto index = static_cast<std::size_t>(grid->stream);
  if (queues_.size() <= index) queues_.resize(index + 1);
  queues_[index].push_back(std::move(grid));
}

void Machine::start(std::unique_ptr<GridRun> grid) {
  const bool skewed = random_.one_in(2);  // half of the seeds let some blocks lag far behind
  GridRun& run = *grid;
  queues_[static_cast<std::size_t>(run.stream)].front() = std::move(grid);
  for (std::uint32_t b = 0; b < run.blocks; ++b) {
    auto block = std::make_unique<BlockRun>();
    block->grid = &run;
    block->index = b;
    block->buffer.block = next_block_++;
    block->slowness = skewed ? random_.below(5) : 0;
    for (std::uint32_t t = 0; t < run.threads; ++t) {
      if (free_.empty()) {
        threads_.push_back(std::make_unique<ThreadRun>());
        free_.push_back(threads_.back().get());
      }
      ThreadRun* thread = free_.back();
      free_.pop_back();
      thread->machine = this;
      thread->block = block.get();
      thread->view = View{};
      thread->view.block = block->buffer.block;
      thread->view.thread = t;
      thread->view.acquired = memory_.time();
      thread->waiting = false;
      thread->fiber.start(&Machine::enter, thread);
      block->threads.push_back(thread);
      ready_.push_back(thread);
    }
    block->tma.reset(run.shared_bytes, block->threads.front()->view);
    run.runs.push_back(std::move(block));
  }
}

void Machine::enter(void* argument) {
  auto& thread = *static_cast<ThreadRun*>(argument);
  Machine& machine = *thread.machine;
  try {
    thread.block->grid->kernel();
    machine.end_thread(thread);
  } catch (...) {
    machine.fault_ = std::current_exception();
  }
  machine.suspend();
}

void Machine::suspend() { current_->fiber.suspend(); }

void Machine::run(std::uint64_t steps) {
  if (advance(steps)) throw Fault("no end after " + std::to_string(steps) + " switches");
}

bool Machine::idle(int stream) const {
  const auto index = static_cast<std::size_t>(stream);
  return index >= queues_.size() || queues_[index].empty();
}

bool Machine::advance(std::uint64_t steps) {
  running_machine = this;
  const std::uint64_t limit = switches_ + steps;
  bool alive = true;
  while (!fault_ && switches_ < limit) {
    alive = false;
    for (auto& queue : queues_) {
      if (queue.empty()) continue;
      alive = true;
      GridRun& front = *queue.front();
      if (front.runs.empty()) {
        start(std::move(queue.front()));
      } else if (front.finished == front.blocks) {
        bool drained = true;
        for (const auto& block : front.runs) drained = drained && !drain_one(*block);
        if (drained) queue.pop_front();
      }
    }
    if (!alive) break;
    if (ready_.empty()) {
      const auto can_go_on = [](const auto& queue) {
        return queue.empty() || queue.front()->runs.empty() || queue.front()->finished == queue.front()->blocks;
      };
      if (!std::all_of(queues_.begin(), queues_.end(), can_go_on))
        throw Fault("threads of a block wait at a barrier that the others never reach");
      continue;
    }
    step();
  }
  running_machine = nullptr;
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
  return alive;
}

void Machine::step() {
  ++switches_;
  drain_some();
  std::size_t index = random_.below(ready_.size());
  const std::uint32_t slowness = ready_[index]->block->slowness;
  if (slowness > 0 && !random_.one_in(1u << slowness)) index = random_.below(ready_.size());
  current_ = ready_[index];
  current_->fiber.resume();
  if (current_->waiting) {
    ready_[index] = ready_.back();
    ready_.pop_back();
  }
}

void Machine::drain_some() {
  if (random_.below(100) >= drain_percent_) return;
  const std::size_t first = random_.below(queues_.size());
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    auto& queue = queues_[(first + i) % queues_.size()];
    if (queue.empty() || queue.front()->runs.empty()) continue;
    auto& runs = queue.front()->runs;
    const std::size_t block = random_.below(runs.size());
    for (std::size_t k = 0; k < runs.size(); ++k)
      if (drain_one(*runs[(block + k) % runs.size()])) return;
  }
}

bool Machine::drain_one(BlockRun& block) {
  const bool copies_first = block.tma.busy() && random_.one_in(2);
  if (copies_first && block.tma.advance(memory_, block.buffer, random_)) return true;
  return memory_.drain_one(block.buffer) || block.tma.advance(memory_, block.buffer, random_);
}

void Machine::end_thread(ThreadRun& thread) {
  BlockRun& block = *thread.block;
  thread.waiting = true;  // never ready again
  if (++block.finished == block.threads.size()) {
    ++block.grid->finished;
    for (ThreadRun* each : block.threads) free_.push_back(each);
  } else if (block.arrived > 0) {
    throw Fault("a thread ended while others of its block wait at a barrier");
  }
}

int Machine::barrier(int vote) {
  if (mutation_ == Mutation::no_barrier) {
    maybe_switch();
    return vote;
  }
  BlockRun& block = *current_->block;
  if (block.finished > 0) throw Fault("a thread waits at a barrier after others of its block ended");
  block.vote |= vote;
  if (++block.arrived == block.threads.size()) {
    release_barrier(block);
    maybe_switch();
  } else {
    current_->waiting = true;
    suspend();
  }
  return block.result;
}

void Machine::release_barrier(BlockRun& block) {
  std::uint64_t acquired = 0;
  for (const ThreadRun* thread : block.threads) acquired = std::max(acquired, thread->view.acquired);
  for (ThreadRun* thread : block.threads) {
    thread->view.acquired = acquired;
    ++thread->view.phase;
    if (thread->waiting) {
      thread->waiting = false;
      ready_.push_back(thread);
    }
  }
  block.result = block.vote;
  block.vote = 0;
  block.arrived = 0;
}

void Machine::maybe_switch() {
  if (random_.one_in(switch_one_in_)) suspend();
}

void Machine::spin() {
  if (random_.one_in(2)) drain_some();
  suspend();
}

std::uint64_t Machine::load(const void* from, std::size_t bytes, Order order) {
  if (mutation_ == Mutation::no_acquire && order == Order::acquire) order = Order::relaxed;
  maybe_switch();
  return memory_.load(current_->view, current_->block->buffer, from, bytes, order);
}

void Machine::store(void* to, std::size_t bytes, std::uint64_t value, Order order) {
  if (mutation_ == Mutation::no_fence && order == Order::release) order = Order::relaxed;
  memory_.store(current_->view, current_->block->buffer, to, bytes, value, order);
  maybe_switch();
}

void Machine::store_line(void* to, std::uint64_t value) {
  if (mutation_ == Mutation::torn_line) {
    store(to, 4, value & 0xFFFFFFFFu, Order::relaxed);
    store(static_cast<char*>(to) + 4, 4, value >> 32, Order::relaxed);
  } else {
    store(to, 8, value, Order::relaxed);
  }
}

void Machine::fence() {
  if (mutation_ == Mutation::no_fence) return;
  memory_.fence(current_->view, current_->block->buffer);
}

void Machine::tma_begin(std::uint32_t barrier) { current_->block->tma.begin(current_->view, barrier); }

void Machine::tma_load(std::uint32_t to, std::uint32_t barrier, const void* from, std::uint32_t bytes) {
  current_->block->tma.load(current_->view, memory_, to, barrier, from, bytes);
  ++bulk_copies_;
  maybe_switch();
}

bool Machine::tma_loaded(std::uint32_t barrier, std::uint32_t phase) {
  return mutation_ == Mutation::no_load_wait || current_->block->tma.loaded(barrier, phase);
}

void Machine::tma_store(void* to, std::uint32_t from, std::uint32_t bytes) {
  current_->block->tma.store(current_->view, memory_, to, from, bytes);
  maybe_switch();
}

void Machine::tma_wait_read() {
  if (mutation_ == Mutation::no_stage_wait) return;
  while (!current_->block->tma.have_read(1)) spin();
}

void Machine::tma_wait() {
  if (mutation_ == Mutation::no_wait) return;
  while (!current_->block->tma.have_read(0)) spin();
  if (mutation_ != Mutation::read_wait) current_->block->tma.finish();
}

void Machine::fence_generic_to_async() {
  if (mutation_ != Mutation::no_fence_to_async) current_->block->tma.take_view(current_->view);
}

void Machine::fence_async_to_generic() {
  if (mutation_ == Mutation::no_fence_from_async) return;
  current_->block->tma.give_writes(current_->view, current_->block->buffer, memory_);
}

std::uint64_t Machine::compare_and_swap(void* at, std::size_t bytes, std::uint64_t expected, std::uint64_t desired) {
  maybe_switch();
  return memory_.compare_and_swap(current_->view, current_->block->buffer, at, bytes, expected, desired);
}

}  // namespace pycomm::emulator
