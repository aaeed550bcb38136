#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/nccl/api.hpp"
#include "millrace/device/device.hpp"
#include "millrace/pipeline/collective/rendezvous.hpp"

namespace millrace::collective {

/**
 * @brief The communicators of one rank, one for each stream, and a thread that watches their
 *        operations. The first error aborts all of them.
 *
 * Operations of all communicators run in the order of their launches, which is the same on all
 * ranks: if two ranks began two operations in different orders, each could hold the device while it
 * waits for the other.
 */
class NcclCommunicators {
 public:
  /** @param gpu  the GPU of `device` */
  NcclCommunicators(const NcclApi& api, Device& device, int gpu, Rendezvous& rendezvous,
                    std::chrono::milliseconds time_out);
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  /** @brief Enqueues `operation`, whose `cuda` is `enqueue`, with the communicator of `stream`. */
  template <typename Enqueue>
  void launch(Operation operation, StreamHandle stream, Enqueue enqueue) {
    const Use use{*this, stream};
    const std::string name = operation.name;
    operation.cuda = [this, &use, enqueue, &name](void* native) {
      // Without the lock: setting up a connection may block, and the watching thread needs the lock
      // to abort it.
      api_.check(api_.group_start(), "ncclGroupStart");
      enqueue(api_, use.of.comm, native);
      api_.check(api_.group_end(), name.c_str());
    };
    device_.launch(std::move(operation), stream);
    watch(use.of, name, stream);
  }

  void register_memory(void* data, std::size_t bytes);
  void fail(const std::string& why) noexcept;
  void check();

 private:
  struct Registered {
    void* data;
    std::size_t bytes;
  };
  struct UnderWay {
    std::string name;
    EventHandle end;
    std::chrono::steady_clock::time_point since;
  };
  struct Communicator {
    NcclApi::Comm comm = nullptr;
    std::uint64_t stream_id = 0;  ///< the driver's id, since handles are reused
    std::deque<UnderWay> under_way;
    std::vector<void*> handles;  ///< handles of memory registered with it
    bool in_use = false;         ///< whether the launching thread is in a call with it
    bool aborted = false;
  };
  /**
   * @brief While this exists, the watching thread aborts its communicator only if an NCCL call
   * hangs.
   */
  struct Use {
    Use(NcclCommunicators& all, StreamHandle stream);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    NcclCommunicators& all;
    Communicator& of;
  };

  /**
   * @brief Returns the stream's communicator, marked as in use. Makes it if necessary.
   * @throws CollectiveError
   */
  [[nodiscard]] Communicator& enter(StreamHandle stream);
  [[nodiscard]] NcclApi::Comm make(StreamHandle stream);
  void leave(Communicator& communicator);
  void order_after_last(Communicator& communicator, StreamHandle stream);
  void register_with(Communicator& communicator, const Registered& memory);
  void watch(Communicator& communicator, const std::string& name, StreamHandle stream);
  void look_after();
  void look();
  void look_at_operations(std::deque<UnderWay>& operations);
  void abort(Communicator& communicator);
  void abort_all(Rendezvous::Failure failure);
  void abort_those_that_hang();
  void throw_failure() const;

  const NcclApi& api_;
  Device& device_;
  const int gpu_;
  Rendezvous& rendezvous_;
  const std::chrono::milliseconds time_out_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  ///< in order of creation
  Communicator* last_ = nullptr;                              ///< communicator of the last launch
  std::vector<Registered> registered_;
  std::optional<Rendezvous::Failure> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  bool ending_ = false;
  std::thread looks_after_;
};

}  // namespace millrace::collective
