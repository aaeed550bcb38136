// bench_costs SUBJECT ENTRY COUNT calls an entry point COUNT times under a tool that counts
// instructions. bench/costs.sh runs it with two counts and takes the difference.

#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "allocator/measure/draws.hpp"
#include "allocator/measure/trial.hpp"
#include "allocator/subjects/subject.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::bench {
namespace {

constexpr std::size_t kBytes = 4096;

struct Entry {
  std::string_view name;
  std::string_view what;
  void (*run)(Subject& subject, std::size_t count);
  bool millrace = false;  ///< a call that only Millrace has
};

void pair(Subject& subject, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) subject.free(subject.allocate(kBytes, 0), kBytes, 0);
}

void pair_in_turn(Subject& subject, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto stream = static_cast<unsigned>(i % 32);
    subject.free(subject.allocate(kBytes, stream), kBytes, stream);
  }
}

void pair_used(Subject& subject, std::size_t count) {
  const unsigned user = 1;
  for (std::size_t i = 0; i < count; ++i) {
    subject.free_used(subject.allocate(kBytes, 0), kBytes, 0, std::span{&user, 1});
  }
}

template <std::size_t live>
void random(Subject& subject, std::size_t count) {
  Draws draws{1, 512, 4 << 20};
  std::vector<Held> held(live);
  for (std::size_t i = 0; i < 3 * live + count; ++i) {
    const Draw& draw = draws.next();
    Held& block = held[i < live ? i : draw.victim(live)];
    if (block.address != nullptr) subject.free(block.address, block.bytes, 0);
    block = {subject.allocate(draw.bytes, 0), draw.bytes, 0};
  }
  for (const Held& block : held) subject.free(block.address, block.bytes, 0);
}

void mark(Subject& subject, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) subject.mark(0);
}

void record_and_wait(Subject& subject, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    subject.record(0, 1);
    subject.wait(0, 0);
  }
}

void statistics(Subject& subject, std::size_t count) {
  void* const address = subject.allocate(kBytes, 0);
  for (std::size_t i = 0; i < count; ++i) static_cast<void>(subject.peak_reserved());
  subject.free(address, kBytes, 0);
}

void block_size(Subject& subject, std::size_t count) {
  void* const address = subject.allocate(kBytes, 0);
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<void>(subject.millrace()->allocator.block_size(address));
  }
  subject.free(address, kBytes, 0);
}

void batches(Subject& subject, std::size_t count) {
  MillraceParts& parts = *subject.millrace();
  const Stream stream{parts.device};
  const std::vector<std::size_t> sizes(16, kBytes);
  std::vector<void*> addresses(sizes.size());
  for (std::size_t i = 0; i < count; ++i) {
    parts.allocator.allocate(sizes, addresses, stream);
    parts.allocator.deallocate(addresses);
  }
}

void sixteen(Subject& subject, std::size_t count) {
  std::vector<void*> addresses(16);
  for (std::size_t i = 0; i < count; ++i) {
    for (void*& address : addresses) address = subject.allocate(kBytes, 0);
    for (void* const address : addresses) subject.free(address, kBytes, 0);
  }
}

constexpr Entry kEntries[] = {
    {"pair", "allocate and deallocate, 4 KiB, one stream", pair},
    {"pair-in-turn", "the same on 32 streams in turn", pair_in_turn},
    {"pair-used", "the same with one recorded use of another stream", pair_used},
    {"random-1k", "one of 1,000 live blocks replaced, 512 B to 4 MiB", random<1'000>},
    {"random-10k", "the same of 10,000", random<10'000>},
    {"sixteen", "16 blocks of 4 KiB allocated, then freed, call by call", sixteen},
    {"batch-of-16", "the same as two batches", batches, true},
    {"mark", "mark of an idle stream", mark},
    {"record-and-wait", "an event recorded on a stream, another waits for it", record_and_wait},
    {"statistics", "statistics() with one live block", statistics, true},
    {"block-size", "block_size()", block_size, true},
};

int list() {
  for (const Entry& entry : kEntries) {
    std::printf("%.*s\t%.*s\n", static_cast<int>(entry.name.size()), entry.name.data(),
                static_cast<int>(entry.what.size()), entry.what.data());
  }
  return 0;
}

int usage() {
  std::fputs("usage: bench_costs SUBJECT ENTRY COUNT; bench_costs list\n", stderr);
  return 2;
}

int run(std::string_view subject_name, std::string_view entry_name, std::string_view count_text) {
  const auto count = text::parse_number<std::size_t>(count_text);
  if (!count) return usage();
  for (const SubjectRow& row : subjects()) {
    if (row.name != subject_name || row.make == nullptr) continue;
    for (const Entry& entry : kEntries) {
      if (entry.name != entry_name || (entry.millrace && !row.millrace)) continue;
      const auto machine = make_null_machine(Setting{}.page);
      set_current_machine(machine.get());
      {
        const auto subject = row.make(*machine, 32);
        entry.run(*subject, *count);
      }
      set_current_machine(nullptr);
      return 0;
    }
  }
  return usage();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "list") == 0) return millrace::bench::list();
  if (argc != 4) return millrace::bench::usage();
  return millrace::bench::run(argv[1], argv[2], argv[3]);
}
