#include "collective/threads/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace millrace::collective {

SharedRanks::SharedRanks(unsigned ranks, Executor& on, VirtualMachine* machine_of_devices,
                         const ThreadRanks::Options& given)
    : executor(on),
      machine(machine_of_devices),
      options(given),
      size(ranks),
      changed_(on.make_condition()),
      entered_(ranks),
      left_(ranks) {}

void SharedRanks::enter(unsigned rank) {
  const std::lock_guard lock{mutex_};
  if (entered_[rank]) {
    throw std::invalid_argument{fmt::format("rank {} has joined already", rank)};
  }
  entered_[rank] = true;
}

void SharedRanks::throw_failure() const {
  if (failure_) throw CollectiveError{failure_->rank, failure_->message};
}

void SharedRanks::check() {
  const std::lock_guard lock{mutex_};
  throw_failure();
}

// Call it with the lock. Cancels the meetings that cannot complete, so that no stream waits for
// them.
void SharedRanks::record_failure(unsigned rank, std::string message) {
  if (failure_) return;
  failure_ = Failure{rank, std::move(message)};
  for (auto& [number, operation] : operations_) operation.meeting->cancel();
  operations_.clear();
  changed_->notify_all();
}

void SharedRanks::fail(unsigned rank, const std::string& why) noexcept {
  const std::lock_guard lock{mutex_};
  record_failure(rank, fmt::format("rank {} failed: {}", rank, why));
}

void SharedRanks::leave(unsigned rank) noexcept {
  const std::lock_guard lock{mutex_};
  left_[rank] = true;
  const auto waited_for = std::ranges::find_if(
      operations_, [&](const auto& entry) { return !entry.second.joined[rank]; });
  if (waited_for != operations_.end()) {
    record_failure(rank, fmt::format("rank {} has left the group, and others wait for it in "
                                     "device operation {}",
                                     rank, waited_for->first));
  }
  changed_->notify_all();
}

// Ranks that make different calls would wait for each other forever. Here they get an error that
// names both calls.
void SharedRanks::check_alike(unsigned rank, unsigned peer, const std::string& mine,
                              const std::string& theirs) {
  if (mine == theirs) return;
  record_failure(rank, fmt::format("ranks are out of step: rank {} is at {}, rank {} at {}", rank,
                                   mine, peer, theirs));
  throw_failure();
}

// A rank that has left makes no more calls, so a wait for it would never end.
void SharedRanks::check_missing(unsigned rank, const std::string& what,
                                const std::vector<bool>& has_come) {
  for (unsigned peer = 0; peer < size; ++peer) {
    if (has_come[peer] || !left_[peer]) continue;
    record_failure(peer, fmt::format("rank {} has left the group, and rank {} waits for it in {}",
                                     peer, rank, what));
    throw_failure();
  }
}

void SharedRanks::post(unsigned rank, std::uint64_t number, Post post) {
  const std::lock_guard lock{mutex_};
  throw_failure();
  Round& round = rounds_[number];
  round.posts.resize(size);
  for (unsigned peer = 0; peer < size; ++peer) {
    if (round.posts[peer]) check_alike(rank, peer, post.what, round.posts[peer]->what);
  }
  round.posts[rank] = std::move(post);
  executor.released(this);
  changed_->notify_all();
}

std::vector<SharedRanks::Bytes> SharedRanks::take(unsigned rank, std::uint64_t number) {
  std::unique_lock lock{mutex_};
  Round& round = rounds_.at(number);
  const auto come = [&] {
    std::vector<bool> has_come;
    for (const auto& post : round.posts) has_come.push_back(post.has_value());
    return has_come;
  };
  while (!std::ranges::all_of(round.posts, [](const auto& post) { return post.has_value(); })) {
    throw_failure();
    check_missing(rank, round.posts[rank]->what, come());
    changed_->wait(lock);
  }
  executor.acquired(this);
  std::vector<Bytes> mine;
  for (auto& post : round.posts) mine.push_back(std::move(post->blocks[rank]));
  if (++round.taken == size) rounds_.erase(number);
  return mine;
}

std::shared_ptr<Meeting> SharedRanks::join(unsigned rank, std::uint64_t number, const Part& part,
                                           const Meeting::Effect& effect) {
  const std::lock_guard lock{mutex_};
  throw_failure();
  const auto [entry, is_new] = operations_.try_emplace(number);
  DeviceOperation& operation = entry->second;
  if (is_new) {
    operation.meeting = machine->make_meeting(size, options.cost_only ? nullptr : effect);
    operation.joined.resize(size);
    operation.sends.resize(size);
    operation.receives.resize(size);
  }
  for (unsigned peer = 0; peer < size; ++peer) {
    if (!operation.joined[peer]) continue;
    check_alike(rank, peer, part.what, *operation.joined[peer]);
    const auto check_bytes = [&](unsigned from, unsigned to, std::size_t sent, std::size_t room) {
      if (sent == room) return;
      record_failure(rank, fmt::format("{}: rank {} sends {} bytes to rank {}, which expects {}",
                                       part.what, from, sent, to, room));
      throw_failure();
    };
    // Checks both directions, because only the last rank sees the sizes of both sides.
    check_bytes(rank, peer, part.sends[peer], operation.receives[peer][rank]);
    check_bytes(peer, rank, operation.sends[peer][rank], part.receives[peer]);
  }
  std::vector<bool> has_come(size, false);
  for (unsigned peer = 0; peer < size; ++peer) has_come[peer] = operation.joined[peer].has_value();
  check_missing(rank, part.what, has_come);

  operation.joined[rank] = part.what;
  operation.sends[rank] = part.sends;
  operation.receives[rank] = part.receives;
  std::shared_ptr<Meeting> meeting = operation.meeting;
  if (std::ranges::all_of(operation.joined, [](const auto& it) { return it.has_value(); })) {
    operations_.erase(entry);
  }
  return meeting;
}

namespace {

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<SharedRanks> ranks, unsigned rank)
      : ranks_(std::move(ranks)), rank_(rank) {}
  ~ThreadTransport() override {
    // This rank makes no further call; the others must not wait for one.
    if (std::uncaught_exceptions() > exceptions_) ranks_->fail(rank_, "an exception ended it");
    ranks_->leave(rank_);
  }

  std::unique_ptr<PendingBlocks> start(const char* what, const Blocks& blocks) override {
    SharedRanks::Post post{what, {}};
    for (const auto& sent : blocks.sends) post.blocks.emplace_back(sent.begin(), sent.end());
    ranks_->post(rank_, next_, std::move(post));
    return std::make_unique<Pending>(*this, what, next_++, blocks.receives);
  }

  void fail(const std::string& why) noexcept override { ranks_->fail(rank_, why); }
  void check() override { ranks_->check(); }

 private:
  class Pending final : public PendingBlocks {
   public:
    Pending(ThreadTransport& transport, const char* what, std::uint64_t number,
            std::vector<std::span<std::byte>> receives)
        : ranks_(transport.ranks_),
          rank_(transport.rank_),
          what_(what),
          number_(number),
          receives_(std::move(receives)) {}

    void wait() override {
      const std::vector<SharedRanks::Bytes> blocks = ranks_->take(rank_, number_);
      for (unsigned from = 0; from < blocks.size(); ++from) {
        if (blocks[from].size() != receives_[from].size()) {
          ranks_->fail(rank_,
                       fmt::format("{}: rank {} sends {} bytes to rank {}, which expects {}", what_,
                                   from, blocks[from].size(), rank_, receives_[from].size()));
          ranks_->check();
        }
        std::ranges::copy(blocks[from], receives_[from].begin());
      }
    }

   private:
    const std::shared_ptr<SharedRanks> ranks_;
    const unsigned rank_;
    const char* const what_;
    const std::uint64_t number_;
    const std::vector<std::span<std::byte>> receives_;
  };

  const std::shared_ptr<SharedRanks> ranks_;
  const unsigned rank_;
  const int exceptions_ = std::uncaught_exceptions();
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_thread_transport(std::shared_ptr<SharedRanks> ranks,
                                                 unsigned rank) {
  return std::make_unique<ThreadTransport>(std::move(ranks), rank);
}

}  // namespace millrace::collective
