// A training loop with side streams. The test leaves out each of its edges in turn. The checker
// must name the missing edge, unless other edges imply it.

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "test/ordering/scene.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

enum class Edge {
  none,
  batch_loaded,       ///< the loader hands a filled batch to the trainer
  slot_returned,      ///< the trainer hands the slot back: implied by copy_complete
  copy_complete,      ///< the loader waits for the copy before it fills the slot again
  batch_arrived,      ///< the exchange waits for the copy
  exchange_done,      ///< main waits for the exchange
  batch_last_read,    ///< the copy into a recycled block waits for its last reader on main
  output_last_read,   ///< the exchange waits for main's last read of what it overwrites
  main_sees_arrival,  ///< main waits for the copy itself: implied by exchange_done
};

/// The loop: pinned slot -> copy -> exchange -> main, every buffer recycled each step.
class Loop : public Scene {
 public:
  explicit Loop(Edge left_out) : left_out_(left_out) {
    for (int step = 0; step < 4; ++step) run(step);
  }

 private:
  bool has(Edge edge) const { return edge != left_out_; }
  void wait_if(Edge edge, RaceChecker::Actor stream, int event) {
    if (has(edge)) wait(stream, event);
  }

  void run(int step) {
    if (step > 0 && has(Edge::slot_returned)) checker.acquire(loader, 2);
    if (has(Edge::copy_complete)) checker.event_synchronized(key(kCopied), loader);
    touch(checker.host_operation(loader, "load"), pinned, Access::write);
    checker.release(loader, 1);
    if (has(Edge::batch_loaded)) checker.acquire(trainer, 1);

    wait_if(Edge::batch_last_read, copy, kForward);
    const auto h2d = checker.enqueue(copy, trainer, "h2d");
    touch(h2d, pinned, Access::read);
    touch(h2d, batch, Access::write);
    record(kCopied, copy);
    checker.release(trainer, 2);

    wait_if(Edge::batch_arrived, dist, kCopied);
    wait_if(Edge::output_last_read, dist, kBackward);
    const auto exchange = checker.enqueue(dist, trainer, "exchange");
    touch(exchange, batch, Access::read);
    touch(exchange, output, Access::write);
    record(kExchanged, dist);

    wait_if(Edge::main_sees_arrival, main, kCopied);
    wait_if(Edge::exchange_done, main, kExchanged);
    read(main, batch, "forward");
    record(kForward, main);
    read(main, output, "backward");
    record(kBackward, main);
  }

  static constexpr int kCopied = 1, kExchanged = 2, kForward = 3, kBackward = 4;
  Edge left_out_;
};

std::set<std::string> named(Edge left_out) {
  const Loop loop{left_out};
  std::set<std::string> edges;
  for (const RaceChecker::Race& race : loop.checker.races()) {
    edges.insert(std::regex_replace(race.message, std::regex{"op [0-9]+"}, "op N"));
  }
  return edges;
}

TEST_CASE("the loop with all its edges has no race") { CHECK(named(Edge::none).empty()); }

TEST_CASE("an edge that other edges imply is not reported as missing") {
  CHECK(named(Edge::main_sees_arrival).empty());
  CHECK(named(Edge::slot_returned).empty());
}

TEST_CASE("each missing edge of the loop is named") {
  struct Case {
    Edge left_out;
    std::string first, second, fix;
  };
  const std::vector<Case> cases{
      {Edge::batch_loaded, "load (op N, thread loader)", "h2d (op N, stream copy)",
       "synchronize thread trainer with thread loader after op N and before enqueuing op N"},
      {Edge::copy_complete, "h2d (op N, stream copy)", "load (op N, thread loader)",
       "record on copy after op N, synchronize thread loader with it before op N"},
      {Edge::batch_arrived, "h2d (op N, stream copy)", "exchange (op N, stream dist)",
       "record on copy after op N, wait on dist before op N"},
      {Edge::exchange_done, "exchange (op N, stream dist)", "backward (op N, stream main)",
       "record on dist after op N, wait on main before op N"},
      {Edge::batch_last_read, "forward (op N, stream main)", "h2d (op N, stream copy)",
       "record on main after op N, wait on copy before op N"},
      {Edge::output_last_read, "backward (op N, stream main)", "exchange (op N, stream dist)",
       "record on main after op N, wait on dist before op N"},
  };
  for (const Case& c : cases) {
    const auto edges = named(c.left_out);
    const std::string expected = c.first + " and " + c.second + " are not ordered: " + c.fix;
    CAPTURE(expected, edges);
    CHECK(edges.contains(expected));
  }
}

}  // namespace
}  // namespace millrace::test
