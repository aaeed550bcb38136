#include <algorithm>
#include <random>
#include <vector>

#include "allocator/cases/cliffs/cliff.hpp"
#include "allocator/measure/draws.hpp"
#include "millrace/memory/caching_allocator.hpp"

// Costs that must not grow with the number of live, free or unordered blocks.

namespace millrace::bench {

bool carve(Trial& trial, std::vector<void*>& blocks, std::size_t count, unsigned stream) {
  Subject& subject = trial.subject();
  blocks.resize(count);
  // CUB rounds up to powers of two and splits nothing, so one large piece does not help it.
  if (subject.millrace() != nullptr) {
    const std::size_t whole = count * kLargeBlock;
    const bool there = trial.set_up(
        1, [&](std::uint64_t) { subject.free(subject.allocate(whole, stream), whole, stream); });
    if (!there) return false;
  }
  const bool made = trial.set_up(
      count, [&](std::uint64_t i) { blocks[i] = subject.allocate(kLargeBlock, stream); });
  if (!made) {
    for (void* const block : blocks) trial.leave({block, kLargeBlock, stream});
  }
  return made;
}

namespace {

/// Allocations while n blocks are live and nothing was freed.
Measured growing(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Draws draws{setting.seed, 512, 4 << 20};
  Trial trial{row, setting, 1};
  LiveBytes bytes;
  const auto allocate = [&] {
    const std::size_t size = draws.next().bytes;
    trial.leave({trial.subject().allocate(size, 0), size, 0});
    bytes.add(size);
  };
  if (trial.set_up(1, [&](std::uint64_t) { allocate(); })) trial.begin_host_bytes();
  if (trial.set_up(n - 1, [&](std::uint64_t) { allocate(); })) {
    trial.end_host_bytes(n - 1);
    trial.measure(allocate, n / 10);
  }
  return trial.result(bytes.peak());
}

/// Frees every other of 2n blocks. A larger request then fits into no free block.
bool fragment(Trial& trial, std::size_t n, unsigned stream) {
  std::vector<void*> blocks;
  if (!carve(trial, blocks, 2 * n, stream)) return false;
  for (std::size_t i = 0; i < n; ++i) trial.leave({blocks[2 * i + 1], kLargeBlock, stream});
  return trial.set_up(
      n, [&](std::uint64_t i) { trial.subject().free(blocks[2 * i], kLargeBlock, stream); });
}

void allocate_what_fits_nowhere(Trial& trial) {
  constexpr std::size_t kBytes = 2 * kLargeBlock;
  trial.leave({trial.subject().allocate(kBytes, 0), kBytes, 0});
}

/// Requests that fit into none of n free blocks. The first one, which sorts the freed blocks, is
/// not measured: see `first_look`.
Measured fragments(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 1};
  const auto allocate = [&] { allocate_what_fits_nowhere(trial); };
  if (fragment(trial, n, 0) && trial.warm_up(1, allocate)) trial.measure(allocate, 1'000);
  return trial.result(2 * n * kLargeBlock);
}

/// The first request that must look beyond its stream's own bins, after n frees. The result is the
/// time per free.
Measured first_look(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 1};
  if (fragment(trial, n, 0)) {
    trial.measure([&] { allocate_what_fits_nowhere(trial); }, 1, n);
  }
  return trial.result(2 * n * kLargeBlock);
}

/// Allocations of stream 1 while n blocks freed on stream 0 are still in use there.
Measured unordered(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 2};
  trial.machine().set_busy(true);
  if (fragment(trial, n, 0)) {
    trial.measure(
        [&] {
          trial.leave({trial.subject().allocate(kLargeBlock, 1), kLargeBlock, 1});
        },
        n / 2);
  }
  return trial.result(2 * n * kLargeBlock);
}

/// A request above the limit, beside n free fragments. The first request releases the memory that
/// the device can take back, and is not measured.
Measured failing(const SubjectRow& row, const Setting& setting, std::size_t n) {
  Trial trial{row, setting, 1};
  if (fragment(trial, n, 0)) {
    CachingAllocator& allocator = trial.millrace().allocator;
    allocator.set_limit(allocator.statistics().bytes.reserved.current);
    const auto fail = [&] {
      try {
        (void)trial.subject().allocate(n * 2 * kLargeBlock, 0);
      } catch (const std::bad_alloc&) {
        return;
      }
      throw std::logic_error{"a request above the limit was served"};
    };
    if (trial.warm_up(1, fail)) trial.measure(fail);
  }
  return trial.result(2 * n * kLargeBlock);
}

/// A pair beside n live blocks of 512 bytes. 4,096 of them share a page of 2 MiB.
Measured in_one_page(const SubjectRow& row, const Setting& setting, std::size_t n) {
  constexpr std::size_t kBytes = 512;
  std::vector<void*> held(n);
  Draws draws{setting.seed, kBytes, kBytes + 1};
  Trial trial{row, setting, 1};
  Subject& subject = trial.subject();
  const auto pair = [&] {
    void*& block = held[draws.next().victim(n)];
    subject.free(block, kBytes, 0);
    block = subject.allocate(kBytes, 0);
  };
  if (trial.set_up(n, [&](std::uint64_t i) { held[i] = subject.allocate(kBytes, 0); })) {
    trial.measure(pair);
  }
  for (void* const block : held) trial.leave({block, kBytes, 0});
  return trial.result(n * kBytes);
}

/// A pair while n scopes of peaks are open.
Measured open_scopes(const SubjectRow& row, const Setting& setting, std::size_t n) {
  constexpr std::size_t kBytes = 4096;
  Trial trial{row, setting, 1};
  CachingAllocator& allocator = trial.millrace().allocator;
  const auto pair = [&] { trial.subject().free(trial.subject().allocate(kBytes, 0), kBytes, 0); };
  const bool warm = trial.warm_up(16, pair);
  if (warm && trial.set_up(n, [&](std::uint64_t) { (void)allocator.open_scope(); })) {
    trial.measure(pair);
  }
  return trial.result(kBytes);
}

}  // namespace

void add_block_cliffs(Cases& cases) {
  const auto sizes = {std::size_t{1'000}, std::size_t{10'000}, std::size_t{100'000}};
  const Case allocations{.unit = "allocation"};
  const Case millrace_only{.subjects = Case::For::millrace};
  add_cliff(cases, "growing", sizes, growing, allocations);
  add_cliff(cases, "fragments-none-fits", sizes, fragments, allocations);
  add_cliff(cases, "first-look-after-frees", sizes, first_look, {.unit = "free"});
  add_cliff(cases, "unordered-on-another-stream", sizes, unordered,
            {.unit = "allocation", .needs_idle_control = true});
  add_cliff(cases, "request-that-fails", sizes, failing,
            {.unit = "request", .subjects = Case::For::millrace});
  add_cliff(cases, "blocks-in-one-page", {16, 1'024, 4'000}, in_one_page);
  add_cliff(cases, "open-scopes", {0, 100, 1'000}, open_scopes, millrace_only);
}

}  // namespace millrace::bench
