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

/// One rank of a group as the suite uses it. All checks of the suite must hold on every group.
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

  /// Returns device memory that has these values in stream order. It lives as long as the rank.
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

/// Ends the test case with the message `otherwise` if `condition` is false. Ranks may be threads or
/// processes, so they cannot use the macros of Catch.
void expect(bool condition, const std::string& otherwise);
/// Expects that `body` throws a CollectiveError for the fault of `culprit`, with `text` in it.
void expect_error(unsigned culprit, const std::string& text, const std::function<void()>& body);

using RankBody = std::function<void(Rank&)>;

struct GroupFactory {
  std::string name;
  std::vector<unsigned> sizes;  ///< possible numbers of ranks
  /// Runs the body on each rank of a new group. Rethrows an exception of a rank.
  std::function<void(unsigned ranks, const RankBody& body)> run;
  bool device_of_its_own = true;  ///< whether each rank has its own device
};

/// NCCL with one rank, if the machine has a GPU and NCCL.
[[nodiscard]] std::optional<GroupFactory> nccl_factory();

/// The groups of this program: see conformance/thread_groups.cpp, mpi/mpi_groups.cpp.
[[nodiscard]] const std::vector<GroupFactory>& group_factories();

/// Runs the body on every kind of group, with `at_least` ranks or more.
void over_every_group(unsigned at_least, const RankBody& body);
/// Like `over_every_group`, only for groups where each rank has its own device.
void over_every_group_of_devices(unsigned at_least, const RankBody& body);

}  // namespace millrace::test
