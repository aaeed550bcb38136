#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "device/virtual/device_model.hpp"
#include "device/virtual/machine.hpp"
#include "device/virtual/meeting_state.hpp"
#include "device/virtual/random.hpp"
#include "device/virtual/schedule.hpp"

namespace millrace::simulation {
namespace {

constexpr unsigned kPatience = 64;      // queries in a row that may answer "not complete"
constexpr unsigned kLongestTurn = 256;  // checkpoints in a row for one actor

/** For each stream, the sequence number up to which its work must run. */
using Needed = std::map<StreamState*, std::uint64_t>;

/**
 * Device work runs only when an actor must wait for it, and then only the work that this wait
 * needs. Among the streams that can go on, the one with the highest rank does. A stream's rank is
 * drawn at its first use. At change points the running stream drops below all others. With
 * three of four seeds, one stream is starved: its rank is lower still.
 */
class AdversarialSchedule final : public Schedule {
 public:
  AdversarialSchedule(Machine& machine, std::uint64_t seed)
      : machine_(machine), random_(seed), seed_(seed) {
    starves_ = !random_.chance(1, 4);
    switches_in_16_ = random_.below(3) * 4;
    const std::uint64_t query_moods[] = {0, 1, 2, 8};
    eager_in_8_ = query_moods[random_.below(4)];
    longest_gap_ = std::uint64_t{4} << random_.below(6);
    plan_change();
  }

  Actor* next(Actor& running) override {
    for (;;) {
      const std::vector<Actor*> candidates = all_candidates();
      if (candidates.empty()) return nullptr;
      Actor* const chosen =
          goes_on(running, candidates) ? &running : candidates[random_.below(candidates.size())];
      if (chosen->state == Actor::State::ready) return chosen;
      if (!force(*chosen)) chosen->stuck_at = progress_;
    }
  }

  void submitted(StreamState& stream) override {
    if (stream.queue.back()->meeting != nullptr) ++progress_;
    if (stream.first_use != 0) return;
    stream.first_use = ++streams_used_;
    stream.rank = static_cast<std::int64_t>(random_.next() >> 2);
  }

  void opened(WorkItem&) override { ++progress_; }

  void canceled(MeetingState&) override { ++progress_; }

  void called_back(WorkItem& item, Nanoseconds when) override {
    now_ = std::max(now_, when);
    end(item);
  }

  bool answer(Items items) override {
    if (all_done(items)) return true;
    if (!random_.chance(eager_in_8_, 8) && ++unanswered_ < kPatience) return false;
    unanswered_ = 0;
    const Needed needed = ancestors(items);
    while (!all_done(items) && run_one(needed)) {
    }
    return all_done(items);
  }

 private:
  static bool all_done(Items items) {
    return std::all_of(items.begin(), items.end(), [](const auto& item) { return item->done(); });
  }

  bool goes_on(const Actor& running, const std::vector<Actor*>& candidates) {
    if (running.state != Actor::State::ready) return false;
    if (candidates.size() == 1) return true;
    if (++uninterrupted_ < kLongestTurn && !random_.chance(switches_in_16_, 16)) return true;
    uninterrupted_ = 0;
    return false;
  }

  std::vector<Actor*> all_candidates() const {
    std::vector<Actor*> candidates;
    for (Actor* actor : machine_.actors.live()) {
      const bool waits_for_device = !actor->awaited.empty() || actor->room_on != nullptr;
      if (actor->state == Actor::State::ready ||
          (waits_for_device && actor->stuck_at != progress_)) {
        candidates.push_back(actor);
      }
    }
    return candidates;
  }

  /** Runs work until the actor's wait is over. @return false if no work could run */
  bool force(const Actor& actor) {
    bool ran = false;
    if (actor.room_on != nullptr) {
      const Needed everything = ancestors(actor.room_on->last_items());
      while (actor.state == Actor::State::blocked && run_one(everything)) ran = true;
      return ran;
    }
    const Needed needed = ancestors(actor.awaited);
    while (actor.state == Actor::State::blocked && run_one(needed)) ran = true;
    return ran;
  }

  /** Returns, for each stream, the last item that must run before all of `items` can end. */
  static Needed ancestors(Items items) {
    Needed needed;
    std::vector<const WorkItem*> open;
    for (const auto& item : items) open.push_back(item.get());
    while (!open.empty()) {
      const WorkItem& item = *open.back();
      open.pop_back();
      if (item.done()) continue;
      std::uint64_t& upto = needed[item.stream];
      const auto& queue = item.stream->queue;
      const std::uint64_t first = queue.front()->sequence;
      for (std::uint64_t at = std::max(first, upto + 1); at <= item.sequence; ++at) {
        for (const auto& before : queue[at - first]->after) open.push_back(before.get());
        for (const WorkItem* part : met_by(*queue[at - first])) open.push_back(part);
      }
      upto = std::max(upto, item.sequence);
    }
    return needed;
  }

  /** Returns the other parts of the item's meeting that were launched so far. */
  static std::vector<const WorkItem*> met_by(const WorkItem& item) {
    std::vector<const WorkItem*> others;
    if (item.meeting == nullptr || item.meeting->canceled) return others;
    for (const MeetingState::Part& part : item.meeting->parts) {
      if (part.item != nullptr && part.item.get() != &item) others.push_back(part.item.get());
    }
    return others;
  }

  static bool at_head(const WorkItem& item) {
    return item.stream->queue.front().get() == &item && all_done(item.after);
  }

  static bool runnable(const WorkItem& item) {
    if (item.phase != WorkItem::Phase::queued) return false;  // a callback on the host
    if (item.kind == WorkItem::Kind::gate && !item.open) return false;
    if (item.meeting != nullptr && !item.meeting->canceled) {
      const auto others = met_by(item);
      if (!item.meeting->complete() ||
          !std::ranges::all_of(others, [](const WorkItem* part) { return at_head(*part); })) {
        return false;
      }
    }
    return all_done(item.after);
  }

  /** Returns the stream's rank; the lowest one for the stream that this seed starves. */
  std::int64_t rank(const StreamState& stream) const {
    const bool starved = starves_ && stream.first_use == 1 + seed_ % streams_used_;
    return starved ? std::numeric_limits<std::int64_t>::min() : stream.rank;
  }

  bool run_one(const Needed& needed) {
    StreamState* best = nullptr;
    for (const auto& [stream, upto] : needed) {
      if (stream->queue.empty() || stream->queue.front()->sequence > upto) continue;
      if (!runnable(*stream->queue.front())) continue;
      if (best == nullptr ||
          std::pair(rank(*stream), best->id) > std::pair(rank(*best), stream->id)) {
        best = stream;
      }
    }
    if (best == nullptr) return false;
    run(best->queue.front());
    if (--until_change_ == 0) {
      best->rank = --lowest_rank_;
      plan_change();
    }
    return true;
  }

  void run(const std::shared_ptr<WorkItem>& item) {
    ++progress_;
    now_ = std::max(now_, item->ready_from);
    if (item->kind == WorkItem::Kind::callback) {
      item->phase = WorkItem::Phase::scheduled;
      machine_.call_back(item, now_);
      return;
    }
    if (item->meeting != nullptr && !item->meeting->canceled) return meet(item->meeting);
    machine_.begin(*item, now_);
    now_ += item->demand.alone();
    end(*item);
  }

  void meet(std::shared_ptr<MeetingState> meeting) {
    for (const MeetingState::Part& part : meeting->parts) {
      now_ = std::max(now_, part.item->ready_from);
    }
    machine_.begin(*meeting, now_);
    now_ += meeting->duration();
    machine_.end(*meeting, now_);
  }

  void end(WorkItem& item) {
    ++progress_;
    machine_.end(item, now_);
  }

  void plan_change() { until_change_ = 1 + random_.below(longest_gap_); }

  Machine& machine_;
  Random random_;
  std::uint64_t seed_;
  bool starves_;
  std::uint64_t switches_in_16_;
  std::uint64_t eager_in_8_;
  std::uint64_t longest_gap_;
  std::uint64_t until_change_ = 0;
  std::uint64_t streams_used_ = 0;
  std::int64_t lowest_rank_ = 0;
  std::uint64_t progress_ = 1;
  unsigned unanswered_ = 0;
  unsigned uninterrupted_ = 0;
  Nanoseconds now_{0};
};

}  // namespace

std::unique_ptr<Schedule> make_adversarial_schedule(Machine& machine, std::uint64_t seed) {
  return std::make_unique<AdversarialSchedule>(machine, seed);
}

}  // namespace millrace::simulation
