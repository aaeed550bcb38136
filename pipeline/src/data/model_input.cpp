#include "millrace/pipeline/data/model_input.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

enum Position : std::size_t {
  kDense,
  kLabels,
  kSparse,                 // lengths, offsets, values
  kWeighted = kSparse + 3  // and weights
};

void check_batch(std::string_view what, const JaggedLayout& layout, std::size_t batch_size,
                 bool weighted) {
  layout.check();
  if (layout.key_count() == 0) return;
  if (layout.batch_size != batch_size) {
    throw std::invalid_argument{fmt::format("a batch of {} examples has {} features of {} examples",
                                            batch_size, what, layout.batch_size)};
  }
  if (layout.weighted != weighted) {
    throw std::invalid_argument{fmt::format(
        "the {} features of a batch {}", what,
        weighted ? "have no weights" : "have weights; those go with the weighted ones")};
  }
}

std::vector<std::size_t> sizes_of(const InputShape& shape) {
  check_batch("sparse", shape.sparse, shape.batch_size, false);
  check_batch("weighted", shape.weighted, shape.batch_size, true);
  return {shape.batch_size * shape.dense_features * sizeof(float),
          shape.labelled ? shape.batch_size * sizeof(float) : 0,
          shape.sparse.length_bytes(),
          shape.sparse.offset_bytes(),
          shape.sparse.value_bytes(),
          shape.weighted.length_bytes(),
          shape.weighted.offset_bytes(),
          shape.weighted.value_bytes(),
          shape.weighted.weight_bytes()};
}

template <typename Tensors>
BatchTensor borrow(const Tensors& tensors, std::size_t position) {
  return {tensors[position].data, tensors[position].bytes};
}

template <typename Tensors>
KeyedJaggedTensor jagged(const JaggedLayout& layout, const Tensors& tensors, std::size_t first) {
  if (layout.key_count() == 0) return {};
  return {layout,
          {.values = borrow(tensors, first + 2),
           .lengths = borrow(tensors, first),
           .offsets = borrow(tensors, first + 1),
           .weights = layout.weighted ? borrow(tensors, first + 3) : BatchTensor{}}};
}

}  // namespace

DeviceModelInput::DeviceModelInput(DeviceBatch memory, const InputTensors& host)
    : memory_(std::move(memory)),
      tensors_{.batch_size = host.batch_size, .dense_features = host.dense_features} {
  const auto tensors = memory_.tensors();
  if (tensors.empty()) return;
  tensors_.dense = borrow(tensors, kDense);
  tensors_.labels = borrow(tensors, kLabels);
  tensors_.sparse = jagged(host.sparse.layout(), tensors, kSparse);
  tensors_.weighted = jagged(host.weighted.layout(), tensors, kWeighted);
}

void DeviceModelInput::release() {
  tensors_ = {};
  memory_.release();
}

ModelInput::ModelInput(Allocator& pinned, StreamRef copy, const InputShape& shape)
    : memory_(pinned, sizes_of(shape), copy),
      contents_{.batch_size = shape.batch_size, .dense_features = shape.dense_features} {
  const auto tensors = memory_.tensors();
  contents_.dense = borrow(tensors, kDense);
  contents_.labels = borrow(tensors, kLabels);
  contents_.sparse = jagged(shape.sparse, tensors, kSparse);
  contents_.weighted = jagged(shape.weighted, tensors, kWeighted);
}

DeviceModelInput ModelInput::to(CopyStrategy& strategy, Stream& copy) const {
  return {strategy.copy(memory_.tensors(), copy), contents_};
}

void ModelInput::release(Point copied) {
  contents_ = {};
  memory_.release(copied);
}

}  // namespace millrace
