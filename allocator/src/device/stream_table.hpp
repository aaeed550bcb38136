#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "millrace/device/device.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/ordering/ledger.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

/** @brief What is known of the stream in one slot of the ledger. */
struct KnownStream {
  std::atomic<std::uint32_t> generation{0};  // of the stream; 0: none
  std::atomic<bool> attached{false};
  std::atomic<void*> handle{nullptr};
  std::atomic<bool> owes_mark{false};
  std::atomic<bool> wanted_mark{false};  // of a raw one: the next call that is given it records it
  std::atomic<unsigned> captured{0};     // number of captures; changes under `recording`
  std::uint64_t driver_id = 0;
  std::string name;

  /** Held while a marker is recorded there, by whomever: until then the stream is not let go. */
  Mutex recording;
  PendingRecord record;             // under `recording`
  bool owes_after_capture = false;  // under `recording`
};

/**
 * @brief The streams of a device, by slot, by the driver's stream id, and raw ones by handle.
 *
 * Looking up by StreamId takes no lock. A stream is forgotten when it is closed, and its entry
 * serves the slot's next one.
 */
class StreamTable {
 public:
  /** @param per_thread  a handle that is another stream on each thread */
  StreamTable(Ledger& ledger, StreamHandle per_thread) : ledger_(ledger), per_thread_(per_thread) {}

  /** @brief nullptr if the stream is not there any more. It stays in place in any case. */
  [[nodiscard]] KnownStream* find(StreamId stream) const noexcept {
    KnownStream* known = streams_.find(stream.slot);
    return known != nullptr && known->generation == stream.generation ? known : nullptr;
  }

  [[nodiscard]] bool attached(StreamId stream) const noexcept;
  /** @brief The handle of an attached stream. */
  [[nodiscard]] std::optional<StreamHandle> handle(StreamId stream) const noexcept;
  [[nodiscard]] std::string name(StreamId stream) const;

  /** @brief The stream of this driver id, known as `handle`, opened if need be as a raw one. */
  StreamId resolve(StreamHandle handle, std::uint64_t driver_id, bool legacy);
  /** @brief A stream whose id the driver cannot be asked for yet. Once it is, the handle's stream
   * is another one; this one stays. */
  StreamId resolve_unasked(StreamHandle handle);
  /** @brief The stream that last had this handle, if any. */
  [[nodiscard]] std::optional<StreamId> last_known(StreamHandle handle) const;
  [[nodiscard]] bool is(StreamId stream, std::uint64_t driver_id) const;

  /** @throws std::invalid_argument if it is attached already */
  StreamId attach(StreamHandle handle, std::uint64_t driver_id, const StreamTraits& traits,
                  std::string name);
  /** @brief One that the driver does not know. */
  StreamId open_nominal(std::string name);
  void close(StreamId stream, Marker last);

 private:
  StreamId open(StreamHandle handle, std::uint64_t driver_id, const StreamTraits& traits);
  void close_locked(StreamId stream, Marker last);
  void forget_former(StreamHandle handle, std::uint64_t driver_id);

  Ledger& ledger_;
  const StreamHandle per_thread_;
  std::uint64_t unasked_ = 0;  ///< streams that were resolved without the driver
  mutable std::mutex mutex_;
  ordering::StableTable<KnownStream> streams_;
  std::unordered_map<std::uint64_t, StreamId> by_driver_id_;
  std::unordered_map<void*, StreamId> raw_;  // by handle
};

}  // namespace millrace
