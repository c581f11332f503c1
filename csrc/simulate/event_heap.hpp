// A heap with four children a node: half the levels of a binary one, and the children share a cache line.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pycomm {

// Pops the smallest by operator<.
template <typename Item>
class EventHeap {
 public:
  bool empty() const { return items_.empty(); }
  const Item& top() const { return items_.front(); }

  void push(Item item) {
    std::size_t place = items_.size();
    items_.push_back(item);
    while (place > 0) {
      const std::size_t parent = (place - 1) / kChildren;
      if (!(item < items_[parent])) break;
      items_[place] = items_[parent];
      place = parent;
    }
    items_[place] = std::move(item);
  }

  Item pop() {
    Item result = std::move(items_.front());
    Item last = std::move(items_.back());
    items_.pop_back();
    if (!items_.empty()) sink(std::move(last));
    return result;
  }

 private:
  static constexpr std::size_t kChildren = 4;

  void sink(Item item) {
    const std::size_t size = items_.size();
    std::size_t place = 0;
    for (;;) {
      const std::size_t first = place * kChildren + 1;
      if (first >= size) break;
      const std::size_t end = first + kChildren < size ? first + kChildren : size;
      std::size_t smallest = first;
      for (std::size_t child = first + 1; child < end; ++child)
        if (items_[child] < items_[smallest]) smallest = child;
      if (!(items_[smallest] < item)) break;
      items_[place] = std::move(items_[smallest]);
      place = smallest;
    }
    items_[place] = std::move(item);
  }

  std::vector<Item> items_;
};

}  // namespace pycomm
