#include "test/conformance/group_conformance.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "millrace/device/fault.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

Rank::Rank(std::unique_ptr<ProcessGroup> group, OrderedDevice& on)
    : device(on), stream(on, {.name = "main"}), group_(std::move(group)) {}

Rank::~Rank() {
  group_.reset();
  try {
    stream.synchronize();
    for (void* const memory : memory_) device.device().free(memory);
  } catch (const std::exception&) {  // the device is lost; the test has reported why
  }
}

void* Rank::put_bytes(const void* from, std::size_t bytes) {
  void* const memory = device.device().allocate(std::max<std::size_t>(bytes, 1));
  memory_.push_back(memory);
  device.device().copy(memory, from, bytes, CopyKind::host_to_device, stream.handle());
  stream.synchronize();
  return memory;
}

void Rank::get_bytes(void* to, const void* from, std::size_t bytes) {
  device.device().copy(to, from, bytes, CopyKind::device_to_host, stream.handle());
  stream.synchronize();
}

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error{otherwise};
}

void expect_error(unsigned culprit, const std::string& text, const std::function<void()>& body) {
  try {
    body();
  } catch (const CollectiveError& error) {
    expect(error.rank() == culprit,
           fmt::format("rank {} is not at fault in: {}", culprit, error.what()));
    expect(std::strstr(error.what(), text.c_str()) != nullptr,
           fmt::format("'{}' is not in: {}", text, error.what()));
    return;
  }
  throw std::runtime_error{fmt::format("nothing was thrown about rank {}: '{}'", culprit, text)};
}

namespace {

void over_groups(unsigned at_least, bool devices, const RankBody& body) {
  for (const GroupFactory& factory : group_factories()) {
    for (const unsigned ranks : factory.sizes) {
      if (ranks < at_least || (devices && !factory.device_of_its_own)) continue;
      INFO(factory.name << ", " << ranks << " ranks");
      CHECK_NOTHROW(factory.run(ranks, body));
    }
  }
  SUCCEED("groups of too few ranks have nothing to check");
}

}  // namespace

void over_every_group(unsigned at_least, const RankBody& body) {
  over_groups(at_least, false, body);
}

void over_every_group_of_devices(unsigned at_least, const RankBody& body) {
  over_groups(at_least, true, body);
}

namespace {

/// Returns a number that identifies its sender and its receiver.
std::int64_t marked(unsigned from, unsigned to, std::size_t index) {
  return static_cast<std::int64_t>(from * 10'000 + to * 100 + index);
}

std::vector<std::int64_t> sizes_of(const Rank& rank, std::size_t width) {
  std::vector<std::int64_t> values;
  for (unsigned to = 0; to < rank.ranks(); ++to) {
    for (std::size_t i = 0; i < width; ++i) values.push_back(marked(rank.number(), to, i));
  }
  return values;
}

void expect_sizes(const Rank& rank, const ExchangedSizes& sizes, std::size_t width) {
  expect(sizes.values.size() == rank.ranks() * width, "a number for each that was sent");
  for (unsigned from = 0; from < rank.ranks(); ++from) {
    for (std::size_t i = 0; i < width; ++i) {
      expect(sizes.values[from * width + i] == marked(from, rank.number(), i),
             fmt::format("size {} of rank {}", i, from));
    }
  }
}

/// An all-to-all with the given number of bytes from rank to rank. Each byte identifies its sender
/// and its receiver.
class Blocks {
 public:
  using Bytes = std::function<std::size_t(unsigned from, unsigned to)>;

  Blocks(Rank& rank, const Bytes& bytes) : rank_(rank) {
    const auto room = [&](std::size_t size, unsigned char value) {
      return rank.put(std::vector<unsigned char>(size, value));
    };
    for (unsigned peer = 0; peer < rank.ranks(); ++peer) {
      const std::size_t sent = bytes(rank.number(), peer), received = bytes(peer, rank.number());
      sends.push_back({room(sent, mark(rank.number(), peer)), sent});
      receives.push_back({room(received, 0xEE), received});
    }
  }

  void exchange() { rank_.group().all_to_all(sends, receives, rank_.stream); }

  void expect_received() {
    for (unsigned from = 0; from < rank_.ranks(); ++from) {
      const ReceivedBytes& block = receives[from];
      for (const unsigned char byte :
           rank_.get(static_cast<const unsigned char*>(block.data), block.bytes)) {
        expect(byte == mark(from, rank_.number()), fmt::format("a byte of rank {}", from));
      }
    }
  }

  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;

 private:
  static unsigned char mark(unsigned from, unsigned to) {
    return static_cast<unsigned char>(16 * from + to + 1);
  }

  Rank& rank_;
};

std::size_t a_few(unsigned from, unsigned to) { return 16 * (from + 1) + 4 * to; }

}  // namespace

TEST_CASE("each rank gets the sizes that every other rank sent to it") {
  over_every_group(1, [](Rank& rank) {
    const std::vector<std::int64_t> values = sizes_of(rank, 3);
    expect_sizes(rank, rank.group().exchange_sizes(RankState::ok, values), 3);
  });
}

TEST_CASE("the state of each rank reaches all ranks") {
  over_every_group(1, [](Rank& rank) {
    const RankState all[] = {RankState::ok, RankState::exhausted, RankState::failed};
    const RankState mine = all[rank.number() % 3];
    const ExchangedSizes sizes = rank.group().exchange_sizes(mine, {});
    expect(sizes.states.size() == rank.ranks(), "one state for each rank");
    for (unsigned peer = 0; peer < rank.ranks(); ++peer) {
      expect(sizes.states[peer] == all[peer % 3], fmt::format("state of rank {}", peer));
    }
  });
}

TEST_CASE("exchanges of sizes that run at the same time are not mixed up") {
  over_every_group(1, [](Rank& rank) {
    const std::vector<std::int64_t> one = sizes_of(rank, 1), two = sizes_of(rank, 2);
    const auto first = rank.group().start_sizes(RankState::ok, one);
    const auto second = rank.group().start_sizes(RankState::ok, two);
    expect_sizes(rank, second->wait(), 2);
    expect_sizes(rank, first->wait(), 1);
  });
}

TEST_CASE("each rank sends bytes of any size to each other rank") {
  over_every_group(1, [](Rank& rank) {
    std::mt19937_64 random{seed()};  // the same numbers on each rank
    for (int round = 0; round < 5; ++round) {
      std::vector<std::size_t> bytes(rank.ranks() * rank.ranks());
      for (std::size_t& size : bytes) size = random() % 3 == 0 ? 0 : random() % 5000;
      Blocks blocks{rank,
                    [&](unsigned from, unsigned to) { return bytes[from * rank.ranks() + to]; }};
      blocks.exchange();
      blocks.expect_received();
    }
  });
}

TEST_CASE("an exchange is ordered after earlier work on its stream") {
  over_every_group(1, [](Rank& rank) {
    Blocks blocks{rank, [](unsigned, unsigned) -> std::size_t { return 64; }};
    for (const SentBytes& block : blocks.sends) {
      rank.device.device().fill(const_cast<void*>(block.data), 0x5A, block.bytes,
                                rank.stream.handle());
    }
    blocks.exchange();
    for (const SentBytes& block : blocks.sends) {
      rank.device.device().fill(const_cast<void*>(block.data), 0, block.bytes,
                                rank.stream.handle());
    }
    for (const ReceivedBytes& block : blocks.receives) {
      const auto got = rank.get(static_cast<const unsigned char*>(block.data), block.bytes);
      expect(got == std::vector<unsigned char>(block.bytes, 0x5A), "what was filled in before");
    }
  });
}

TEST_CASE("an all-reduce adds in the order of the ranks, with the same bits on all ranks") {
  over_every_group(1, [](Rank& rank) {
    for (const std::size_t count : {0UL, 1UL, 3UL, 1000UL}) {
      const auto addend = [&](unsigned of) {
        std::mt19937 random{of + 1};
        std::vector<float> values(count);
        for (float& value : values) value = std::ldexp(static_cast<float>(random()), -20);
        return values;
      };
      std::vector<float> expected = addend(0);
      for (unsigned peer = 1; peer < rank.ranks(); ++peer) {
        const std::vector<float> more = addend(peer);
        for (std::size_t i = 0; i < count; ++i) expected[i] += more[i];
      }
      float* const data = rank.put(addend(rank.number()));
      rank.group().all_reduce_sum(data, count, rank.stream);
      expect(rank.get(data, count) == expected, fmt::format("the sum of {} floats", count));
    }
  });
}

TEST_CASE("each rank can broadcast to all ranks") {
  over_every_group(1, [](Rank& rank) {
    for (unsigned root = 0; root < rank.ranks(); ++root) {
      const std::vector<unsigned> mine(100, rank.number());
      unsigned* const data = rank.put(mine);
      rank.group().broadcast(data, mine.size() * sizeof(unsigned), root, rank.stream);
      expect(rank.get(data, mine.size()) == std::vector<unsigned>(100, root),
             fmt::format("what rank {} sent", root));
    }
  });
}

TEST_CASE("all ranks pass a barrier") {
  over_every_group(1, [](Rank& rank) {
    for (int i = 0; i < 3; ++i) rank.group().barrier();
  });
}

TEST_CASE("arguments that do not fit a group are refused, and change nothing") {
  over_every_group(1, [](Rank& rank) {
    const auto refused = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const std::invalid_argument&) {
        return;
      }
      throw std::runtime_error{"an argument was not refused"};
    };
    const unsigned ranks = rank.ranks();
    const std::vector<SentBytes> sends(ranks + 1);
    const std::vector<ReceivedBytes> receives(ranks);
    refused([&] { rank.group().all_to_all(sends, receives, rank.stream); });
    refused([&] { rank.group().broadcast(nullptr, 0, ranks, rank.stream); });
    Blocks uneven{rank, a_few};
    uneven.sends[rank.number()].bytes += 4;
    refused(([&] { uneven.exchange(); }));
    if (ranks > 1) {
      const std::vector<std::int64_t> odd(ranks + 1);
      refused([&] { static_cast<void>(rank.group().start_sizes(RankState::ok, odd)); });
    }
    rank.group().barrier();
  });
}

TEST_CASE("a rank that reports a failure is named in the error of every later call") {
  over_every_group(2, [](Rank& rank) {
    const unsigned culprit = rank.ranks() - 1;
    if (rank.number() == culprit) rank.group().fail("the disk is full");
    const std::string text = fmt::format("rank {} failed: the disk is full", culprit);
    expect_error(culprit, text, [&] { rank.group().barrier(); });
    expect_error(culprit, text, [&] { rank.group().check(); });
    expect_error(culprit, text,
                 [&] { static_cast<void>(rank.group().exchange_sizes(RankState::ok, {})); });
    Blocks blocks{rank, a_few};
    expect_error(culprit, text, [&] { blocks.exchange(); });
  });
}

TEST_CASE("a rank that throws between start and wait is named in the errors of the others") {
  over_every_group(2, [](Rank& rank) {
    const unsigned culprit = rank.ranks() - 1;
    Blocks blocks{rank, a_few};
    if (rank.number() == culprit) {
      try {
        const auto pending = rank.group().start_sizes(RankState::ok, {});
        throw std::runtime_error{"something else"};
      } catch (const std::runtime_error&) {
        return;
      }
    }
    expect_error(culprit, "between its start and its wait", [&] {
      static_cast<void>(rank.group().exchange_sizes(RankState::ok, {}));
      blocks.exchange();
      rank.stream.synchronize();
      rank.group().check();
    });
  });
}

TEST_CASE("a rank whose driver fails in an operation is named in all errors, and none hangs") {
  using Operation = std::function<void(Rank&, Blocks&, float*)>;
  const Operation operations[] = {
      [](Rank&, Blocks& blocks, float*) { blocks.exchange(); },
      [](Rank& rank, Blocks&, float* data) { rank.group().all_reduce_sum(data, 8, rank.stream); },
      [](Rank& rank, Blocks&, float* data) { rank.group().broadcast(data, 32, 0, rank.stream); }};
  for (std::uint64_t call = 1; call <= 4; ++call) {
    for (const Operation& operation : operations) {
      over_every_group_of_devices(2, [&](Rank& rank) {
        const unsigned culprit = rank.ranks() - 1;
        Blocks blocks{rank, a_few};
        float* const data = rank.put(std::vector<float>(8));
        try {
          rank.group().barrier();
        } catch (const CollectiveError& error) {  // the culprit may leave the barrier first
          return expect(error.rank() == culprit && rank.number() != culprit, error.what());
        }
        FaultInjector faults{rank.device.device()};
        if (rank.number() == culprit) faults.fail_call(call, ErrorCode::unknown);
        bool threw = false;
        try {
          operation(rank, blocks, data);
        } catch (const DeviceError&) {
          threw = true;
        } catch (const CollectiveError& error) {
          return expect(error.rank() == culprit && rank.number() != culprit, error.what());
        }
        faults.clear();
        const auto go_on = [&] {
          rank.stream.synchronize();
          rank.group().barrier();
        };
        if (rank.number() == culprit) expect(threw || call > 1, "the first call fails");
        if (threw) return expect_error(culprit, "failed: ", go_on);
        try {
          go_on();
        } catch (const CollectiveError& error) {
          expect(error.rank() == culprit && rank.number() != culprit, error.what());
        }
      });
    }
  }
}

TEST_CASE("a rank that leaves while others wait on the device is named in their errors") {
  over_every_group(2, [](Rank& rank) {
    Blocks blocks{rank, a_few};
    if (rank.number() == 1) return rank.leave();
    expect_error(1, "rank 1 has left the group", [&] {
      blocks.exchange();
      rank.stream.synchronize();
      rank.group().check();
      rank.group().barrier();
    });
  });
}

TEST_CASE("a rank that leaves while others wait on the host is named in their errors") {
  over_every_group(2, [](Rank& rank) {
    if (rank.number() == 1) return rank.leave();
    expect_error(1, "rank 1 has left the group",
                 [&] { static_cast<void>(rank.group().exchange_sizes(RankState::ok, {})); });
  });
}

TEST_CASE("a rank that an exception unwinds is named in the errors of the others") {
  over_every_group(2, [](Rank& rank) {
    Blocks blocks{rank, a_few};
    if (rank.number() == 1) {
      struct Unwound {
        Rank& rank;
        ~Unwound() { rank.leave(); }
      };
      try {
        const Unwound unwound{rank};
        throw std::runtime_error{"out of luck"};
      } catch (const std::runtime_error&) {
        return;
      }
    }
    expect_error(1, "rank 1 failed: an exception ended it", [&] {
      blocks.exchange();
      rank.stream.synchronize();
      rank.group().barrier();
    });
  });
}

TEST_CASE("a rank that leaves after its work is done does not disturb the others") {
  over_every_group(1, [](Rank& rank) {
    Blocks blocks{rank, a_few};
    blocks.exchange();
    if (rank.number() == 0) rank.stream.synchronize();
    if (rank.number() == 0) return rank.leave();
    blocks.expect_received();
  });
}

TEST_CASE("ranks that do not agree on how much is sent get an error that says so") {
  over_every_group(2, [](Rank& rank) {
    Blocks blocks{rank, a_few};
    if (rank.number() == 0) blocks.receives[1].bytes -= 4;
    bool as_expected = false;
    try {
      blocks.exchange();
      rank.stream.synchronize();
      rank.group().barrier();
    } catch (const CollectiveError& error) {
      as_expected = std::strstr(error.what(), "rank 1 sends") != nullptr &&
                    std::strstr(error.what(), "to rank 0, which expects") != nullptr;
    }
    expect(as_expected, "an error that says what was sent, and what was expected");
  });
}

TEST_CASE("ranks that are out of step get an error that says so") {
  over_every_group(2, [](Rank& rank) {
    Blocks blocks{rank, a_few};
    float* const data = rank.put(std::vector<float>(8));
    bool as_expected = false;
    try {
      if (rank.number() == 0) {
        rank.group().broadcast(data, 8 * sizeof(float), 0, rank.stream);
      } else {
        blocks.exchange();
      }
      rank.stream.synchronize();
      rank.group().barrier();
    } catch (const CollectiveError& error) {
      as_expected = std::strstr(error.what(), "out of step") != nullptr;
    }
    expect(as_expected, "an error that says so");
  });
}

}  // namespace millrace::test
