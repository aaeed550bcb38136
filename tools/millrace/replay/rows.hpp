#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/replay_memory.hpp"
#include "millrace/observe/driver_model.hpp"
#include "millrace/observe/replay.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/what_if.hpp"

namespace millrace::cli {

/** @brief A row of the table: one replay, or why it has no figures. */
struct ReplayRow {
  std::string name;  ///< "torch", "torch, empty start", "millrace"
  std::string allocator;
  ReplayStart start = ReplayStart::live_blocks;
  std::optional<ReplayReport> report;
  std::string failure;  ///< how it ran out of memory; "" if there are figures

  [[nodiscard]] bool ok() const noexcept { return report.has_value(); }
};

/** @brief One device of a file. */
struct ReplayedDevice {
  std::uint32_t device = 0;
  ReplayMemory memory;                ///< of rows from an empty start, the same for all of them
  std::optional<DriverModel> driver;  ///< of the driver's pool; only a trace of Millrace's
  std::optional<WhatIf> what_if;      ///< if it was asked for
  std::vector<ReplayRow> rows;

  /** @brief The first row with figures; nullptr if there is none. */
  [[nodiscard]] const ReplayReport* any() const;
  /** @brief nullptr if there is no such row, or it ran out of memory. */
  [[nodiscard]] const ReplayReport* find(std::string_view allocator, ReplayStart start) const;
};

struct ReplayedFile {
  std::string file;
  trace::TraceFormat format = trace::TraceFormat::lifetimes;
  std::vector<std::string> warnings;
  std::vector<ReplayedDevice> devices;
};

/** @brief Gets the trace of a replay from live blocks, and the names of its streams. If a row runs
 *         again, it gets the later trace, too. */
using ReplayTraced = std::function<void(const std::string& allocator, std::uint32_t device,
                                        const AllocationTrace& trace,
                                        const std::map<StreamId, std::string>& streams)>;

/** @brief What `replay_devices` runs. */
struct ReplayRequest {
  std::vector<std::string> allocators;
  std::size_t device_bytes = 0;  ///< 0: the size in the log; without limit if the log has none
  bool snapshots = false;        ///< whether the reports have one
  bool what_if = false;          ///< whether devices of a trace of Millrace's have a WhatIf
  ReplayTraced traced{};         ///< blocks then have the sites of their requests as tags
};

/** @brief The devices that a log has events of. */
[[nodiscard]] std::set<std::uint32_t> devices_of(const trace::AllocationLog& log);

/**
 * @brief Replays every device of a log.
 *
 * For a PyTorch snapshot `torch` has two rows. One starts with the memory that PyTorch held, and
 * its decisions are compared with PyTorch's. The other starts empty, as the other allocators do.
 * A trace of Millrace's has a row for the driver's pool, which is modeled.
 */
[[nodiscard]] std::vector<ReplayedDevice> replay_devices(const trace::AllocationLog& log,
                                                         const ReplayRequest& request);

}  // namespace millrace::cli
