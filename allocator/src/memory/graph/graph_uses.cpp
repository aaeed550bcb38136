#include "memory/graph/graph_uses.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

void GraphUses::add(void* address, const PrivatePool& pool) {
  Use& use = uses_[address];
  if (std::ranges::find(use.pools, &pool) != use.pools.end()) return;
  std::vector<void*>& used = used_by_[&pool];
  used.push_back(address);
  try {
    use.pools.push_back(&pool);
  } catch (...) {
    used.pop_back();
    throw;
  }
}

bool GraphUses::keep(void* address, PointSet& points) {
  const auto it = uses_.find(address);
  if (it == uses_.end()) return false;
  Use& use = it->second;
  if (!use.pools.empty()) {
    use.after.join(points);
    use.freed = true;
    return true;
  }
  points.join(use.after);
  uses_.erase(it);
  return false;
}

bool GraphUses::keeps(const void* address) const {
  const auto it = uses_.find(address);
  return it != uses_.end() && it->second.freed;
}

std::vector<GraphUses::Freed> GraphUses::end(const PrivatePool& pool, const PointSet& after) {
  const auto used = used_by_.find(&pool);
  if (used == used_by_.end()) return {};
  std::vector<Freed> freed;
  freed.reserve(used->second.size());
  for (void* const address : used->second) uses_.at(address).after.join(after);
  // Nothing below throws.
  for (void* const address : used->second) {
    const auto it = uses_.find(address);
    Use& use = it->second;
    use.pools.erase_if([&](const PrivatePool* user) { return user == &pool; });
    if (!use.pools.empty()) continue;
    if (use.freed) freed.push_back({address, std::move(use.after)});
    if (use.freed || use.after.empty()) uses_.erase(it);
  }
  used_by_.erase(used);
  return freed;
}

}  // namespace millrace
