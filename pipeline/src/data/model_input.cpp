#include "millrace/pipeline/data/model_input.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

// Indices of a batch's tensors. Those of the sparse features come last, so that `release_features`
// frees one range.
enum Position : std::size_t {
  kDense,
  kLabels,
  kSparse,                  // lengths, offsets, values
  kWeighted = kSparse + 3,  // and weights
  kTensors = kWeighted + 4
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

std::vector<std::size_t> InputShape::tensor_bytes() const {
  check_batch("sparse", sparse, batch_size, false);
  check_batch("weighted", weighted, batch_size, true);
  return {batch_size * dense_features * sizeof(float),
          labeled ? batch_size * sizeof(float) : 0,
          sparse.length_bytes(),
          sparse.offset_bytes(),
          sparse.value_bytes(),
          weighted.length_bytes(),
          weighted.offset_bytes(),
          weighted.value_bytes(),
          weighted.weight_bytes()};
}

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

void DeviceModelInput::release_features(Point marker) {
  tensors_.sparse = {};
  tensors_.weighted = {};
  memory_.release(kSparse, kTensors - kSparse, marker);
}

ModelInput::ModelInput(Allocator& pinned, StreamRef copy, const InputShape& shape)
    : memory_(pinned, shape.tensor_bytes(), copy),
      contents_{.batch_size = shape.batch_size, .dense_features = shape.dense_features} {
  const auto tensors = memory_.tensors();
  contents_.dense = borrow(tensors, kDense);
  contents_.labels = borrow(tensors, kLabels);
  contents_.sparse = jagged(shape.sparse, tensors, kSparse);
  contents_.weighted = jagged(shape.weighted, tensors, kWeighted);
}

DeviceModelInput ModelInput::to(CopyStrategy& strategy) const {
  return {memory_.to(strategy), contents_};
}

void ModelInput::release(Point copied) {
  contents_ = {};
  memory_.release(copied);
}

}  // namespace millrace
