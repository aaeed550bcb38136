// Finds copies and fills that leave the allocation that they begin in. Memory without a known
// allocation is not checked: pageable and registered host memory.

#include <algorithm>

#include "check/checker.hpp"
#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {
namespace {

using Address = std::uintptr_t;

Address begin_of(const Access& access) { return reinterpret_cast<Address>(access.address); }
Address end_of(const Access& access) { return begin_of(access) + access.bytes; }

std::string verb(const Access& access) { return access.writes ? " writes " : " reads "; }

/** Whether `address` is in a GPU's memory, outside all allocations. */
bool is_nowhere(const void* address) {
  const Memory& memory = runtime().memory;
  return memory.in_gpu(address) && !memory.piece(address);
}

}  // namespace

// An access may continue into an adjacent mapping, because the program chose both addresses.
Checker::Address Checker::end_of(const std::pair<const Address, Live>& live) const {
  Address end = live.first + live.second.bytes;
  if (!live.second.mapped || !holds(Rule::mappings_adjoin)) return end;
  for (auto next = live_.find(end); next != live_.end() && next->second.mapped;
       next = live_.find(end))
    end += next->second.bytes;
  return end;
}

// All rows must be in the allocation of the first row. In mapped memory, each row may be in another
// mapping. The function cuts off the bytes after the end: they belong to another allocation.
void Checker::keep_in_bounds(std::vector<Access>& rows, const std::string& call) {
  const auto* const live = live_at(rows.front().address);
  if (live == nullptr || !holds(Rule::within_bounds)) return;
  const Access first = rows.front();
  Address last = 0;
  Address beyond = 0;
  for (Access& row : rows) {
    const auto* const own = live->second.mapped ? live_at(row.address) : live;
    if (own == nullptr) continue;
    const Address end = end_of(*own);
    const Address row_end = virtual_cuda::end_of(row);
    last = std::max(last, row_end);
    if (row_end <= end) continue;
    beyond = std::max(beyond, row_end - end);
    row.bytes = begin_of(row) < end ? end - begin_of(row) : 0;
  }
  if (beyond == 0) return;
  std::erase_if(rows, [](const Access& row) { return row.bytes == 0; });
  const Address start = live->first;
  const std::string unit = beyond == 1 ? " byte" : " bytes";
  log_.add_out_of_bounds(call, live->second.made,
                         call + verb(first) + "bytes " + std::to_string(begin_of(first) - start) +
                             " to " + std::to_string(last - start) + " of an allocation of " +
                             std::to_string(live->second.bytes) + " bytes, " +
                             std::to_string(beyond) + unit +
                             " beyond its end: " + live->second.made);
}

void Checker::touch(RaceChecker::OpIndex operation, std::vector<Access> accesses,
                    const std::string& call) {
  const auto writes = std::stable_partition(accesses.begin(), accesses.end(),
                                            [](const Access& access) { return !access.writes; });
  for (std::vector<Access> rows : {std::vector<Access>(accesses.begin(), writes),
                                   std::vector<Access>(writes, accesses.end())}) {
    if (rows.empty()) continue;
    keep_in_bounds(rows, call);
    const std::uint64_t found = log_.found();
    const Access first = rows.front();
    for (const Access& row : rows) touch(operation, row);
    // If a race was found, the use after the free has already been reported.
    if (holds(Rule::nothing_outside) && log_.found() == found &&
        live_at(first.address) == nullptr && is_nowhere(first.address))
      log_.add_out_of_bounds(call, "nothing",
                             call + verb(first) + std::to_string(first.bytes) +
                                 " bytes of a GPU's memory that is not allocated");
  }
}

}  // namespace millrace::virtual_cuda
