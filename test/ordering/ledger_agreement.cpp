// Compares the ledger with plain reachability, over random programs.

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "millrace/ordering/ledger.hpp"
#include "test/support/catch.hpp"
#include "test/support/ordering_oracle.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

/// Which implicit order the oracle's graph contains. No call reports that order to the ledger.
enum class Graph {
  all,      ///< the legacy and the blocking streams wait for each other at every operation
  reported  ///< only where an event is recorded; no other call comes between a record's two steps
};

/// Makes each random step in the ledger and in the oracle, on one host thread, because the ledger
/// does not distinguish threads.
class LedgerProgram {
 public:
  LedgerProgram(std::uint64_t seed, Graph graph) : random_(seed), graph_(graph) {
    host_ = oracle_.add_thread();
    if (chance(60)) open(true, true);
    for (int i = 0; i < 4; ++i) open(chance(50), false);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      check();
    }
    complete(ledger_.begin_synchronize(), [&] { oracle_.device_synchronized(host_); });
    check();
    CHECK(outstanding_.empty());
    CHECK(ledger_.oldest_outstanding().empty());
    CHECK(ledger_.tracked_streams() == streams_.size());
  }

  std::ostringstream log;
  int ordered = 0, unordered = 0, waits = 0;

 private:
  using Node = OrderOracle::Node;

  struct Stream {
    StreamId id;
    OrderOracle::Actor actor;
    bool legacy;
  };
  struct Event {
    Point point;
    Frontier snapshot;
    Node node;
    MarkerToken token;
  };
  struct Free {
    Point point;
    Node use;  ///< the last use, enqueued on that stream before the free
  };

  int between(int low, int high) { return std::uniform_int_distribution{low, high}(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename T>
  auto any(T& from) {
    return from.begin() + between(0, static_cast<int>(from.size()) - 1);
  }

  void open(bool blocking, bool legacy) {
    const StreamId id = ledger_.open({.legacy = legacy, .blocking = blocking});
    streams_.push_back({id, oracle_.add_stream(blocking, legacy), legacy});
    log << "open " << id.slot << (legacy ? " legacy" : blocking ? " blocking" : "") << '\n';
  }

  void work(const Stream& stream) {
    log << "work on " << stream.id.slot << '\n';
    oracle_.enqueue(stream.actor, host_, {}, graph_ == Graph::all);
  }

  void free(const Stream& stream) {
    const Node use = oracle_.enqueue(stream.actor, host_, {}, graph_ == Graph::all).device;
    frees_.push_back({{stream.id, ledger_.next(stream.id)}, use});
    log << "use and free " << frees_.size() << " on " << stream.id.slot << " before marker "
        << frees_.back().point.marker << '\n';
  }

  Event record(const Stream& stream, bool alone = false) {
    log << "record on " << stream.id.slot << '\n';
    PendingRecord record = ledger_.begin_record(stream.id);
    Event event{record.point, record.snapshot(), 0, ++last_token_};
    const auto others = [&] {
      if (alone || graph_ == Graph::reported || chance(70)) return;
      log << "meanwhile ";
      chance(50) ? free(*any(streams_)) : wait(*any(streams_));
    };
    others();
    event.node = oracle_.enqueue(stream.actor, host_).device;
    others();
    ledger_.publish_record(std::move(record), event.token);
    outstanding_.insert(event.token);
    nodes_[event.token] = event.node;
    events_.push_back(event);
    return event;
  }

  void record_again() {
    if (events_.empty()) return;
    const Event old = *any(events_);
    log << "marker " << old.point.marker << " of " << old.point.stream.slot << " withdrawn\n";
    ledger_.withdraw(old.point);
    outstanding_.erase(old.token);
    withdrawn_.insert(old.token);
  }

  void wait(const Stream& stream) {
    if (events_.empty()) return;
    const Event event = *any(events_);
    log << "wait on " << stream.id.slot << " for marker " << event.point.marker << " of "
        << event.point.stream.slot << '\n';
    oracle_.enqueue(stream.actor, host_, {event.node}, graph_ == Graph::all);
    ledger_.join(stream.id, event.point);
  }

  template <typename Call>
  void complete(const Frontier& frontier, Call call) {
    call();
    for (const MarkerToken token : ledger_.complete(frontier)) give_back(token);
  }

  void give_back(MarkerToken token) {
    INFO("token " << token << " given back");
    CHECK(outstanding_.erase(token) == 1);
    CHECK(oracle_.graph.reaches(nodes_.at(token), *oracle_.tail(host_)));
  }

  void query() {
    if (events_.empty()) return;
    const Event event = *any(events_);
    log << "marker " << event.point.marker << " of " << event.point.stream.slot << " complete\n";
    if (chance(50)) {
      complete(event.snapshot, [&] { oracle_.host(host_, {event.node}); });
      return;
    }
    oracle_.host(host_, {event.node});
    for (const MarkerToken token : ledger_.complete(event.point)) give_back(token);
  }

  void close() {
    const auto it = any(streams_);
    if (it->legacy || streams_.size() < 3) return;
    const bool sealed = chance(60);
    const Marker last = sealed ? record(*it, true).point.marker : 0;
    log << "close " << it->id.slot << (sealed ? " with a last marker\n" : "\n");
    ledger_.close(it->id, last);
    oracle_.remove_stream(it->actor);
    if (sealed) {
      frees_.push_back({{it->id, ledger_.next(it->id)}, *oracle_.tail(it->actor)});
    }
    streams_.erase(it);
    open(chance(50), false);
  }

  /// Waits on the earliest marker that covers the point: the third way of the one rule.
  void wait_for_free() {
    if (frees_.empty()) return;
    const Free block = *any(frees_);
    const Stream user = *any(streams_);
    const auto covering = ledger_.earliest_covering(block.point);
    if (!covering) return;
    log << "wait on " << user.id.slot << " for " << block.point.marker << " of "
        << block.point.stream.slot << '\n';
    CHECK_FALSE(withdrawn_.contains(covering->token));
    oracle_.enqueue(user.actor, host_, {nodes_.at(covering->token)}, graph_ == Graph::all);
    ledger_.join(user.id, covering->point);
    CHECK(ledger_.ordered(block.point, user.id));
    ++waits;
  }

  void synchronize() {
    const Stream stream = *any(streams_);
    if (chance(30)) {
      log << "synchronize device\n";
      complete(ledger_.begin_synchronize(), [&] { oracle_.device_synchronized(host_); });
    } else {
      log << "synchronize " << stream.id.slot << '\n';
      complete(ledger_.begin_synchronize(stream.id),
               [&] { oracle_.stream_synchronized(stream.actor, host_); });
    }
  }

  void step() {
    switch (between(0, 15)) {
      case 0:
      case 1:
      case 2:
        return work(*any(streams_));
      case 3:
      case 4:
      case 5:
        return free(*any(streams_));
      case 6:
      case 7:
        record(*any(streams_));
        return;
      case 8:
      case 9:
      case 10:
        return wait(*any(streams_));
      case 11:
        return wait_for_free();
      case 12:
        return chance(40) ? query() : record_again();
      case 13:
        return chance(30) ? synchronize() : wait(*any(streams_));
      case 14:
        log << "a record fails\n";
        static_cast<void>(ledger_.begin_record(any(streams_)->id));
        return;
      default:
        return chance(40) ? close() : wait(*any(streams_));
    }
  }

  void check() {
    if (frees_.empty()) return;
    for (int i = 0; i < 4; ++i) {
      const Free block = *any(frees_);
      const Stream user = *any(streams_);
      const std::vector<bool> after = oracle_.graph.reachable(block.use);
      const bool done = after[*oracle_.tail(host_)];
      bool before = done;
      for (const Node node : oracle_.before_next(user.actor)) before = before || after[node];
      compare(block, "the host", ledger_.completed(block.point), done);
      compare(block, std::to_string(user.id.slot), ledger_.ordered(block.point, user.id), before);
      CHECK(ledger_.ordered(block.point, user.id) ==
            (ledger_.frontier(user.id).covers(block.point) ||
             ledger_.completed_frontier().covers(block.point)));
    }
  }

  void compare(const Free& block, const std::string& whom, bool ledger, bool reachable) {
    ++(ledger ? ordered : unordered);
    const bool agrees = ledger == reachable || (reachable && graph_ == Graph::all);
    if (agrees) return;
    FAIL((ledger ? "ordered" : "not ordered")
         << " says the ledger of " << block.point.marker << " of " << block.point.stream.slot << '/'
         << block.point.stream.generation << " and " << whom << " after:\n"
         << log.str());
  }

  std::mt19937_64 random_;
  Graph graph_;
  Ledger ledger_;
  OrderOracle oracle_;
  OrderOracle::Actor host_ = 0;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Free> frees_;
  MarkerToken last_token_ = 0;
  std::set<MarkerToken> outstanding_, withdrawn_;
  std::map<MarkerToken, Node> nodes_;
};

void run(Graph graph) {
  int ordered = 0, unordered = 0, waits = 0;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    std::seed_seq mix{seed(), i};
    std::vector<std::uint32_t> words(2);
    mix.generate(words.begin(), words.end());
    LedgerProgram program{std::uint64_t{words[0]} << 32 | words[1], graph};
    INFO("program " << i << " of seed " << seed());
    program.run(60);
    ordered += program.ordered;
    unordered += program.unordered;
    waits += program.waits;
  }
  CHECK(ordered > 100'000);
  CHECK(unordered > 100'000);
  CHECK(waits > 1'000);
}

TEST_CASE("the ledger never reports order where the graph has no path") { run(Graph::all); }

TEST_CASE("the ledger reports order wherever the reported markers make a path") {
  run(Graph::reported);
}

}  // namespace
}  // namespace millrace::test
