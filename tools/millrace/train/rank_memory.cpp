#include "train/rank_memory.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "millrace/pipeline/collective/gather.hpp"
#include "millrace/text/json_document.hpp"

namespace millrace::cli {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankMemory, reserved, active, allocated, live, rounding, streams,
                                   packing, policy, races)

RankMemory memory_of(const TrainingAccounting& accounting) {
  const Ladder& ladder = accounting.ladder;
  return {.reserved = accounting.bytes.reserved.peak,
          .active = accounting.bytes.active.peak,
          .allocated = accounting.bytes.allocated.peak,
          .live = ladder.requested,
          .rounding = ladder.rounding(),
          .streams = ladder.streams(),
          .packing = ladder.packing(),
          .policy = ladder.policy(),
          .races = accounting.races.value_or(std::vector<std::string>{})};
}

std::vector<RankMemory> memory_of_ranks(ProcessGroup& group, TrainingDevice& device,
                                        const TrainingAccounting& accounting) {
  const std::string own = nlohmann::json(memory_of(accounting)).dump();
  std::vector<RankMemory> all;
  for (const auto& bytes :
       gather(group, std::as_bytes(std::span{own}), device.memory(), device.streams().main)) {
    const std::string_view sent{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    all.push_back(text::parse_document(sent, "the memory of a rank").get<RankMemory>());
  }
  return all;
}

}  // namespace millrace::cli
