#pragma once

/// @file
/// The happens-before order in its simplest form: a graph with a node for every call and every
/// operation, and reachability by a walk. It has no clocks, markers or frontiers.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "millrace/ordering/race_checker.hpp"

namespace millrace::test {

/// Nodes and edges.
class OrderGraph {
 public:
  using Node = std::size_t;

  Node add(const std::vector<Node>& after) {
    successors_.emplace_back();
    for (const Node before : after) order(before, successors_.size() - 1);
    return successors_.size() - 1;
  }

  void order(Node before, Node after) { successors_[before].push_back(after); }

  /// Returns every node that is reachable from `from`, including `from`.
  [[nodiscard]] std::vector<bool> reachable(Node from) const {
    std::vector<bool> seen(successors_.size());
    std::vector<Node> open{from};
    seen[from] = true;
    while (!open.empty()) {
      const Node at = open.back();
      open.pop_back();
      for (const Node next : successors_[at]) {
        if (seen[next]) continue;
        seen[next] = true;
        open.push_back(next);
      }
    }
    return seen;
  }

  [[nodiscard]] bool reaches(Node from, Node to) const { return reachable(from)[to]; }

 private:
  std::vector<std::vector<Node>> successors_;
};

/// Streams, threads and callbacks as chains of nodes.
class OrderOracle {
 public:
  using Node = OrderGraph::Node;
  using Actor = std::size_t;

  struct Call {
    Node host;    ///< the call
    Node device;  ///< the operation that it enqueued
  };

  Actor add_thread() { return add_actor({.tail = graph.add({})}); }
  Actor add_stream(bool blocking, bool legacy) {
    return add_actor({.stream = true, .blocking = blocking, .legacy = legacy});
  }
  void remove_stream(Actor stream) { actors_[stream].alive = false; }

  Node host(Actor thread, std::vector<Node> after = {}) {
    Chain& chain = actors_[thread];
    after.push_back(*chain.tail);
    chain.tail = graph.add(after);
    if (chain.callback_end) graph.order(*chain.tail, *chain.callback_end);
    return *chain.tail;
  }

  /// `implicit`: whether the legacy stream and the blocking ones wait for each other here.
  Call enqueue(Actor stream, Actor thread, std::vector<Node> after = {}, bool implicit = true) {
    const Node call = host(thread);
    after.push_back(call);
    const auto earlier = before_next(stream, implicit);
    after.insert(after.end(), earlier.begin(), earlier.end());
    actors_[stream].tail = graph.add(after);
    return {call, *actors_[stream].tail};
  }

  /// Returns the nodes that the next operation on `stream` follows, from any thread.
  [[nodiscard]] std::vector<Node> before_next(Actor stream, bool implicit = true) const {
    std::vector<Node> tails;
    const Chain& mine = actors_[stream];
    if (mine.tail) tails.push_back(*mine.tail);
    for (const Chain& other : actors_) {
      if (!implicit || !other.stream || !other.alive || !other.tail) continue;
      const bool legacy_pair = (mine.legacy && other.blocking && !other.legacy) ||
                               (other.legacy && mine.blocking && !mine.legacy);
      if (legacy_pair) tails.push_back(*other.tail);
    }
    return tails;
  }

  void record(int event, Actor stream, Actor thread) {
    events_[event] = enqueue(stream, thread).device;
  }
  void wait(Actor stream, int event, Actor thread) { enqueue(stream, thread, of_event(event)); }
  void event_synchronized(int event, Actor thread) { host(thread, of_event(event)); }
  void stream_synchronized(Actor stream, Actor thread) {
    host(thread, before_next(stream, /*implicit=*/false));
  }
  void device_synchronized(Actor thread) {
    std::vector<Node> tails;
    for (const Chain& chain : actors_) {
      if (chain.stream && chain.tail) tails.push_back(*chain.tail);
    }
    host(thread, tails);
  }

  Actor begin_callback(Actor stream, Actor thread) {
    const Node start = enqueue(stream, thread).device;
    const Node end = graph.add({start});
    actors_[stream].tail = end;
    return add_actor({.tail = start, .callback_end = end});
  }

  void release(Actor thread, int object) { objects_[object].push_back(host(thread)); }
  void acquire(Actor thread, int object) { host(thread, objects_[object]); }

  [[nodiscard]] std::optional<Node> tail(Actor actor) const { return actors_[actor].tail; }

  OrderGraph graph;

 private:
  struct Chain {
    bool stream = false, blocking = false, legacy = false, alive = true;
    std::optional<Node> tail;
    std::optional<Node> callback_end;
  };

  Actor add_actor(Chain chain) {
    actors_.push_back(chain);
    return actors_.size() - 1;
  }

  [[nodiscard]] std::vector<Node> of_event(int event) const {
    const auto it = events_.find(event);
    return it == events_.end() ? std::vector<Node>{} : std::vector<Node>{it->second};
  }

  std::vector<Chain> actors_;
  std::map<int, Node> events_;
  std::map<int, std::vector<Node>> objects_;
};

/// Finds all races of a program over a few bytes of memory. Compares each access with each other.
class RaceOracle : public OrderOracle {
 public:
  using Index = RaceChecker::OpIndex;
  using Kind = RaceChecker::RaceKind;
  using Races = std::map<std::pair<Index, Index>, std::set<Kind>>;  ///< by (first, second)

  explicit RaceOracle(std::size_t bytes) : memory_(bytes) {}

  Index operation(Actor stream, Actor thread) {
    const Call call = enqueue(stream, thread);
    operations_.push_back({call.host, call.device});
    return operations_.size();
  }
  Index host_operation(Actor thread) {
    const Node node = host(thread);
    operations_.push_back({node, node});
    return operations_.size();
  }

  void access(Index op, std::size_t begin, std::size_t bytes, bool write) {
    accesses_.push_back(
        {op, write, begin, {memory_.begin() + begin, memory_.begin() + begin + bytes}});
  }

  Index allocated(std::size_t begin, std::size_t bytes, Actor user, Actor thread) {
    const Index op = host_operation(thread);
    std::vector<Node> follows = before_next(user);
    follows.push_back(operations_.back().work);
    allocations_.push_back({op, begin, bytes, accesses_.size(), follows, {}, {}});
    for (std::size_t i = begin; i < begin + bytes; ++i) memory_[i] = {allocations_.size(), true};
    return op;
  }

  Index freed(std::size_t begin, Actor thread) {
    const Index op = host_operation(thread);
    Allocation& allocation = allocations_[memory_[begin].allocation - 1];
    allocation.freed = op;
    allocation.accesses_at_free = accesses_.size();
    for (std::size_t i = 0; i < allocation.bytes; ++i) memory_[begin + i].live = false;
    return op;
  }

  [[nodiscard]] Races races() const {
    Races found;
    std::map<Index, std::vector<bool>> after;
    const auto before = [&](Index first, Node second) {
      auto [it, added] = after.try_emplace(first);
      if (added) it->second = graph.reachable(operations_[first - 1].work);
      return it->second[second];
    };
    for (std::size_t i = 0; i < accesses_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) compare(accesses_[j], accesses_[i], before, found);
      check_lifetime(accesses_[i], before, found);
    }
    for (std::size_t i = 0; i < allocations_.size(); ++i) {
      check_reuse(allocations_[i], before, found);
      if (allocations_[i].freed) check_free(i, found);
    }
    return found;
  }

 private:
  struct Operation {
    Node call, work;
  };
  struct Byte {
    std::size_t allocation = 0;  ///< from 1; 0: never allocated
    bool live = false;
  };
  struct Access {
    Index op;
    bool write;
    std::size_t begin;
    std::vector<Byte> bytes;  ///< their state at the access
  };
  struct Allocation {
    Index op;
    std::size_t begin, bytes, accesses_before;
    std::vector<Node> follows;
    std::optional<Index> freed;
    std::size_t accesses_at_free;
  };

  static bool touches(const Access& access, std::size_t byte) {
    return byte >= access.begin && byte < access.begin + access.bytes.size();
  }

  template <typename Before>
  void compare(const Access& first, const Access& second, Before before, Races& found) const {
    if (first.op == second.op || (!first.write && !second.write)) return;
    if (before(first.op, operations_[second.op - 1].work) ||
        before(second.op, operations_[first.op - 1].work)) {
      return;
    }
    for (std::size_t i = 0; i < second.bytes.size(); ++i) {
      const std::size_t byte = second.begin + i;
      if (!touches(first, byte)) continue;
      const bool same = first.bytes[byte - first.begin].allocation == second.bytes[i].allocation;
      const Kind kind = !same          ? Kind::early_reuse
                        : !first.write ? Kind::write_after_read
                        : second.write ? Kind::write_after_write
                                       : Kind::read_after_write;
      found[{first.op, second.op}].insert(kind);
    }
  }

  template <typename Before>
  void check_lifetime(const Access& access, Before before, Races& found) const {
    for (const Byte byte : access.bytes) {
      if (byte.allocation == 0) continue;
      const Allocation& allocation = allocations_[byte.allocation - 1];
      if (!byte.live) {
        found[{*allocation.freed, access.op}].insert(Kind::use_after_free);
      } else if (!before(allocation.op, operations_[access.op - 1].work)) {
        found[{allocation.op, access.op}].insert(Kind::use_before_allocate);
      }
    }
  }

  template <typename Before>
  void check_reuse(const Allocation& allocation, Before before, Races& found) const {
    for (std::size_t i = 0; i < allocation.accesses_before; ++i) {
      const Access& old = accesses_[i];
      bool ordered = old.begin + old.bytes.size() <= allocation.begin ||
                     old.begin >= allocation.begin + allocation.bytes;
      for (const Node node : allocation.follows) ordered = ordered || before(old.op, node);
      if (!ordered) found[{old.op, allocation.op}].insert(Kind::early_reuse);
    }
  }

  void check_free(std::size_t index, Races& found) const {
    const Allocation& allocation = allocations_[index];
    const Node free = operations_[*allocation.freed - 1].call;
    for (std::size_t i = allocation.accesses_before; i < allocation.accesses_at_free; ++i) {
      const Access& use = accesses_[i];
      bool of_this = false;
      for (const Byte byte : use.bytes) of_this = of_this || byte.allocation == index + 1;
      if (of_this && !graph.reaches(operations_[use.op - 1].call, free)) {
        found[{use.op, *allocation.freed}].insert(Kind::use_after_free);
      }
    }
  }

  std::vector<Operation> operations_;
  std::vector<Byte> memory_;
  std::vector<Access> accesses_;
  std::vector<Allocation> allocations_;
};

}  // namespace millrace::test
