// cuBLASLt for the virtual runtime. It stores descriptions. A product computes nothing: it takes
// its turn in the stream, and the time of its flops and bytes.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "cublas/status.hpp"
#include "cublas/turn.hpp"

using namespace millrace::virtual_cublas;

namespace {

/** The attributes that the program set, by number. All kinds of descriptions have this type. */
struct Description {
  std::map<int, std::vector<char>> attributes;

  void set(int attribute, const void* value, std::size_t bytes) {
    const auto* const from = static_cast<const char*>(value);
    attributes[attribute] = {from, from + bytes};
  }
  template <typename Value>
  [[nodiscard]] Value get(int attribute, Value otherwise) const {
    const auto entry = attributes.find(attribute);
    if (entry == attributes.end() || entry->second.size() < sizeof(Value)) return otherwise;
    std::memcpy(&otherwise, entry->second.data(), sizeof otherwise);
    return otherwise;
  }
};

// cublasLtMatrixLayoutAttribute_t and cublasLtMatmulDescAttributes_t
constexpr int kType = 0;
constexpr int kRows = 2;
constexpr int kColumns = 3;
constexpr int kLeadingDimension = 4;
constexpr int kBatchCount = 5;
constexpr int kComputeType = 0;
constexpr int kScaleType = 1;
constexpr int kTransposedA = 3;

/** cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t */
struct Algorithm {
  std::uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

std::atomic<unsigned> cpu_mask{0};
std::atomic<std::size_t> heuristics_capacity{8192};

template <typename Value>
void set(Description& description, int attribute, Value value) {
  description.set(attribute, &value, sizeof value);
}

Status make(Description** made) {
  if (made == nullptr) return Status::invalid_value;
  *made = new Description;
  return Status::success;
}

Status drop(Description* description) {
  if (description == nullptr) return Status::invalid_value;
  delete description;
  return Status::success;
}

Status set_attribute(Description* description, int attribute, const void* value,
                     std::size_t bytes) {
  if (description == nullptr || value == nullptr || bytes == 0) return Status::invalid_value;
  description->set(attribute, value, bytes);
  return Status::success;
}

Status get_attribute(const Description* description, int attribute, void* value, std::size_t bytes,
                     std::size_t* written) {
  if (description == nullptr) return Status::invalid_value;
  const auto entry = description->attributes.find(attribute);
  const std::size_t known = entry == description->attributes.end() ? 0 : entry->second.size();
  if (written != nullptr) *written = known;
  if (bytes == 0 && written != nullptr) return Status::success;
  if (value == nullptr || known == 0 || bytes < known) return Status::invalid_value;
  std::memcpy(value, entry->second.data(), known);
  return Status::success;
}

}  // namespace

MILLRACE_EXPORT Status cublasLtCreate(void** handle) {
  if (handle == nullptr) return Status::invalid_value;
  *handle = new char;
  return Status::success;
}
MILLRACE_EXPORT Status cublasLtDestroy(void* handle) {
  delete static_cast<char*>(handle);
  return Status::success;
}
MILLRACE_EXPORT std::size_t cublasLtGetVersion() { return kCublasVersion; }
MILLRACE_EXPORT std::size_t cublasLtGetCudartVersion() { return kCudartVersion; }
MILLRACE_EXPORT Status cublasLtGetProperty(int property, int* value) {
  return get_property(property, value);
}
MILLRACE_EXPORT const char* cublasLtGetStatusName(int status) { return name_of_status(status); }
MILLRACE_EXPORT const char* cublasLtGetStatusString(int status) { return text_of_status(status); }

// Settings. They are stored and have no effect.

/** @return the mask before this call */
MILLRACE_EXPORT unsigned cublasLtDisableCpuInstructionsSetMask(unsigned mask) {
  return cpu_mask.exchange(mask);
}
MILLRACE_EXPORT Status cublasLtHeuristicsCacheGetCapacity(std::size_t* capacity) {
  if (capacity == nullptr) return Status::invalid_value;
  *capacity = heuristics_capacity;
  return Status::success;
}
MILLRACE_EXPORT Status cublasLtHeuristicsCacheSetCapacity(std::size_t capacity) {
  heuristics_capacity = capacity;
  return Status::success;
}

// Descriptions

MILLRACE_EXPORT Status cublasLtMatmulDescCreate(Description** made, int compute_type,
                                                int scale_type) {
  const Status status = make(made);
  if (status != Status::success) return status;
  set(**made, kComputeType, compute_type);
  set(**made, kScaleType, scale_type);
  return status;
}
MILLRACE_EXPORT Status cublasLtMatrixLayoutCreate(Description** made, int type, std::uint64_t rows,
                                                  std::uint64_t columns, std::int64_t leading) {
  const Status status = make(made);
  if (status != Status::success) return status;
  set(**made, kType, type);
  set(**made, kRows, rows);
  set(**made, kColumns, columns);
  set(**made, kLeadingDimension, leading);
  set(**made, kBatchCount, std::int32_t{1});
  return status;
}
MILLRACE_EXPORT Status cublasLtMatmulPreferenceCreate(Description** made) { return make(made); }

#define MILLRACE_DESCRIPTION(kind)                                                               \
  MILLRACE_EXPORT Status cublasLt##kind##Destroy(Description* description) {                     \
    return drop(description);                                                                    \
  }                                                                                              \
  MILLRACE_EXPORT Status cublasLt##kind##SetAttribute(Description* description, int attribute,   \
                                                      const void* value, std::size_t bytes) {    \
    return set_attribute(description, attribute, value, bytes);                                  \
  }                                                                                              \
  MILLRACE_EXPORT Status cublasLt##kind##GetAttribute(const Description* description,            \
                                                      int attribute, void* value,                \
                                                      std::size_t bytes, std::size_t* written) { \
    return get_attribute(description, attribute, value, bytes, written);                         \
  }
MILLRACE_DESCRIPTION(MatmulDesc)
MILLRACE_DESCRIPTION(MatrixLayout)
MILLRACE_DESCRIPTION(MatmulPreference)

// Algorithms. The only one needs no workspace.

MILLRACE_EXPORT Status cublasLtMatmulAlgoGetHeuristic(void*, const Description* operation,
                                                      const Description*, const Description*,
                                                      const Description*, const Description*,
                                                      const Description*, int wanted,
                                                      HeuristicResult* results, int* count) {
  if (operation == nullptr || wanted < 1 || results == nullptr || count == nullptr)
    return Status::invalid_value;
  *results = {{}, 0, Status::success, 1, {}};
  *count = 1;
  return Status::success;
}
MILLRACE_EXPORT Status cublasLtMatmulAlgoInit(void*, int, int, int, int, int, int, int,
                                              Algorithm* algorithm) {
  if (algorithm == nullptr) return Status::invalid_value;
  *algorithm = {};
  return Status::success;
}
MILLRACE_EXPORT Status cublasLtMatmulAlgoCheck(void*, const Description*, const Description*,
                                               const Description*, const Description*,
                                               const Description*, const Algorithm* algorithm,
                                               HeuristicResult* result) {
  if (algorithm == nullptr || result == nullptr) return Status::invalid_value;
  *result = {*algorithm, 0, Status::success, 1, {}};
  return Status::success;
}

MILLRACE_EXPORT Status cublasLtMatmul(void*, const Description* operation, const void*, const void*,
                                      const Description* a, const void*, const Description*,
                                      const void*, const void*, const Description*, void*,
                                      const Description* d, const Algorithm*, void*, std::size_t,
                                      cudaStream_t stream) {
  if (operation == nullptr || a == nullptr || d == nullptr) return Status::invalid_value;
  const bool transposed = operation->get<std::int32_t>(kTransposedA, 0) != 0;
  const auto k = a->get<std::uint64_t>(transposed ? kRows : kColumns, 0);
  return take_turn("cublasLtMatmul", stream,
                   cost_of_product(static_cast<double>(d->get<std::uint64_t>(kRows, 0)),
                                   static_cast<double>(d->get<std::uint64_t>(kColumns, 0)),
                                   static_cast<double>(k), d->get<std::int32_t>(kBatchCount, 1),
                                   element_of(a->get<int>(kType, 0))));
}
