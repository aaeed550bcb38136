// The reports to PyTorch: the counts must agree with the snapshot, and the history must lead to it.

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "interop/torch/book.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using torch::Book;
using Action = TorchTraceEntry::Action;

constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr TorchPoolId kPool{0, 7};

// NOLINTNEXTLINE(performance-no-int-to-ptr): no memory is behind it
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

void check_counts(const Book& book) {
  TorchStatistics now = book.statistics();
  TorchStatistics seen;
  for (const TorchSegment& segment : book.segments({})) {
    seen.segment.add(segment.small, 1);
    seen.reserved_bytes.add(segment.small, static_cast<std::int64_t>(segment.bytes));
    std::uintptr_t next = segment.address;
    const bool is_used = std::ranges::any_of(segment.blocks, &TorchBlock::live);
    std::size_t allocated = 0;
    for (const TorchBlock& block : segment.blocks) {
      CHECK(block.address == next);
      next += block.bytes;
      allocated += block.live ? block.bytes : 0;
      if (block.live || !is_used) continue;
      seen.inactive_split.add(segment.small, 1);
      seen.inactive_split_bytes.add(segment.small, static_cast<std::int64_t>(block.bytes));
    }
    CHECK(next == segment.address + segment.bytes);
    CHECK(allocated == segment.allocated);
    seen.allocated_bytes.all.add(static_cast<std::int64_t>(segment.allocated));
    seen.requested_bytes.all.add(static_cast<std::int64_t>(segment.requested));
    if (segment.pool != TorchPoolId{}) {
      seen.reserved_by_pool[segment.pool].add(segment.small,
                                              static_cast<std::int64_t>(segment.bytes));
    }
  }
  const auto same = [](const TorchStats& one, const TorchStats& other) {
    return one.all.current == other.all.current && one.small.current == other.small.current &&
           one.large.current == other.large.current;
  };
  CHECK(same(now.segment, seen.segment));
  CHECK(same(now.reserved_bytes, seen.reserved_bytes));
  CHECK(same(now.inactive_split, seen.inactive_split));
  CHECK(same(now.inactive_split_bytes, seen.inactive_split_bytes));
  CHECK(now.allocated_bytes.all.current == seen.allocated_bytes.all.current);
  CHECK(now.requested_bytes.all.current == seen.requested_bytes.all.current);
  for (auto& [pool, stats] : now.reserved_by_pool) {
    CHECK(stats.all.current == seen.reserved_by_pool[pool].all.current);
  }
  for (const TorchStats* stats : {&now.allocation, &now.segment, &now.reserved_bytes,
                                  &now.inactive_split, &now.allocated_bytes}) {
    CHECK(stats->all.current == stats->all.allocated - stats->all.freed);
    CHECK(stats->all.current == stats->small.current + stats->large.current);
    CHECK(stats->all.peak >= stats->all.current);
  }
}

}  // namespace

TEST_CASE("PyTorch's counts agree with the snapshot in a random program") {
  const std::uint64_t number = GENERATE(range(1, 9));
  std::mt19937_64 random{number * 7919 + seed()};
  const auto draw = [&](std::size_t below) { return random() % below; };
  Book book{std::size_t{1} << 30};
  constexpr std::uintptr_t kRange = std::uintptr_t{1} << 40;
  constexpr std::uintptr_t kFixed = std::uintptr_t{1} << 41;
  std::map<std::uintptr_t, std::size_t> blocks;
  std::vector<char> pages(32), fixed(8);
  const auto is_free = [&](std::uintptr_t begin, std::uintptr_t end) {
    const auto after = blocks.lower_bound(begin);
    if (after != blocks.end() && after->first < end) return false;
    return after == blocks.begin() || std::prev(after)->first + std::prev(after)->second <= begin;
  };
  for (int step = 0; step < 400; ++step) {
    const std::size_t page = draw(pages.size());
    const std::uintptr_t mapped = kRange + page * kPage;
    const std::size_t piece = draw(fixed.size());
    const std::uintptr_t segment = kFixed + piece * 2 * kPage;
    switch (draw(6)) {
      case 0:
        if (pages[page] == 0) {
          REQUIRE(book.claim(kPage));
          book.add_segment(at(mapped), kPage, true, false, {});
          pages[page] = 1;
        } else if (is_free(mapped, mapped + kPage)) {
          book.remove_segment(at(mapped), kPage);
          pages[page] = 0;
        }
        break;
      case 1:
        if (fixed[piece] == 0) {
          REQUIRE(book.claim(kPage));
          book.add_segment(at(segment), kPage, false, piece % 2 == 0,
                           piece < 4 ? kPool : TorchPoolId{});
          fixed[piece] = 1;
        } else if (is_free(segment, segment + kPage)) {
          book.remove_segment(at(segment), kPage);
          fixed[piece] = 0;
        }
        break;
      case 2:
        if (!blocks.empty()) {
          const auto victim = std::next(blocks.begin(), static_cast<long>(draw(blocks.size())));
          CHECK(book.remove_block(at(victim->first), nullptr));
          blocks.erase(victim);
        }
        break;
      default: {
        const bool in_range = draw(2) == 0;
        if ((in_range ? pages[page] : fixed[piece]) == 0) break;
        const std::size_t bytes = 512 * (1 + draw(2048));
        const std::uintptr_t begin =
            (in_range ? mapped : segment) + 512 * draw((kPage - bytes) / 512 + 1);
        if (!is_free(begin, begin + bytes)) break;
        blocks[begin] = bytes;
        book.add_block(at(begin), {.bytes = bytes,
                                   .requested = bytes - 1,
                                   .small = bytes <= kPage / 2,
                                   .pool = !in_range && piece < 4 ? kPool : TorchPoolId{}});
      }
    }
    check_counts(book);
  }
}

TEST_CASE("adjacent pages are one segment, and sums count the mapped bytes") {
  Book book{std::size_t{1} << 30};
  constexpr std::uintptr_t kBase = std::uintptr_t{1} << 40;
  for (const std::uintptr_t page : {0, 2, 1}) {
    REQUIRE(book.claim(kPage));
    book.add_segment(at(kBase + page * kPage), kPage, true, false, {});
  }
  const std::vector<TorchSegment> whole = book.segments({});
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].bytes == 3 * kPage);
  CHECK(whole[0].expandable);
  book.remove_segment(at(kBase + kPage), kPage);
  CHECK(book.segments({}).size() == 2);
  const TorchStatistics now = book.statistics();
  CHECK(now.reserved_bytes.all.allocated == static_cast<std::int64_t>(3 * kPage));
  CHECK(now.reserved_bytes.all.freed == static_cast<std::int64_t>(kPage));
  CHECK(now.reserved_bytes.all.peak == static_cast<std::int64_t>(3 * kPage));
  CHECK(now.device_allocs == 3);
  CHECK(now.device_frees == 1);
}

TEST_CASE("a limit counts reserved bytes, and bytes that are about to be reserved") {
  Book book{std::size_t{1} << 30};
  book.set_limit(3 * kPage);
  CHECK(book.claim(2 * kPage));
  CHECK_FALSE(book.claim(2 * kPage));
  book.unclaim(2 * kPage);
  CHECK(book.claim(2 * kPage));
  book.add_segment(at(kPage), 2 * kPage, false, false, {});
  CHECK_FALSE(book.claim(2 * kPage));
  book.remove_segment(at(kPage), 2 * kPage);
  CHECK(book.claim(3 * kPage));
}

TEST_CASE("the history has each event with its context, and keeps the newest events") {
  Book book{std::size_t{1} << 30};
  const auto context = std::make_shared<int>(1);
  const auto of_free = std::make_shared<int>(2);
  std::vector<Action> tracked;
  book.track([&](const TorchTraceEntry& entry) { tracked.push_back(entry.action); });
  book.set_history({.enabled = true, .most_entries = 4}, true);
  {
    const Book::CauseScope cause{{.context = context}};
    REQUIRE(book.claim(kPage));
    book.add_segment(at(kPage), kPage, false, false, kPool);
  }
  book.add_block(at(kPage), {.bytes = 1024, .requested = 1000, .pool = kPool, .context = context});
  CHECK(book.annotate(at(kPage), of_free));
  CHECK_FALSE(book.annotate(at(kPage + 512), of_free));
  CHECK(book.segments(kPool)[0].blocks[0].context == context);
  CHECK(book.segments(kPool)[0].context == context);
  CHECK(book.segments({1, 1}).empty());
  CHECK(book.live_blocks_are(kPool, {at(kPage)}));
  CHECK_FALSE(book.live_blocks_are(kPool, {at(kPage + 512)}));
  CHECK(book.remove_block(at(kPage), of_free));
  CHECK_FALSE(book.remove_block(at(kPage), of_free));
  CHECK(book.live_blocks_are(kPool, {}));

  const std::vector<TorchTraceEntry> kept = book.trace();
  REQUIRE(kept.size() == 4);
  CHECK(kept[0].action == Action::alloc);
  CHECK(kept[0].bytes == 1000);
  CHECK(kept[0].context == context);
  CHECK(kept[1].action == Action::annotate);
  CHECK(kept[2].action == Action::free_requested);
  CHECK(kept[3].action == Action::free_completed);
  CHECK(kept[3].context == of_free);
  CHECK(std::ranges::is_sorted(kept, {}, &TorchTraceEntry::time_us));
  CHECK(tracked.front() == Action::segment_alloc);
  CHECK(tracked.size() == 5);

  book.set_history(
      {.enabled = true, .most_entries = 9, .skipped = 1U << static_cast<unsigned>(Action::alloc)},
      true);
  book.add_block(at(kPage), {.bytes = 512, .requested = 1});
  CHECK(book.trace().empty());
  book.count_out_of_memory(100, 7, {});
  CHECK(book.trace().at(0).address == 7);
  CHECK(book.statistics().out_of_memory == 1);
  book.set_history({}, false);
  CHECK(book.trace().empty());
}

}  // namespace millrace::test
