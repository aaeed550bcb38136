#pragma once

#include <concepts>
#include <span>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/data/host_batch.hpp"
#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/**
 * @brief A batch on the device, or on its way there, as a pipeline treats it: see DeviceBatch for
 *        what each of these promises.
 */
template <typename Batch>
concept OnDevice =
    std::movable<Batch> && !std::copyable<Batch> && std::default_initializable<Batch> &&
    requires(Batch & batch, const Batch& constant, Stream& user, StreamRef stream, Point marker) {
  { constant.copied() } -> std::same_as<Point>;
  { batch.hand_to(user) } -> std::same_as<void>;
  { batch.record_use(stream) } -> std::same_as<void>;
  { batch.last_used(marker) } -> std::same_as<void>;
  { batch.release() } -> std::same_as<void>;
};

/**
 * @brief A batch in pinned memory that a pipeline can bring to the device.
 *
 * `to` takes the copy strategy and the copy stream, enqueues and does not wait, and leaves the
 * batch as it is; `release` frees it behind a marker of the copy stream. Only one owner may free
 * pinned memory that a copy still reads, so a batch is not copyable.
 */
template <typename Batch>
concept Pipelineable = std::movable<Batch> && !std::copyable<Batch> &&
                       requires(Batch & batch, const Batch& constant, CopyStrategy& strategy,
                                Stream& copy, Point marker) {
  { constant.tensors() } -> std::convertible_to<std::span<const HostTensor>>;
  { constant.to(strategy, copy) } -> OnDevice;
  { batch.release(marker) } -> std::same_as<void>;
};

/** @brief What `to` gives. */
template <Pipelineable Batch>
using DeviceForm = decltype(std::declval<const Batch&>().to(std::declval<CopyStrategy&>(),
                                                            std::declval<Stream&>()));

static_assert(OnDevice<DeviceBatch> && OnDevice<DeviceModelInput>);
static_assert(Pipelineable<HostBatch> && Pipelineable<ModelInput>);

}  // namespace millrace
