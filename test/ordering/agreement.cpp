// Compares the race checker with plain reachability, over random programs.

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "millrace/ordering/race_checker.hpp"
#include "test/support/catch.hpp"
#include "test/support/ordering_oracle.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kBytes = 96;

/// Makes each random step in the checker and in the oracle.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    const bool with_legacy = chance(60);
    if (with_legacy) add_stream(true, true);
    for (int i = 0; i < 2; ++i) add_stream(true, false);
    for (int i = 0; i < 2; ++i) add_stream(false, false);
    const int threads = between(1, 3);
    for (int i = 0; i < threads; ++i) {
      threads_.push_back({checker.add_thread("thread" + std::to_string(i)), oracle.add_thread()});
    }
    care_ = between(0, 90);
    writes_ = between(5, 60);
    late_ = chance(50) ? 0 : between(5, 40);
    churn_ = chance(50) ? 10 : 100;
    spread_ = between(1, 4);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }

  RaceChecker checker;
  RaceOracle oracle{kBytes};
  std::ostringstream log;

 private:
  struct Pair {
    RaceChecker::Actor in_checker;
    OrderOracle::Actor in_oracle;
  };
  struct Block {
    std::size_t begin, bytes;
  };

  int between(int low, int high) { return std::uniform_int_distribution{low, high}(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename T>
  const T& any(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<int>(from.size()) - 1))];
  }
  static const void* address(std::size_t byte) {
    return reinterpret_cast<const void*>(4096 + byte);
  }

  void add_stream(bool blocking, bool legacy) {
    const auto name = std::string{legacy ? "legacy" : blocking ? "blocking" : "free"};
    streams_.push_back(
        {checker.add_stream(name + std::to_string(streams_.size()), blocking, legacy),
         oracle.add_stream(blocking, legacy)});
  }

  /// Returns a thread, or sometimes a callback that has not ended.
  Pair host() { return !callbacks_.empty() && chance(2 * late_) ? any(callbacks_) : any(threads_); }

  void step() {
    // With a higher `care_`, a program orders more and accesses less memory.
    if (chance(late_)) return callback();
    if (chance(care_)) return order();
    switch (between(0, 9)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return work();
      case 4:
        return host_work();
      case 5:
        return allocate();
      case 6:
        return free();
      case 7:
        log << "forget\n";
        return checker.forget_dominated();
      case 8:
        return chance(churn_) ? replace_stream() : order();
      default:
        return order();
    }
  }

  void touch(RaceChecker::OpIndex op) {
    const int accesses = between(1, 2);
    for (int i = 0; i < accesses; ++i) {
      const auto begin =
          static_cast<std::size_t>(between(0, static_cast<int>(kBytes) / 4 * spread_ - 1));
      const auto bytes = std::min(static_cast<std::size_t>(between(1, 6)), kBytes - begin);
      const bool write = chance(writes_);
      log << "  " << (write ? "write " : "read ") << begin << '+' << bytes << '\n';
      checker.access(op, address(begin), bytes,
                     write ? RaceChecker::Access::write : RaceChecker::Access::read);
      oracle.access(op, begin, bytes, write);
    }
  }

  void work() {
    const Pair stream = any(streams_), thread = host();
    const auto op = checker.enqueue(stream.in_checker, thread.in_checker, "work");
    log << "op " << op << " on " << stream.in_checker << " by " << thread.in_checker << '\n';
    REQUIRE(oracle.operation(stream.in_oracle, thread.in_oracle) == op);
    touch(op);
  }

  void host_work() {
    const Pair thread = host();
    const auto op = checker.host_operation(thread.in_checker, "host");
    log << "op " << op << " by " << thread.in_checker << '\n';
    REQUIRE(oracle.host_operation(thread.in_oracle) == op);
    touch(op);
  }

  void allocate() {
    const auto begin = static_cast<std::size_t>(between(0, static_cast<int>(kBytes) - 1));
    const auto bytes = std::min(static_cast<std::size_t>(between(1, 10)), kBytes - begin);
    for (const Block block : blocks_) {
      if (begin < block.begin + block.bytes && block.begin < begin + bytes) return;
    }
    blocks_.push_back({begin, bytes});
    const Pair thread = host();
    const Pair user = chance(80) ? any(streams_) : thread;
    const auto op = checker.allocated(address(begin), bytes, user.in_checker, thread.in_checker);
    log << "op " << op << " allocates " << begin << '+' << bytes << " for " << user.in_checker
        << " by " << thread.in_checker << '\n';
    REQUIRE(oracle.allocated(begin, bytes, user.in_oracle, thread.in_oracle) == op);
  }

  void free() {
    if (blocks_.empty()) return;
    const auto it = blocks_.begin() + between(0, static_cast<int>(blocks_.size()) - 1);
    const Pair thread = host();
    const auto op = checker.freed(address(it->begin), thread.in_checker);
    log << "op " << op << " frees " << it->begin << " by " << thread.in_checker << '\n';
    REQUIRE(oracle.freed(it->begin, thread.in_oracle) == op);
    blocks_.erase(it);
  }

  void callback() {
    if (callbacks_.size() < 3 && chance(50)) {
      const Pair stream = any(streams_), thread = host();
      callbacks_.push_back(
          {checker.begin_callback(stream.in_checker, thread.in_checker, "callback"),
           oracle.begin_callback(stream.in_oracle, thread.in_oracle)});
      log << "callback " << callbacks_.back().in_checker << " on " << stream.in_checker << " by "
          << thread.in_checker << '\n';
    } else if (!callbacks_.empty()) {
      const auto it = callbacks_.begin() + between(0, static_cast<int>(callbacks_.size()) - 1);
      log << "callback " << it->in_checker << " ends\n";
      checker.end_callback(it->in_checker);
      callbacks_.erase(it);
    }
  }

  void replace_stream() {
    const auto at = streams_.begin() + between(0, static_cast<int>(streams_.size()) - 1);
    log << "stream " << at->in_checker << " removed\n";
    checker.remove_stream(at->in_checker);
    oracle.remove_stream(at->in_oracle);
    streams_.erase(at);
    add_stream(chance(50), false);
  }

  void order() {
    const Pair stream = any(streams_), thread = host();
    const int event = between(0, 4), object = between(0, 1);
    const auto key = static_cast<std::uint64_t>(event);
    log << "by " << thread.in_checker << " on " << stream.in_checker << ": ";
    switch (between(0, 12)) {
      case 0:
      case 1:
      case 2:
        log << "record " << event << '\n';
        checker.record(key, stream.in_checker, thread.in_checker);
        return oracle.record(event, stream.in_oracle, thread.in_oracle);
      case 3:
      case 4:
      case 5:
        log << "wait " << event << '\n';
        checker.wait(stream.in_checker, key, thread.in_checker);
        return oracle.wait(stream.in_oracle, event, thread.in_oracle);
      case 6:
        if (!callbacks_.empty()) break;  // the call could not have returned
        log << "synchronize event " << event << '\n';
        checker.event_synchronized(key, thread.in_checker);
        return oracle.event_synchronized(event, thread.in_oracle);
      case 7:
        if (!callbacks_.empty()) break;
        log << "synchronize stream\n";
        checker.stream_synchronized(stream.in_checker, thread.in_checker);
        return oracle.stream_synchronized(stream.in_oracle, thread.in_oracle);
      case 8:
        if (!callbacks_.empty() || chance(50)) break;
        log << "synchronize device\n";
        checker.device_synchronized(thread.in_checker);
        return oracle.device_synchronized(thread.in_oracle);
      case 9:
      case 10:
        log << "release " << object << '\n';
        checker.release(thread.in_checker, static_cast<std::uint64_t>(object));
        return oracle.release(thread.in_oracle, object);
      default: {
        const Pair acquirer = any(threads_);
        log << "acquire " << object << " by " << acquirer.in_checker << '\n';
        checker.acquire(acquirer.in_checker, static_cast<std::uint64_t>(object));
        return oracle.acquire(acquirer.in_oracle, object);
      }
    }
    log << "nothing\n";
  }

  std::mt19937_64 random_;
  int care_ = 0, writes_ = 50, late_ = 0, churn_ = 0, spread_ = 1;
  std::vector<Pair> streams_, threads_, callbacks_;
  std::vector<Block> blocks_;
};

struct Counts {
  int with_races = 0;
  std::map<RaceChecker::RaceKind, int> kinds;
};

void compare(const Program& program, Counts& counts) {
  const RaceOracle::Races expected = program.oracle.races();
  std::set<RaceChecker::OpIndex> racing, reported;
  for (const auto& [pair, kinds] : expected) racing.insert(pair.second);
  for (const RaceChecker::Race& race : program.checker.races()) {
    reported.insert(race.second);
    ++counts.kinds[race.kind];
    const auto it = expected.find({race.first, race.second});
    INFO(race.message);
    REQUIRE(it != expected.end());
    REQUIRE(it->second.contains(race.kind));
  }
  REQUIRE(reported == racing);
  counts.with_races += racing.empty() ? 0 : 1;
}

TEST_CASE("the checker agrees with plain reachability on 10000 random programs") {
  Counts counts;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    std::seed_seq mix{seed(), i};
    std::uint64_t of_program = 0;
    std::vector<std::uint32_t> words(2);
    mix.generate(words.begin(), words.end());
    of_program = std::uint64_t{words[0]} << 32 | words[1];
    Program program{of_program};
    program.run(static_cast<int>(5 + of_program % 56));
    INFO("program " << i << " of seed " << seed() << ":\n" << program.log.str());
    compare(program, counts);
  }
  // Programs with races and programs without races are both frequent.
  CHECK(counts.with_races > 2'000);
  CHECK(counts.with_races < 8'000);
  for (int kind = 0; kind < 6; ++kind) {
    CHECK(counts.kinds[static_cast<RaceChecker::RaceKind>(kind)] > 200);
  }
}

}  // namespace
}  // namespace millrace::test
