#include "test/support/kafka_cluster.hpp"

#include <filesystem>
#include <stdexcept>

namespace millrace::test {
namespace {

std::string beside_this_program(const char* name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace

KafkaCluster::KafkaCluster()
    : process_(beside_this_program("kafka_mock"), {"kafka_mock"}, (folder_ / "log").string(),
               true) {
  const auto brokers = process_.line();
  if (!brokers) throw std::runtime_error{"the mock cluster does not start"};
  brokers_ = *brokers;
}

std::string KafkaCluster::spec(const std::string& topic, const std::string& settings) const {
  return "kafka://" + brokers_ + "/" + topic +
         "?fetch.wait.max.ms=5&linger.ms=0&reconnect.backoff.max.ms=100&retry.backoff.ms=10&fetch."
         "error.backoff.ms=10" +
         settings;
}

void KafkaCluster::order(const std::string& words) {
  process_.send_line(words);
  if (process_.line() != "ok") throw std::runtime_error{"the mock cluster refused: " + words};
}

}  // namespace millrace::test
