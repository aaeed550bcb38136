#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
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
 * @brief The communicators of one rank, one for each stream, and a thread that looks after what is
 *        under way on them. The first thing that goes wrong aborts all.
 */
class NcclCommunicators {
 public:
  NcclCommunicators(const NcclApi& api, Device& device, Rendezvous& rendezvous,
                    std::chrono::milliseconds time_out);
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  /** @brief Enqueues `operation`, whose `cuda` is `enqueue`, with the communicator of `stream`. */
  template <typename Enqueue>
  void launch(Operation operation, StreamHandle stream, Enqueue enqueue) {
    const NcclApi::Comm comm = communicator(stream);
    const std::string name = operation.name;
    operation.cuda = [this, comm, enqueue, &name](void* native) {
      // Not with the lock: setting up a connection may block, and must be there to be aborted.
      api_.check(api_.group_start(), "ncclGroupStart");
      enqueue(api_, comm, native);
      api_.check(api_.group_end(), name.c_str());
    };
    device_.launch(std::move(operation), stream);
    watch(name, stream);
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

  [[nodiscard]] NcclApi::Comm communicator(StreamHandle stream);
  void register_with(NcclApi::Comm comm, const Registered& memory);
  void watch(const std::string& name, StreamHandle stream);
  void look_after();
  void look();
  void look_at_operations(std::deque<UnderWay>& operations);
  void abort_all(Rendezvous::Failure failure);
  void throw_failure() const;

  const NcclApi& api_;
  Device& device_;
  Rendezvous& rendezvous_;
  const std::chrono::milliseconds time_out_;
  std::mutex mutex_;
  std::map<void*, NcclApi::Comm> communicators_;     ///< by stream
  std::map<void*, std::deque<UnderWay>> under_way_;  ///< by stream
  std::vector<Registered> registered_;
  std::vector<std::pair<NcclApi::Comm, void*>> handles_;  ///< of what is registered with whom
  std::optional<Rendezvous::Failure> failure_;
  bool ending_ = false;
  std::thread looks_after_;
};

}  // namespace millrace::collective
