#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/data/model_input.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"
#include "millrace/pipeline/model/optimizer.hpp"
#include "millrace/pipeline/model/train_model.hpp"
#include "test/support/allocators.hpp"

namespace millrace::test {

/// The ids of a batch on the host: `bags[f][b]`, and a weight for each id if they are weighted.
struct HostBags {
  std::vector<std::string> features;
  std::size_t batch = 0;
  std::vector<std::vector<std::vector<std::int64_t>>> bags;
  std::vector<std::vector<std::vector<float>>> weights;  ///< empty: none
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;

  [[nodiscard]] std::size_t value_count() const;
};

/// Draws bags of 0 to `longest` ids below `rows[f]`. Some ids occur often.
[[nodiscard]] HostBags draw_bags(std::mt19937_64& random, std::vector<std::string> features,
                                 const std::vector<std::size_t>& rows, std::size_t batch,
                                 std::size_t longest, bool weighted);

/// A batch on the host.
struct HostExamples {
  std::size_t dense_features = 0;
  std::vector<float> dense, labels;
  HostBags sparse, weighted;
};

/// Device memory that is filled and read back through the main stream of a bench.
class ModelMemory {
 public:
  ModelMemory(Allocator& allocator, Stream& main) : allocator_(allocator), main_(main) {}

  template <typename T>
  [[nodiscard]] BatchTensor upload(const std::vector<T>& values) {
    BatchTensor tensor{allocator_, values.size() * sizeof(T), main_};
    if (!tensor.empty()) {
      device().copy(tensor.data(), values.data(), tensor.bytes(), CopyKind::host_to_device,
                    main_.handle());
    }
    return tensor;
  }
  [[nodiscard]] KeyedJaggedTensor upload(const HostBags& bags);
  [[nodiscard]] InputTensors upload(const HostExamples& examples);

  template <typename T>
  [[nodiscard]] std::vector<T> download(const T* from, std::size_t size) {
    std::vector<T> values(size);
    if (size != 0) {
      device().copy(values.data(), from, size * sizeof(T), CopyKind::device_to_host,
                    main_.handle());
    }
    main_.synchronize();
    return values;
  }
  /// Returns every tensor of a model's state, one after the other.
  [[nodiscard]] std::vector<float> download(const ModelState& state);

 private:
  [[nodiscard]] Device& device() { return allocator_.device().device(); }

  Allocator& allocator_;
  Stream& main_;
};

/// A virtual device with data, and the context in which a model runs.
struct ModelBench : Bench {
  explicit ModelBench(VirtualMachine::Options options = VirtualMachine::Options{})
      : Bench(std::size_t{1} << 30, options) {}

  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};
  ModelMemory memory{allocator, main};
};

[[nodiscard]] inline SparseFeatures features_of(const InputTensors& input) {
  return {input.sparse, input.weighted};
}

/// Trains a small model with tables and dense layers for three steps, with random batches.
void train_small_model(ModelContext& context, ModelMemory& memory, Stream& main,
                       OptimizerKind kind);

/// Returns the area under the receiver operating characteristic curve. Ties count half.
[[nodiscard]] double counted_area_under_curve(const std::vector<float>& scores,
                                              const std::vector<float>& labels);

}  // namespace millrace::test
