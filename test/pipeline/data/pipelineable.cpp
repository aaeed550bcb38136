#include "millrace/pipeline/data/pipelineable.hpp"

#include <vector>

#include "test/support/catch.hpp"

using namespace millrace;

namespace {

struct Good {
  Good() = default;
  Good(Good&&) = default;
  Good& operator=(Good&&) = default;
  [[nodiscard]] std::vector<HostTensor> tensors() const;
  [[nodiscard]] DeviceBatch to(CopyStrategy&, Stream&) const;
  void release(Point);
};
static_assert(Pipelineable<Good>);
static_assert(std::same_as<DeviceForm<Good>, DeviceBatch>);
static_assert(std::same_as<DeviceForm<ModelInput>, DeviceModelInput>);

struct Copyable {
  [[nodiscard]] std::vector<HostTensor> tensors() const;
  [[nodiscard]] DeviceBatch to(CopyStrategy&, Stream&) const;
  void release(Point);
};
static_assert(!Pipelineable<Copyable>, "two owners would free the pinned memory");

struct NotMovable {
  NotMovable(NotMovable&&) = delete;
  [[nodiscard]] std::vector<HostTensor> tensors() const;
  [[nodiscard]] DeviceBatch to(CopyStrategy&, Stream&) const;
  void release(Point);
};
static_assert(!Pipelineable<NotMovable>);

struct WithoutStrategy : Good {
  [[nodiscard]] DeviceBatch to(Stream&) const;
};
static_assert(!Pipelineable<WithoutStrategy>, "`to` takes the copy strategy");

struct WithoutStream : Good {
  [[nodiscard]] DeviceBatch to(CopyStrategy&) const;
};
static_assert(!Pipelineable<WithoutStream>, "`to` takes the copy stream");

struct StreamFirst : Good {
  [[nodiscard]] DeviceBatch to(Stream&, CopyStrategy&) const;
};
static_assert(!Pipelineable<StreamFirst>);

struct CopyConsumes : Good {
  [[nodiscard]] DeviceBatch to(CopyStrategy&, Stream&);
};
static_assert(!Pipelineable<CopyConsumes>, "`to` leaves the batch as it is");

struct ToNothing : Good {
  void to(CopyStrategy&, Stream&) const;
};
static_assert(!Pipelineable<ToNothing>);

struct ToHostBatch : Good {
  [[nodiscard]] HostBatch to(CopyStrategy&, Stream&) const;
};
static_assert(!Pipelineable<ToHostBatch>, "what `to` gives is not on the device");

struct WithoutTensors {
  WithoutTensors(WithoutTensors&&) = default;
  WithoutTensors& operator=(WithoutTensors&&) = default;
  [[nodiscard]] DeviceBatch to(CopyStrategy&, Stream&) const;
  void release(Point);
};
static_assert(!Pipelineable<WithoutTensors>);

struct DeviceTensors : Good {
  [[nodiscard]] std::vector<DeviceTensor> tensors() const;
};
static_assert(!Pipelineable<DeviceTensors>, "what is copied is on the host");

struct FreedAtOnce : Good {
  void release();
};
static_assert(!Pipelineable<FreedAtOnce>, "`release` says what the memory waits for");

static_assert(!Pipelineable<int> && !Pipelineable<std::vector<HostTensor>>);

struct OnDeviceBase {
  OnDeviceBase() = default;
  OnDeviceBase(OnDeviceBase&&) = default;
  OnDeviceBase& operator=(OnDeviceBase&&) = default;
  [[nodiscard]] Point copied() const;
  void hand_to(Stream&);
  void record_use(StreamRef);
  void last_used(Point);
  void release();
};
static_assert(OnDevice<OnDeviceBase>);

struct HandsToRef : OnDeviceBase {
  void hand_to(StreamRef, int);
};
static_assert(!OnDevice<HandsToRef>);

struct NeverReleased : OnDeviceBase {
  void release(Point);
};
static_assert(!OnDevice<NeverReleased>);

struct CopiedIsEvent : OnDeviceBase {
  [[nodiscard]] Event copied() const;
};
static_assert(!OnDevice<CopiedIsEvent>);

struct CopyableOnDevice {
  [[nodiscard]] Point copied() const;
  void hand_to(Stream&);
  void record_use(StreamRef);
  void last_used(Point);
  void release();
};
static_assert(!OnDevice<CopyableOnDevice>);

}  // namespace

TEST_CASE("the concept of a batch refuses what a pipeline could not use") {
  CHECK(Pipelineable<ModelInput>);
  CHECK_FALSE(Pipelineable<DeviceModelInput>);
}
