// The switch is written by hand: ucontext asks the kernel to save the signal mask at every switch, twenty times the
// cost, and a test switches millions of times.
#include "cuda/emulator/fiber.hpp"

#include <cstdint>
#include <cstdlib>

#if defined(__x86_64__)

// Saves the registers a call must keep on the present stack, its pointer in *save, and goes on from `load`.
asm(R"(
.text
.hidden pycomm_fiber_switch
.globl pycomm_fiber_switch
.type pycomm_fiber_switch, @function
pycomm_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size pycomm_fiber_switch, .-pycomm_fiber_switch

.hidden pycomm_fiber_first
.globl pycomm_fiber_first
.type pycomm_fiber_first, @function
pycomm_fiber_first:
  movq %r12, %rdi
  callq *%r13
  ud2
.size pycomm_fiber_first, .-pycomm_fiber_first
)");

extern "C" {
void pycomm_fiber_switch(void** save, void* load);
void pycomm_fiber_first();
}

namespace pycomm::emulator {

namespace {

struct SavedFrame {  // as pycomm_fiber_switch pops it
  std::uintptr_t r15, r14, r13, r12, rbx, rbp, return_address;
};

}  // namespace

void Fiber::start(void (*entry)(void*), void* argument) {
  if (!stack_) stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  entry_ = entry;
  argument_ = argument;
  // The stack grows down; at the call in pycomm_fiber_first it must be a multiple of 16.
  const auto top = reinterpret_cast<std::uintptr_t>(stack_.get() + kStackBytes) & ~std::uintptr_t{15};
  auto* frame = reinterpret_cast<SavedFrame*>(top - sizeof(SavedFrame) - 16);
  *frame = SavedFrame{};
  frame->r12 = reinterpret_cast<std::uintptr_t>(this);
  frame->r13 = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  frame->return_address = reinterpret_cast<std::uintptr_t>(&pycomm_fiber_first);
  fiber_ = frame;
}

void Fiber::resume() { pycomm_fiber_switch(&scheduler_, fiber_); }
void Fiber::suspend() { pycomm_fiber_switch(&fiber_, scheduler_); }

}  // namespace pycomm::emulator

#else  // any other processor: slower, the same behaviour

#include <ucontext.h>

namespace pycomm::emulator {

namespace {

struct Contexts {
  ucontext_t fiber;
  ucontext_t scheduler;
};

}  // namespace

void Fiber::start(void (*entry)(void*), void* argument) {
  if (!stack_) stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  entry_ = entry;
  argument_ = argument;
  static_assert(sizeof(Contexts) < kStackBytes / 4);
  auto* contexts = reinterpret_cast<Contexts*>(stack_.get());  // at the far end of the stack
  fiber_ = contexts;
  getcontext(&contexts->fiber);
  contexts->fiber.uc_stack.ss_sp = stack_.get() + sizeof(Contexts);
  contexts->fiber.uc_stack.ss_size = kStackBytes - sizeof(Contexts);
  contexts->fiber.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&contexts->fiber, reinterpret_cast<void (*)()>(+[](unsigned high, unsigned low) {
    enter(reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low));
  }),
              2, static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

void Fiber::resume() {
  auto* contexts = static_cast<Contexts*>(fiber_);
  swapcontext(&contexts->scheduler, &contexts->fiber);
}

void Fiber::suspend() {
  auto* contexts = static_cast<Contexts*>(fiber_);
  swapcontext(&contexts->fiber, &contexts->scheduler);
}

}  // namespace pycomm::emulator

#endif

namespace pycomm::emulator {

void Fiber::enter(Fiber* self) {
  self->entry_(self->argument_);
  std::abort();  // entry never returns
}

}  // namespace pycomm::emulator
