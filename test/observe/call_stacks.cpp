#include "millrace/observe/call_stacks.hpp"

#include <string>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"

namespace {

using namespace millrace;

[[gnu::noinline]] CallStacks::Id asked_here(CallStacks& stacks) {
  const CallStacks::Id id = stacks.here();
  asm volatile("" ::: "memory");  // prevents a tail call
  return id;
}

[[gnu::noinline]] CallStacks::Id asked_there(CallStacks& stacks) {
  const CallStacks::Id id = asked_here(stacks);
  asm volatile("" ::: "memory");
  return id;
}

bool has(const std::vector<trace::StackFrame>& frames, const std::string& function) {
  for (const trace::StackFrame& frame : frames) {
    if (frame.function.find(function) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a stack lists the calling functions and is stored once") {
  CallStacks stacks;
  CallStacks::Id first = CallStacks::kNone;
  for (int i = 0; i < 10; ++i) {
    const CallStacks::Id found = asked_there(stacks);
    if (i == 0) first = found;
    CHECK(found == first);
  }
  CHECK(stacks.size() == 1);
  const CallStacks::Id other = asked_here(stacks);
  CHECK(other != first);
  CHECK(stacks.size() == 2);
  const std::vector<trace::StackFrame> frames = stacks.frames_of(first);
  REQUIRE(frames.size() > 2);
  CHECK_THAT(frames[0].function, Catch::Matchers::ContainsSubstring("asked_here"));
  CHECK_THAT(frames[1].function, Catch::Matchers::ContainsSubstring("asked_there"));
  CHECK(!frames[0].file.empty());
  CHECK(!has(stacks.frames_of(other), "asked_there"));
  CHECK(stacks.frames_of(CallStacks::kNone).empty());
}

TEST_CASE("a stack has the requested number of innermost frames") {
  CallStacks stacks{2};
  const CallStacks::Id found = asked_there(stacks);
  CHECK(stacks.frames_of(found).size() == 2);
  CHECK(has(stacks.frames_of(found), "asked_"));
}

TEST_CASE("a stack is added to a table once, with all its frames") {
  CallStacks stacks;
  trace::StackTable table;
  const CallStacks::Id found = asked_there(stacks);
  const trace::StackTable::Id added = stacks.add_to(table, found);
  CHECK(stacks.add_to(table, found) == added);
  const auto frames = stacks.frames_of(found);
  REQUIRE(table.frames_of(added).size() == frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i)
    CHECK(table.at(table.frames_of(added)[i]) == frames[i]);

  trace::StackTable copied;
  trace::StackCopy copy{table, copied};
  const trace::StackTable::Id there = copy.of(added);
  CHECK(copy.of(added) == there);
  REQUIRE(copied.frames_of(there).size() == frames.size());
  CHECK(copied.at(copied.innermost(there)) == frames.front());
  CHECK(copy.of(trace::StackTable::kNone) == trace::StackTable::kNone);
}

TEST_CASE("several threads record the same stack as one") {
  CallStacks stacks;
  std::vector<std::thread> threads;
  std::vector<CallStacks::Id> found(4, CallStacks::kNone);
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&stacks, &id = found[i]] {
      for (int j = 0; j < 1000; ++j) id = asked_there(stacks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const CallStacks::Id id : found) CHECK(has(stacks.frames_of(id), "asked_there"));
  CHECK(stacks.size() == 1);
}
