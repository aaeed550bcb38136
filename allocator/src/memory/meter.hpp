#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/** @brief Counts bytes: in all, by stream, by tag, and in every open scope. Locks nothing. */
class Meter {
 public:
  void allocated(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag);
  void freed(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag);
  void moved(std::size_t bytes, StreamId from, StreamId to);
  void drained(std::size_t bytes);   ///< freed bytes that are not active any more
  void draining(std::size_t bytes);  ///< freed bytes that still count as active
  void reserved(std::size_t bytes);
  void released(std::size_t bytes);

  [[nodiscard]] Tag tag(std::string_view name);
  [[nodiscard]] bool known(Tag tag) const noexcept { return tag.index < tags_.size(); }
  [[nodiscard]] std::string_view name(Tag tag) const;

  [[nodiscard]] ScopeId open_scope();
  [[nodiscard]] MemoryGauges peaks(ScopeId scope) const;
  void close_scope(ScopeId scope);

  [[nodiscard]] const MemoryGauges& bytes() const noexcept { return all_; }
  [[nodiscard]] MemoryCounters& counts() noexcept { return counts_; }

  /** @brief Everything that does not depend on where blocks are. */
  [[nodiscard]] MemoryStatistics statistics(const OrderedDevice& device) const;

 private:
  template <typename Change>
  void change(Change change);

  MemoryGauges all_;
  MemoryCounters counts_;
  std::unordered_map<std::uint64_t, MemoryGauges> scopes_;
  std::uint64_t next_scope_ = 1;
  std::unordered_map<StreamId, Gauge> streams_;
  struct TagShare {
    std::string name;
    Gauge allocated;
  };
  std::vector<TagShare> tags_{{.name = "untagged", .allocated = {}}};
  std::size_t live_ = 0;
};

}  // namespace millrace
