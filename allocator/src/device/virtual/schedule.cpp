#include "device/virtual/schedule.hpp"

#include <fmt/format.h>

#include "device/virtual/device_model.hpp"
#include "device/virtual/meeting_state.hpp"

namespace millrace::simulation {

std::string Schedule::explain(const Actor& actor) const {
  for (const auto& item : actor.awaited) {
    if (item->done()) continue;
    const WorkItem& first = *item->stream->queue.front();
    if (first.kind == WorkItem::Kind::gate && !first.open) {
      return fmt::format(" (a gate on stream {} is not open)", item->stream->name);
    }
    const std::string_view alone =
        first.meeting != nullptr && !first.meeting->complete() ? ", and others have not come" : "";
    return fmt::format(" ({} is first on stream {}{})", first.name, item->stream->name, alone);
  }
  return "";
}

}  // namespace millrace::simulation
