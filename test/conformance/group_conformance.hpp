#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// One rank of a group as the suite uses it: what it asks for holds on every group.
class Rank {
 public:
  Rank(std::unique_ptr<ProcessGroup> group, OrderedDevice& device);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] ProcessGroup& group() const { return *group_; }
  [[nodiscard]] unsigned number() const { return group_->rank(); }
  [[nodiscard]] unsigned ranks() const { return group_->size(); }
  void leave() { group_.reset(); }

  /// Device memory with these values in it, once the stream gets there. Lives as long as the rank.
  template <typename T>
  [[nodiscard]] T* put(const std::vector<T>& values) {
    return static_cast<T*>(put_bytes(values.data(), values.size() * sizeof(T)));
  }
  template <typename T>
  [[nodiscard]] std::vector<T> get(const T* from, std::size_t count) {
    std::vector<T> values(count);
    get_bytes(values.data(), from, count * sizeof(T));
    return values;
  }

  OrderedDevice& device;
  Stream stream;

 private:
  void* put_bytes(const void* from, std::size_t bytes);
  void get_bytes(void* to, const void* from, std::size_t bytes);

  std::unique_ptr<ProcessGroup> group_;
  std::vector<void*> memory_;
};

/// Ends the test case with this message if not `condition`. Ranks may be threads or processes, so
/// they do not use the macros of Catch.
void expect(bool condition, const std::string& otherwise);
/// That this throws a CollectiveError for the fault of `culprit`, with `text` in it.
void expect_error(unsigned culprit, const std::string& text, const std::function<void()>& body);

using RankBody = std::function<void(Rank&)>;

struct GroupFactory {
  std::string name;
  std::vector<unsigned> sizes;  ///< of the groups that can be had
  /// Runs the body on each rank of a new group, and throws what one of them threw.
  std::function<void(unsigned ranks, const RankBody& body)> run;
  bool device_of_its_own = true;  ///< has each rank
};

/// NCCL with one rank, where there are a GPU and NCCL.
[[nodiscard]] std::optional<GroupFactory> nccl_factory();

/// The groups of this program: see conformance/thread_groups.cpp, mpi/mpi_groups.cpp.
[[nodiscard]] const std::vector<GroupFactory>& group_factories();

/// Runs the body on every kind of group of at least so many ranks.
void over_every_group(unsigned at_least, const RankBody& body);
/// Only on those where each rank has a device of its own.
void over_every_group_of_devices(unsigned at_least, const RankBody& body);

}  // namespace millrace::test
