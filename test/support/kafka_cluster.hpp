#pragma once

#include <string>

#include "test/support/child_process.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// The test's own brokers: librdkafka's mock cluster, in a process that ends with the test. It
/// keeps 5 MB of each partition. A write to an unknown topic creates it with four partitions.
class KafkaCluster {
 public:
  KafkaCluster();

  /// Returns an address for sinks, with settings that make tests quick.
  [[nodiscard]] std::string spec(const std::string& topic, const std::string& settings = "") const;
  /// Returns HOST:PORT of each broker, separated by commas.
  [[nodiscard]] const std::string& brokers() const noexcept { return brokers_; }
  /// Sends an order; servers/kafka_mock.cpp lists them. @throws std::runtime_error if it failed
  void order(const std::string& words);
  void signal(int number) const { process_.signal(number); }

 private:
  ScratchFolder folder_;
  ChildProcess process_;
  std::string brokers_;
};

}  // namespace millrace::test
