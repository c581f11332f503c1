#include "schedule/text.hpp"

namespace pycomm {

namespace {

std::string numbered(std::string text, std::int64_t number) { return text += std::to_string(number); }

}  // namespace

std::string text_of(Place place) {
  const char* name = place.buffer == Buffer::in ? "in[" : place.buffer == Buffer::out ? "out[" : "tmp[";
  return numbered(name, place.chunk) += "]";
}

std::string text_of(const Program& program, const Step& step) {
  if (step.joined) {
    Step alone = step;
    alone.joined = false;
    return text_of(program, alone) + ", joined";
  }
  const std::string peer = numbered("rank ", step.peer);
  const std::string to = text_of(step.to), from = text_of(step.from);
  switch (step.action) {
    case Action::send: return "send " + from + " to " + peer + (step.landed ? ", landed" : "");
    case Action::recv: return "recv " + to + " from " + peer + (step.landed ? ", landed" : "");
    case Action::recv_reduce: return "recv_reduce " + to + " from " + peer;
    case Action::copy: return "copy " + from + " to " + to;
    case Action::reduce: return "reduce " + from + " into " + to;
    case Action::scale: return "scale " + to;
    case Action::wait: return "wait for " + peer;
    case Action::after: return numbered("after lane ", step.lane) + numbered(" step ", step.step);
    case Action::combine: break;
  }
  constexpr std::size_t kShown = 8;
  const auto operands = program.operands_of(step);
  std::string text = "combine " + to + " =";
  for (std::size_t k = 0; k < operands.size() && k < kShown; ++k)
    text +=
        (k ? " + " : " ") + (operands[k].peer < 0 ? text_of(operands[k].place) : numbered("rank ", operands[k].peer));
  if (operands.size() > kShown) text += numbered(" + … (", static_cast<std::int64_t>(operands.size())) + " in all)";
  return text;
}

std::int32_t chunk_of(const Step& step) {
  if (step.chunk >= 0) return step.chunk;
  switch (step.action) {
    case Action::send: return step.from.chunk;
    case Action::wait:
    case Action::after: return -1;
    default: return step.to.chunk;
  }
}

}  // namespace pycomm
