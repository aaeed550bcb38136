#include "observe/trace/value/nesting.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace millrace::trace {

namespace {

/** Heights of all containers below a root, without recursion. */
class NestingCheck {
 public:
  NestingCheck(const ValueStore& store, std::size_t max_depth)
      : store_{store}, max_depth_{std::min(max_depth, kDeepest)} {
    heights_.resize(store.containers.size(), kUnseen);
  }

  void run(ValueNode root) {
    if (!root.is_container()) return;
    enter(root.payload());
    while (!path_.empty()) advance();
  }

 private:
  static constexpr std::size_t kDeepest = 250;
  static constexpr std::uint8_t kUnseen = 0;
  static constexpr std::uint8_t kOnPath = 255;
  struct Step {
    std::uint64_t container;
    std::size_t next;
    std::uint8_t height;
  };

  void enter(std::uint64_t container) {
    heights_[container] = kOnPath;
    path_.push_back({container, 0, 1});
    require_depth(path_.size());
  }

  void advance() {
    Step& step = path_.back();
    const ValueStore::Container& container = store_.containers[step.container];
    const ValueNode* const items = store_.items.data() + container.first;
    while (step.next < container.size && !items[step.next].is_container()) ++step.next;
    if (step.next == container.size) return leave();
    const std::uint64_t child = items[step.next].payload();
    if (heights_[child] == kOnPath) throw std::invalid_argument{"an object contains itself"};
    if (heights_[child] == kUnseen) return enter(child);
    require_depth(heights_[child] + std::size_t{1});
    step.height = std::max<std::uint8_t>(step.height, heights_[child] + 1);
    ++step.next;
  }

  void leave() {
    heights_[path_.back().container] = path_.back().height;
    path_.pop_back();
  }

  void require_depth(std::size_t depth) const {
    if (depth <= max_depth_) return;
    throw std::invalid_argument{"nested more than " + std::to_string(max_depth_) + " deep"};
  }

  const ValueStore& store_;
  std::size_t max_depth_;
  std::vector<std::uint8_t> heights_;
  std::vector<Step> path_;
};

}  // namespace

void check_nesting(const ValueStore& store, std::size_t max_depth) {
  NestingCheck{store, max_depth}.run(store.root);
}

}  // namespace millrace::trace
