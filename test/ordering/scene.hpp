#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "millrace/ordering/race_checker.hpp"

namespace millrace::test {

/** @brief Three streams, two threads and a few blocks of memory, under the race checker. */
class Scene {
 public:
  using Access = RaceChecker::Access;
  using Kind = RaceChecker::RaceKind;
  using Op = RaceChecker::OpIndex;

  struct Block {
    std::array<std::byte, 64> bytes;
  };

  RaceChecker checker;
  RaceChecker::Actor trainer = checker.add_thread("trainer");
  RaceChecker::Actor loader = checker.add_thread("loader");
  RaceChecker::Actor main = checker.add_stream("main", false);
  RaceChecker::Actor copy = checker.add_stream("copy", false);
  RaceChecker::Actor dist = checker.add_stream("dist", false);
  Block batch{}, output{}, pinned{};

  Op read(RaceChecker::Actor stream, const Block& block, const std::string& name = "read") {
    return touch(checker.enqueue(stream, trainer, name), block, Access::read);
  }
  Op write(RaceChecker::Actor stream, const Block& block, const std::string& name = "write") {
    return touch(checker.enqueue(stream, trainer, name), block, Access::write);
  }
  Op host_read(RaceChecker::Actor thread, const Block& block) {
    return touch(checker.host_operation(thread, "look"), block, Access::read);
  }
  Op host_write(RaceChecker::Actor thread, const Block& block) {
    return touch(checker.host_operation(thread, "fill"), block, Access::write);
  }
  void allocate(const Block& block, RaceChecker::Actor user) {
    checker.allocated(&block, sizeof(Block), user, trainer);
  }
  void free(const Block& block) { checker.freed(&block, trainer); }
  void record(int event, RaceChecker::Actor stream) { checker.record(key(event), stream, trainer); }
  void wait(RaceChecker::Actor stream, int event) { checker.wait(stream, key(event), trainer); }

  /** @brief Orders all later work of `to` after all work that `from` has so far. */
  void order(RaceChecker::Actor from, RaceChecker::Actor to) {
    record(99, from);
    wait(to, 99);
  }

  [[nodiscard]] std::size_t races() const { return checker.races().size(); }
  [[nodiscard]] const RaceChecker::Race& race() const { return checker.races().at(0); }

  static RaceChecker::EventKey key(int event) { return static_cast<RaceChecker::EventKey>(event); }

  Op touch(Op op, const Block& block, Access kind) {
    checker.access(op, &block, sizeof(Block), kind);
    return op;
  }
};

}  // namespace millrace::test
