#include "device/virtual/meeting_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "device/virtual/machine.hpp"

namespace millrace {

Meeting::Meeting(std::shared_ptr<simulation::MeetingState> state) : state_(std::move(state)) {}
Meeting::~Meeting() = default;

unsigned Meeting::parties() const noexcept { return static_cast<unsigned>(state_->parts.size()); }
std::uint64_t Meeting::serial() const noexcept { return state_->serial; }
bool Meeting::met() const noexcept { return state_->begun; }
bool Meeting::canceled() const noexcept { return state_->canceled; }
void Meeting::cancel() { state_->cancel(); }

namespace simulation {
namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> meetings{0};
  return ++meetings;
}

[[noreturn]] void refuse(const WorkItem& item, const std::string& why) {
  throw DeviceError(ErrorCode::invalid_argument, to_string(Call::launch), item.name + ": " + why);
}

}  // namespace

MeetingState::MeetingState(Machine& of, unsigned parties, Meeting::Effect on_data)
    : machine(of), serial(next_serial()), parts(parties), effect(std::move(on_data)) {}

void MeetingState::add(unsigned party, const std::shared_ptr<WorkItem>& item, DeviceModel& device,
                       PlacedViews views) {
  if (&device.machine != &machine) refuse(*item, "the meeting is of another machine");
  if (party >= parts.size()) {
    refuse(*item, fmt::format("party {} of a meeting of {}", party, parts.size()));
  }
  if (parts[party].item != nullptr) refuse(*item, fmt::format("party {} is there", party));
  data = data && device.data;
  parts[party] = {item, false, std::move(views)};
  ++come;
}

bool MeetingState::all_at_head() const {
  return std::ranges::all_of(parts, [](const Part& part) { return part.at_head; });
}

Nanoseconds MeetingState::duration() const {
  Nanoseconds longest{0};
  for (const Part& part : parts) longest = std::max(longest, part.item->demand.alone());
  return longest;
}

void MeetingState::take_effect() {
  const Meeting::Effect on_data = std::exchange(effect, nullptr);
  if (!on_data || !data) return;
  PlacedViews views;
  for (const Part& part : parts) views.insert(views.end(), part.views.begin(), part.views.end());
  std::string why;
  try {
    with_access(views, [&](std::span<const std::span<std::byte>> all) {
      std::vector<KernelContext> parties;
      for (const Part& part : parts) {
        parties.emplace_back(all.first(part.views.size()));
        all = all.subspan(part.views.size());
      }
      on_data(parties);
    });
    return;
  } catch (const std::exception& error) {
    why = fmt::format("{}: {}", parts.front().item->name, error.what());
  } catch (...) {
    why = parts.front().item->name + " threw";
  }
  for (const Part& part : parts) part.item->stream->device->lose(why);
}

void MeetingState::cancel() {
  if (begun || std::exchange(canceled, true)) return;
  effect = nullptr;
  machine.schedule->canceled(*this);
}

}  // namespace simulation
}  // namespace millrace
