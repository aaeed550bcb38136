#pragma once

#include <unordered_map>

#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief Tags of the log's call sites in the replay's allocator. */
class SiteTags {
 public:
  SiteTags(const trace::AllocationLog& log, CachingAllocator& allocator)
      : log_(log), allocator_(allocator) {}

  /** @brief Returns the tag of the stack's site, or of the label if the block has no stack. */
  [[nodiscard]] Tag of(trace::StackTable::Id stack, trace::LabelTable::Id label) {
    if (stack != trace::StackTable::kNone) {
      return tag(by_stack_, stack, [&] { return trace::site_name(log_.stacks, stack); });
    }
    if (label != trace::LabelTable::kNone) {
      return tag(by_label_, label, [&] { return log_.labels.at(label); });
    }
    return {};
  }

 private:
  template <typename Tags, typename Id, typename Name>
  [[nodiscard]] Tag tag(Tags& tags, Id id, const Name& name) {
    const auto [known, is_new] = tags.try_emplace(id);
    if (is_new) known->second = allocator_.tag(name());
    return known->second;
  }

  const trace::AllocationLog& log_;
  CachingAllocator& allocator_;
  std::unordered_map<trace::StackTable::Id, Tag> by_stack_;
  std::unordered_map<trace::LabelTable::Id, Tag> by_label_;
};

}  // namespace millrace
