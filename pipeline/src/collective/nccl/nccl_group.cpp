#include "millrace/pipeline/collective/nccl_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "collective/nccl/communicators.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/device/stream.hpp"

namespace millrace {
namespace {

using collective::NcclApi;
using collective::NcclCommunicators;

double bytes_of(std::span<const View> views) {
  double sum = 0;
  for (const View& view : views) sum += static_cast<double>(view.bytes);
  return sum;
}

Operation declare(const char* name, std::vector<View> views) {
  Operation operation;
  operation.name = name;
  operation.cost.bytes = bytes_of(views);
  operation.views = std::move(views);
  return operation;
}

class Group final : public NcclGroup {
 public:
  Group(const NcclApi& api, OrderedDevice& device, int gpu, Rendezvous& rendezvous,
        const Options& options)
      : NcclGroup(rendezvous.rank(), rendezvous.size()),
        exceptions_(std::uncaught_exceptions()),
        device_(device.device()),
        stream_(device, {.name = "sizes"}, true),
        communicators_(api, device.device(), gpu, rendezvous, options.time_out) {}

  ~Group() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "nccl"; }
  void fail(const std::string& why) noexcept override { communicators_.fail(why); }
  void check() override { communicators_.check(); }
  void register_memory(void* data, std::size_t bytes) override {
    communicators_.register_memory(data, bytes);
  }

 private:
  struct SizeRoom;
  class Sizes;

  [[nodiscard]] std::unique_ptr<SizeRoom> size_room(std::size_t bytes);

  std::unique_ptr<PendingSizes> do_start_sizes(RankState state,
                                               std::span<const std::int64_t> values) override;
  void do_barrier() override { static_cast<void>(do_start_sizes(RankState::ok, {})->wait()); }
  void do_all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                     StreamRef stream) override;
  void do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) override;
  void do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) override;

  const int exceptions_;
  Device& device_;
  std::vector<std::unique_ptr<SizeRoom>> idle_, given_up_;
  Stream stream_;  ///< for exchanges of sizes
  NcclCommunicators communicators_;
};

/** Pinned memory, and device memory of twice its size for sending and receiving. */
struct Group::SizeRoom {
  SizeRoom(Device& of, std::size_t size) : device(of), bytes(size) {
    arrived = device.create_event();
    pinned = static_cast<std::int64_t*>(device.allocate_host(bytes));
    sent = static_cast<std::byte*>(device.allocate(2 * bytes));
  }
  ~SizeRoom() {
    try {
      device.destroy_event(arrived);
      if (sent != nullptr) device.free(sent);
      if (pinned != nullptr) device.free_host(pinned);
    } catch (const DeviceError&) {  // the device is lost, together with its memory
    }
  }
  SizeRoom(const SizeRoom&) = delete;
  SizeRoom& operator=(const SizeRoom&) = delete;

  Device& device;
  const std::size_t bytes;
  EventHandle arrived;
  std::int64_t* pinned = nullptr;
  std::byte* sent = nullptr;
};

/** Exchanges state and values: pinned memory to device memory, to the other ranks, and back. */
class Group::Sizes final : public PendingSizes {
 public:
  Sizes(Group& group, RankState state, std::span<const std::int64_t> values)
      : group_(group),
        width_(1 + values.size() / group.size()),
        room_(group.size_room(group.size() * width_ * sizeof(std::int64_t))) {
    for (unsigned to = 0; to < group.size(); ++to) {
      std::int64_t* const part = room_->pinned + to * width_;
      part[0] = static_cast<std::int64_t>(state);
      std::ranges::copy(values.subspan(to * (width_ - 1), width_ - 1), part + 1);
    }
    const std::size_t each = width_ * sizeof(std::int64_t), all = group.size() * each;
    std::byte* const received = room_->sent + room_->bytes;
    std::vector<SentBytes> sends;
    std::vector<ReceivedBytes> receives;
    for (unsigned peer = 0; peer < group.size(); ++peer) {
      sends.push_back({room_->sent + peer * each, each});
      receives.push_back({received + peer * each, each});
    }
    Device& device = group.device_;
    const StreamHandle stream = group.stream_.handle();
    device.copy(room_->sent, room_->pinned, all, CopyKind::host_to_device, stream);
    group.do_all_to_all(sends, receives, group.stream_);
    device.copy(room_->pinned, received, all, CopyKind::device_to_host, stream);
    device.record(room_->arrived, stream);
  }

  // Enqueued work may still use the memory. If the exchange has not ended, the memory is kept until
  // the group ends.
  ~Sizes() override {
    if (!waited_) group_.fail("an exchange of sizes was given up between its start and its wait");
    (arrived_ ? group_.idle_ : group_.given_up_).push_back(std::move(room_));
  }

  ExchangedSizes wait() override {
    waited_ = true;
    // Polls, because a wait of the driver would not end if another rank has failed.
    while (!group_.device_.query(room_->arrived)) {
      group_.check();
      std::this_thread::yield();
    }
    group_.check();
    arrived_ = true;
    ExchangedSizes sizes;
    for (unsigned from = 0; from < group_.size(); ++from) {
      const std::int64_t* const part = room_->pinned + from * width_;
      sizes.states.push_back(static_cast<RankState>(part[0]));
      sizes.values.insert(sizes.values.end(), part + 1, part + width_);
    }
    return sizes;
  }

 private:
  Group& group_;
  const std::size_t width_;
  std::unique_ptr<SizeRoom> room_;
  bool waited_ = false, arrived_ = false;
};

Group::~Group() {
  // During unwinding: this rank makes no further call, and the others must not wait for one.
  if (std::uncaught_exceptions() > exceptions_) fail("an exception ended it");
}

std::unique_ptr<Group::SizeRoom> Group::size_room(std::size_t bytes) {
  while (!idle_.empty()) {
    std::unique_ptr<SizeRoom> room = std::move(idle_.back());
    idle_.pop_back();
    if (room->bytes >= bytes) return room;
  }
  return std::make_unique<SizeRoom>(device_, bytes);
}

std::unique_ptr<PendingSizes> Group::do_start_sizes(RankState state,
                                                    std::span<const std::int64_t> values) {
  return std::make_unique<Sizes>(*this, state, values);
}

void Group::do_all_to_all(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives,
                          StreamRef stream) {
  std::vector<View> views;
  for (const SentBytes& block : sends) {
    views.push_back({const_cast<void*>(block.data), block.bytes, Access::read});
  }
  for (const ReceivedBytes& block : receives) {
    views.push_back({block.data, block.bytes, Access::write});
  }
  communicators_.launch(declare("all-to-all", std::move(views)), stream.handle(),
                        [&](const NcclApi& api, NcclApi::Comm comm, void* native) {
                          for (unsigned peer = 0; peer < size(); ++peer) {
                            const auto number = static_cast<int>(peer);
                            if (sends[peer].bytes > 0) {
                              api.check(api.send(sends[peer].data, sends[peer].bytes,
                                                 NcclApi::kUint8, number, comm, native),
                                        "ncclSend");
                            }
                            if (receives[peer].bytes > 0) {
                              api.check(api.recv(receives[peer].data, receives[peer].bytes,
                                                 NcclApi::kUint8, number, comm, native),
                                        "ncclRecv");
                            }
                          }
                        });
}

void Group::do_all_reduce_sum(float* data, std::size_t count, StreamRef stream) {
  if (count == 0) return;
  communicators_.launch(
      declare("all-reduce", {{data, count * sizeof(float), Access::read_write}}), stream.handle(),
      [&](const NcclApi& api, NcclApi::Comm comm, void* native) {
        api.check(api.all_reduce(data, data, count, NcclApi::kFloat32, NcclApi::kSum, comm, native),
                  "ncclAllReduce");
      });
}

void Group::do_broadcast(void* data, std::size_t bytes, unsigned root, StreamRef stream) {
  if (bytes == 0) return;
  const Access access = rank() == root ? Access::read : Access::write;
  communicators_.launch(declare("broadcast", {{data, bytes, access}}), stream.handle(),
                        [&](const NcclApi& api, NcclApi::Comm comm, void* native) {
                          api.check(api.broadcast(data, data, bytes, NcclApi::kUint8,
                                                  static_cast<int>(root), comm, native),
                                    "ncclBroadcast");
                        });
}

}  // namespace

void NcclGroup::prepare_process() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

std::unique_ptr<NcclGroup> NcclGroup::make(OrderedDevice& device, Rendezvous& rendezvous,
                                           const Options& options) {
  const NcclApi* const api = NcclApi::find();
  if (api == nullptr) {
    const NcclSupport support = nccl_support();
    throw std::runtime_error{fmt::format("{}: {}", support.problem, support.how_to_get)};
  }
  const auto* const gpu = dynamic_cast<const CudaDevice*>(&device.device());
  if (gpu == nullptr) {
    throw std::invalid_argument{
        fmt::format("NCCL needs a GPU, and {} is not a GPU", device.device().name())};
  }
  return std::make_unique<Group>(*api, device, gpu->ordinal(), rendezvous, options);
}

}  // namespace millrace
