#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"

namespace millrace {

/** @brief Keeps rows in the memory of this process: for tests and inspection. Thread-safe. */
class MemorySink final : public Sink {
 public:
  [[nodiscard]] std::string name() const override { return "memory"; }
  [[nodiscard]] SinkState state() override;
  void begin(const StreamSchema& schema) override;
  void write(const StepBatch& batch, std::string_view position = {}) override;
  void flush() override {}
  void read(const std::function<void(const RowRecord&)>& visit) override;
  [[nodiscard]] bool list_rows(
      const std::function<void(std::uint32_t table, std::int64_t row)>& visit) override;
  /** @brief Removes a row, like a server that evicts rows: for tests of what finds such a loss. */
  void forget(std::uint32_t table, std::int64_t row);

 private:
  using Key = std::pair<std::uint32_t, std::int64_t>;  ///< table, row

  std::mutex mutex_;
  SinkState state_;
  std::map<Key, std::vector<std::byte>> rows_;  ///< a record for each row
};

}  // namespace millrace
