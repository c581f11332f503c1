#include "cuda/emulator/runtime/bound_kernel.hpp"

#include <array>

#include "cuda/engine.hpp"
#include "cuda/pack.hpp"
#include "cuda/shot.hpp"

namespace pycomm::emulator {

namespace {

constexpr std::array kTypes = {DType::f64, DType::f32, DType::f16, DType::bf16,
                               DType::i64, DType::i32, DType::i8,  DType::u8};

using Tables = std::vector<std::shared_ptr<std::vector<char>>>;

// Makes a pointer of a kernel's argument point to a copy of its table, which `tables` keeps.
template <class T>
void redirect(T*& table, const CopyTable& copy, Tables& tables) {
  tables.push_back(copy(table));
  table = reinterpret_cast<T*>(tables.back()->data());
}

template <class Arguments>
std::function<void()> bound(void (*kernel)(Arguments), Arguments arguments, Tables tables) {
  return [kernel, arguments, tables = std::move(tables)] { kernel(arguments); };
}

std::function<void()> bind_engine(device::EngineKernel kernel, const void* argument, const CopyTable& copy) {
  auto arguments = *static_cast<const device::EngineArguments*>(argument);
  Tables tables;
  redirect(arguments.steps, copy, tables);
  redirect(arguments.sources, copy, tables);
  redirect(arguments.lanes, copy, tables);
  redirect(arguments.edges_in, copy, tables);
  redirect(arguments.edges_out, copy, tables);
  return bound(kernel, arguments, std::move(tables));
}

std::function<void()> bind_shot(device::ShotKernel kernel, const void* argument, const CopyTable& copy) {
  auto arguments = *static_cast<const device::ShotArguments*>(argument);
  Tables tables;
  redirect(arguments.inboxes, copy, tables);
  return bound(kernel, arguments, std::move(tables));
}

std::function<void()> bind_pack(device::PackKernel kernel, const void* argument, const CopyTable& copy) {
  auto arguments = *static_cast<const device::PackArguments*>(argument);
  Tables tables;
  if (arguments.tensor_count > 0) redirect(arguments.tensors, copy, tables);
  return bound(kernel, arguments, std::move(tables));
}

}  // namespace

std::function<void()> bind_kernel(const void* kernel, const void* argument, const CopyTable& copy) {
  const auto is = [kernel](auto* candidate) { return reinterpret_cast<const void*>(candidate) == kernel; };
  for (const DType type : kTypes) {
    if (is(device::engine_kernel_of(type))) return bind_engine(device::engine_kernel_of(type), argument, copy);
    for (const device::Shot shot : {device::Shot::one, device::Shot::two})
      if (is(device::shot_kernel_of(shot, type))) return bind_shot(device::shot_kernel_of(shot, type), argument, copy);
    for (const DType from : kTypes)
      for (const bool copies : {false, true}) {
        if (copies && from != type) continue;
        const device::PackKernel found = device::pack_kernel_of(type, from, copies);
        if (found != nullptr && is(found)) return bind_pack(found, argument, copy);
      }
  }
  return {};
}

}  // namespace pycomm::emulator
