#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "allocator/cases/case.hpp"

namespace millrace::bench {

/// Adds one case for each size of a cliff. The cost must not grow with `n`.
template <typename Run>
void add_cliff(Cases& cases, const std::string& name, std::initializer_list<std::size_t> sizes,
               Run run, const Case& like = {}) {
  for (const std::size_t n : sizes) {
    Case added = like;
    added.suite = "cliffs";
    added.name = name + "-" + short_number(n);
    added.run = [=](const SubjectRow& row, const Setting& setting) { return run(row, setting, n); };
    added.live = n;
    cases.all.push_back(std::move(added));
  }
}

inline constexpr std::size_t kLargeBlock = std::size_t{2} << 20;

/// Allocates `count` blocks of kLargeBlock on `stream`. If the allocator can split, they come from
/// one piece that it already holds, so that the allocations themselves do not fall off a cliff.
/// @return whether time and memory sufficed
[[nodiscard]] bool carve(Trial& trial, std::vector<void*>& blocks, std::size_t count,
                         unsigned stream);

}  // namespace millrace::bench
