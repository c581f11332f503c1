// Small kernels with a known answer, which show what the emulator catches and what its memory allows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pycomm::emulator {

std::vector<std::string> litmus_names();

// Runs one under one seed. "" if its reader saw what program order suggests, "stale" if it saw an older value, "torn"
// if it saw half of a store, or the fault.
std::string run_litmus(const std::string& name, std::uint64_t seed);

}  // namespace pycomm::emulator
