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

/** @brief A row of the table: the figures of one replay, or why it has none. */
struct ReplayRow {
  std::string name;  ///< "torch", "torch, empty start", "millrace"
  std::string allocator;
  ReplayStart start = ReplayStart::live_blocks;
  std::optional<ReplayReport> report;
  std::string failure;  ///< why the row ran out of memory; "" if it has figures

  [[nodiscard]] bool ok() const noexcept { return report.has_value(); }
};

/** @brief One device of a file. */
struct ReplayedDevice {
  std::uint32_t device = 0;
  ReplayMemory memory;                ///< for all rows with an empty start
  std::optional<DriverModel> driver;  ///< of the driver's pool; only in Millrace's traces
  std::optional<WhatIf> what_if;      ///< if it was requested
  std::vector<ReplayRow> rows;

  /** @brief The first row with figures; nullptr if there is none. */
  [[nodiscard]] const ReplayReport* any() const;
  /** @return nullptr if the row does not exist or ran out of memory */
  [[nodiscard]] const ReplayReport* find(std::string_view allocator, ReplayStart start) const;
};

struct ReplayedFile {
  std::string file;
  trace::TraceFormat format = trace::TraceFormat::lifetimes;
  std::vector<std::string> warnings;
  std::vector<ReplayedDevice> devices;
};

/** @brief Receives the trace of a replay that starts with the live blocks, and the names of its
 *         streams. If a row runs again, it receives the later trace as well. */
using ReplayTraced = std::function<void(const std::string& allocator, std::uint32_t device,
                                        const AllocationTrace& trace,
                                        const std::map<StreamId, std::string>& streams)>;

/** @brief Options of `replay_devices`. */
struct ReplayRequest {
  std::vector<std::string> allocators;
  std::size_t device_bytes = 0;  ///< 0: the size in the log; no limit if the log has none
  bool snapshots = false;        ///< whether reports include a snapshot
  bool what_if = false;          ///< whether devices of a trace in Millrace's format get a WhatIf
  ReplayTraced traced{};         ///< if set, blocks have the sites of their requests as tags
};

/** @brief The devices of all events of a log. */
[[nodiscard]] std::set<std::uint32_t> devices_of(const trace::AllocationLog& log);

/**
 * @brief Replays every device of a log.
 *
 * For a PyTorch snapshot, `torch` has two rows. The first starts with the memory that PyTorch held,
 * and its decisions are compared with PyTorch's. The second starts empty, as do the other
 * allocators. For a trace in Millrace's format the driver's pool is modeled.
 */
[[nodiscard]] std::vector<ReplayedDevice> replay_devices(const trace::AllocationLog& log,
                                                         const ReplayRequest& request);

}  // namespace millrace::cli
