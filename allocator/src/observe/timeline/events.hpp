#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/timeline.hpp"

namespace millrace::timeline {

/** @brief Strings that are used often, each stored once. */
class Names {
 public:
  std::uint32_t add(std::string_view name);
  [[nodiscard]] const std::string& operator[](std::uint32_t index) const { return *names_[index]; }

 private:
  std::map<std::string, std::uint32_t, std::less<>> indices_;
  std::vector<const std::string*> names_;
};

struct StreamTrack {
  unsigned device = 0;
  std::uint64_t id = 0;
  std::uint32_t name = 0;
  Nanoseconds last_end{0};
};

/** @brief A track of an engine. An engine that runs several operations at once has several. */
struct EngineTrack {
  unsigned device = 0;
  Engine engine = Engine::compute;
  std::size_t lane = 0;
  Nanoseconds last_end{0};
};

struct OperationEvent {
  std::uint64_t index = 0;
  std::uint32_t name = 0;
  std::uint32_t stream = 0;  ///< index into Events::streams
  std::uint32_t engine = 0;  ///< index into Events::engines; kNoEngine
  Nanoseconds enqueued{0}, begin{0}, end{0}, alone{0};
  Nanoseconds stands_since{0};  ///< for a wait: when its stream had finished its earlier work
  std::size_t bytes = 0;        ///< bytes of all views
  Cost cost;
};

inline constexpr std::uint32_t kNoEngine = ~std::uint32_t{0};

/** @brief An arrow from the end of an operation to another that waited for it: positions in
 *         operations. */
struct ArrowEvent {
  std::uint32_t from = 0, to = 0;
};

struct HostEvent {
  std::uint32_t thread = 0;  ///< index into Events::threads
  Call call = Call::count_;
  Nanoseconds begin{0}, end{0};
};

struct Sample {
  std::uint32_t memory = 0;  ///< index into Events::memories
  Nanoseconds when{0};
  std::size_t reserved = 0, active = 0, stranded = 0;
};

struct MemoryTrack {
  std::string name;
  bool knows_stranded = false;
};

/** @brief The events that a timeline keeps, in order of arrival; limited in number. */
class Events {
 public:
  explicit Events(std::size_t most) : most_(most) {}

  void add(const ExecutedOperation& operation);
  void add(const HostEvent& call);
  /** @brief Adds a sample, unless it equals the last one of its memory. */
  void add(const Sample& sample);
  std::uint32_t add_thread(std::string_view name);
  std::uint32_t add_memory(MemoryTrack memory);

  [[nodiscard]] std::uint64_t kept() const noexcept { return kept_; }
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }
  [[nodiscard]] Nanoseconds latest() const noexcept { return latest_; }

  Names names;
  std::vector<StreamTrack> streams;
  std::vector<EngineTrack> engines;
  std::vector<std::string> threads;
  std::vector<MemoryTrack> memories;
  std::vector<OperationEvent> operations;
  std::vector<ArrowEvent> arrows;
  std::vector<HostEvent> calls;
  std::vector<Sample> samples;
  std::map<unsigned, std::string> devices;  ///< names, by ordinal

 private:
  [[nodiscard]] bool room();
  std::uint32_t stream_of(const ExecutedOperation& operation);
  std::uint32_t engine_of(const ExecutedOperation& operation);

  std::size_t most_;
  std::uint64_t kept_ = 0, left_out_ = 0;
  Nanoseconds latest_{0};
  std::map<std::pair<unsigned, std::uint64_t>, std::uint32_t> stream_tracks_;
  std::map<std::pair<unsigned, Engine>, std::vector<std::uint32_t>> engine_tracks_;
  std::unordered_map<std::uint64_t, std::uint32_t> positions_;  ///< by index of the operation
  std::vector<Sample> last_;                                    ///< by memory
};

}  // namespace millrace::timeline
