#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "millrace/device/device.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/ordering/adaptive_mutex.hpp"
#include "millrace/ordering/ledger.hpp"
#include "ordering/stable_table.hpp"

namespace millrace {

/** @brief The stream in one slot of the ledger, as OrderedDevice knows it. */
struct KnownStream {
  std::atomic<std::uint32_t> generation{0};  // of the stream; 0: no stream
  std::atomic<bool> attached{false};
  std::atomic<void*> handle{nullptr};
  std::atomic<bool> owes_mark{false};
  std::atomic<bool> wanted_mark{false};  // of a raw stream: its next call records it
  std::atomic<unsigned> captured{0};     // number of captures; changes under `recording`
  std::uint64_t driver_id = 0;
  std::string name;

  /** Held while any thread records a marker on the stream, so that it is not detached meanwhile. */
  Mutex recording;
  PendingRecord record;             // under `recording`
  bool owes_after_capture = false;  // under `recording`
};

/**
 * @brief The streams of a device, by slot, by the driver's stream id, and raw ones by handle.
 *
 * A search by StreamId takes no lock. Closing a stream removes it, and the slot's next stream
 * reuses its entry.
 */
class StreamTable {
 public:
  /** @param per_thread  the handle that means another stream on each thread */
  StreamTable(Ledger& ledger, StreamHandle per_thread) : ledger_(ledger), per_thread_(per_thread) {}

  /** @brief Returns the stream; nullptr if it was closed. The entry itself never moves. */
  [[nodiscard]] KnownStream* find(StreamId stream) const noexcept {
    KnownStream* known = streams_.find(stream.slot);
    return known != nullptr && known->generation == stream.generation ? known : nullptr;
  }

  [[nodiscard]] bool attached(StreamId stream) const noexcept;
  /** @brief Returns the handle of an attached stream; std::nullopt for any other stream. */
  [[nodiscard]] std::optional<StreamHandle> handle(StreamId stream) const noexcept;
  [[nodiscard]] std::string name(StreamId stream) const;

  /**
   * @brief Returns the stream with this driver id. Opens a raw stream with `handle` if it is
   *        unknown.
   */
  StreamId resolve(StreamHandle handle, std::uint64_t driver_id, bool legacy);
  /**
   * @brief Opens a stream whose id cannot be queried yet. After a query, the handle names another
   *        StreamId; this one stays open.
   */
  StreamId resolve_unasked(StreamHandle handle);
  /** @brief Returns the stream that had this handle last, if any. */
  [[nodiscard]] std::optional<StreamId> last_known(StreamHandle handle) const;
  [[nodiscard]] bool is(StreamId stream, std::uint64_t driver_id) const;

  /** @throws std::invalid_argument if it is attached already */
  StreamId attach(StreamHandle handle, std::uint64_t driver_id, const StreamTraits& traits,
                  std::string name);
  /** @brief Opens a stream that the driver does not know. */
  StreamId open_nominal(std::string name);
  void close(StreamId stream, Marker last);

 private:
  StreamId open(StreamHandle handle, std::uint64_t driver_id, const StreamTraits& traits);
  void close_locked(StreamId stream, Marker last);
  void forget_former(StreamHandle handle, std::uint64_t driver_id);

  Ledger& ledger_;
  const StreamHandle per_thread_;
  std::uint64_t unasked_ = 0;  ///< number of streams that were resolved without the driver
  mutable AdaptiveMutex mutex_;
  ordering::StableTable<KnownStream> streams_;
  std::unordered_map<std::uint64_t, StreamId> by_driver_id_;
  std::unordered_map<void*, StreamId> raw_;  // by handle
};

}  // namespace millrace
