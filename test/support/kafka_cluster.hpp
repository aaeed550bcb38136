#pragma once

#include <string>

#include "test/support/child_process.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// Brokers of this test's own: librdkafka's mock cluster, in a process that ends with the test. It
/// keeps 5 MB of each partition, and makes topics of four partitions when somebody wants to write.
class KafkaCluster {
 public:
  KafkaCluster();

  /// As sinks are written, with what makes tests quick.
  [[nodiscard]] std::string spec(const std::string& topic, const std::string& settings = "") const;
  /// HOST:PORT, several with commas between.
  [[nodiscard]] const std::string& brokers() const noexcept { return brokers_; }
  /// servers/kafka_mock.cpp has the orders. @throws std::runtime_error if it did not do it
  void order(const std::string& words);
  void signal(int number) const { process_.signal(number); }

 private:
  ScratchFolder folder_;
  ChildProcess process_;
  std::string brokers_;
};

}  // namespace millrace::test
