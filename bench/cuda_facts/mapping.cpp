#include <fmt/format.h>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/measure.hpp"
#include "device/cuda/vmm.hpp"

namespace millrace::facts {
namespace {

constexpr int kMappingRounds = 5;
constexpr std::size_t kMostPages = 512;

struct Costs {
  std::vector<double> reserve, create, map, allow, unmap_each, unmap_all, release, free;
};

/// One round. It maps `pages` pages twice, because it measures two ways of unmapping.
void measure(cuda::VirtualMemory& memory, std::size_t pages, Costs& costs) {
  const std::size_t page = memory.page_bytes();
  std::byte* range = nullptr;
  std::vector<cuda::PhysicalPage> physical(pages);
  const auto add = [](std::vector<double>& to, auto&& call) {
    to.push_back(microseconds_of(call));
  };
  const auto map_all = [&] {
    for (std::size_t i = 0; i < pages; ++i) memory.map(range + i * page, physical[i]);
  };

  add(costs.reserve, [&] { range = memory.reserve(pages * page); });
  add(costs.create, [&] {
    for (auto& each : physical) each = memory.create();
  });
  add(costs.map, map_all);
  add(costs.allow, [&] { memory.allow(range, pages * page); });
  add(costs.unmap_each, [&] {
    for (std::size_t i = 0; i < pages; ++i) memory.unmap(range + i * page, page);
  });
  map_all();
  memory.allow(range, pages * page);
  add(costs.unmap_all, [&] { memory.unmap(range, pages * page); });
  add(costs.release, [&] {
    for (const auto each : physical) memory.release(each);
  });
  add(costs.free, [&] { memory.free(range, pages * page); });
}

Answer mapping_costs(int ordinal) {
  cuda::VirtualMemory memory{ordinal};
  Answer answer{{}, nlohmann::json::array()};
  for (std::size_t pages = 1; pages <= kMostPages; pages *= 2) {
    Costs costs;
    for (int i = 0; i < kMappingRounds; ++i) measure(memory, pages, costs);
    const nlohmann::json row = {{"pages", pages},
                                {"page_bytes", memory.page_bytes()},
                                {"reserve_us", median(costs.reserve)},
                                {"create_us", median(costs.create)},
                                {"map_us", median(costs.map)},
                                {"set_access_us", median(costs.allow)},
                                {"unmap_each_us", median(costs.unmap_each)},
                                {"unmap_in_one_call_us", median(costs.unmap_all)},
                                {"release_us", median(costs.release)},
                                {"free_us", median(costs.free)}};
    answer.data.push_back(row);
    if (pages != 1 && pages != kMostPages) continue;
    answer.text += fmt::format(
        "{}{} page{}: create {:.1f}, map {:.1f}, access {:.1f}, unmap {:.1f} (in one call {:.1f}), "
        "release {:.1f} us",
        answer.text.empty() ? "" : "; ", pages, pages == 1 ? "" : "s", median(costs.create),
        median(costs.map), median(costs.allow), median(costs.unmap_each), median(costs.unmap_all),
        median(costs.release));
  }
  return answer;
}

Answer access_by_page(int ordinal) {
  constexpr std::size_t kPages = 64;
  cuda::VirtualMemory memory{ordinal};
  const std::size_t page = memory.page_bytes();
  std::byte* const range = memory.reserve(kPages * page);
  std::vector<cuda::PhysicalPage> physical;
  std::vector<double> taken;
  for (std::size_t i = 0; i < kPages; ++i) {
    physical.push_back(memory.create());
    memory.map(range + i * page, physical.back());
    taken.push_back(microseconds_of([&] { memory.allow(range + i * page, page); }));
  }
  memory.unmap(range, kPages * page);
  for (const auto each : physical) memory.release(each);
  memory.free(range, kPages * page);
  const double middle = median(taken);
  return {fmt::format("{:.1f} us for one page at a time, of {}", middle, kPages),
          {{"pages", kPages}, {"median_us", middle}}};
}

/// Costs of a GiB in handles of 2 MiB to 1 GiB.
Answer costs_by_page_size(int ordinal) {
  constexpr std::size_t kAll = std::size_t{1} << 30;
  Answer answer{{}, nlohmann::json::array()};
  for (const std::size_t mib : {2, 16, 32, 128, 1024}) {  // 32: page size of growable ranges
    const std::size_t page = mib << 20;
    cuda::VirtualMemory memory{ordinal, page};
    Costs costs;
    for (int i = 0; i < kMappingRounds; ++i) measure(memory, kAll / page, costs);
    const double mapped = median(costs.create) + median(costs.map) + median(costs.allow);
    const double unmapped = median(costs.unmap_all) + median(costs.release);
    answer.data.push_back({{"page_bytes", page},
                           {"create_us", median(costs.create)},
                           {"map_us", median(costs.map)},
                           {"set_access_us", median(costs.allow)},
                           {"unmap_in_one_call_us", median(costs.unmap_all)},
                           {"release_us", median(costs.release)}});
    answer.text += fmt::format("{}pages of {} MiB: {:.0f} us to map, {:.0f} to unmap",
                               answer.text.empty() ? "" : "; ", page >> 20, mapped, unmapped);
  }
  return answer;
}

/// Maps pages at a second address while a fill of them is queued, and then fills them there.
Answer alias(int ordinal) {
  constexpr std::size_t kPage = std::size_t{32} << 20;
  constexpr std::size_t kPages = 32;
  constexpr std::size_t kAll = kPages * kPage;
  cuda::VirtualMemory memory{ordinal, kPage};
  const auto stream = make_stream();
  std::byte* const range = memory.reserve(2 * kAll);
  memory.fill(range, kAll);
  std::vector<double> mapped, unmapped;
  bool is_same = true;
  for (int i = 0; i < kMappingRounds; ++i) {
    check(cudaMemsetAsync(range, 1, kAll, stream.get()), "cudaMemsetAsync");
    mapped.push_back(microseconds_of([&] { memory.alias(range + kAll, range, kAll); }));
    check(cudaMemsetAsync(range + kAll, 2, kPage, stream.get()), "cudaMemsetAsync");
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    unsigned char bytes[2] = {};
    check(cudaMemcpy(&bytes[0], range, 1, cudaMemcpyDefault), "cudaMemcpy");
    check(cudaMemcpy(&bytes[1], range + kAll + kPage, 1, cudaMemcpyDefault), "cudaMemcpy");
    is_same = is_same && bytes[0] == 2 && bytes[1] == 1;
    unmapped.push_back(microseconds_of([&] { memory.unmap(range + kAll, kAll); }));
  }
  memory.unmap(range, kAll);
  memory.free(range, 2 * kAll);
  return {fmt::format("{}; a GiB in pages of 32 MiB: {:.0f} us to map again, {:.0f} to unmap there",
                      is_same ? "the same memory, in the order of the stream"
                              : "NOT the same memory in the order of the stream",
                      median(mapped), median(unmapped)),
          {{"same", is_same},
           {"pages", kPages},
           {"alias_us", median(mapped)},
           {"unmap_us", median(unmapped)}}};
}

constexpr Fact kMappingFacts[] = {
    {"mapping-costs", "What do create, map, access and unmap of 1 to 512 pages of 2 MiB cost?",
     mapping_costs},
    {"mapping-by-page-size", "What does a GiB cost in pages of 2 MiB to 1 GiB?",
     costs_by_page_size},
    {"alias",
     "Are pages that are mapped at a second address the same memory to the work of a stream, and "
     "what does that cost?",
     alias},
    {"access-by-page", "What does access cost when it is given page by page?", access_by_page},
};

}  // namespace

std::span<const Fact> mapping_facts() { return kMappingFacts; }

}  // namespace millrace::facts
