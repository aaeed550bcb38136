// A Kafka cluster in a separate process: librdkafka's mock cluster. Its first output line has the
// addresses of the brokers. It reads orders from standard input and answers each one with "ok" or
// "no". It ends when its input ends. The orders are:
//
//   topic NAME PARTITIONS          makes a topic
//   errors API COUNT ERROR         the next COUNT requests of this kind fail with ERROR
//   well API                       later requests of this kind do not fail
//   rtt MILLISECONDS               every answer takes this time
//   down | up                      stops or starts all brokers
//   leader TOPIC PARTITION BROKER  moves a partition

#include <librdkafka/rdkafka.h>

// After the header that it needs.
#include <librdkafka/rdkafka_mock.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kBrokers = 3;
constexpr int kAll = -1;

class Cluster {
 public:
  Cluster() {
    char why[256] = "";
    client_ = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
    if (client_ != nullptr) cluster_ = rd_kafka_mock_cluster_new(client_, kBrokers);
  }
  ~Cluster() {
    if (cluster_ != nullptr) rd_kafka_mock_cluster_destroy(cluster_);
    if (client_ != nullptr) rd_kafka_destroy(client_);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] bool works() const { return cluster_ != nullptr; }
  [[nodiscard]] const char* brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

  bool obey(const std::string& order) {
    std::istringstream words{order};
    std::string verb;
    words >> verb;
    if (verb == "down") return went(rd_kafka_mock_broker_set_down(cluster_, kAll));
    if (verb == "up") return went(rd_kafka_mock_broker_set_up(cluster_, kAll));
    if (verb == "errors") return push_errors(words);
    std::string topic;
    if (verb == "topic") {
      int partitions = 0;
      words >> topic >> partitions;
      return words && went(rd_kafka_mock_topic_create(cluster_, topic.c_str(), partitions, 1));
    }
    if (verb == "leader") {
      int partition = 0, broker = 0;
      words >> topic >> partition >> broker;
      return words &&
             went(rd_kafka_mock_partition_set_leader(cluster_, topic.c_str(), partition, broker));
    }
    int number = 0;
    words >> number;
    if (verb == "well" && words) {
      rd_kafka_mock_clear_request_errors(cluster_, static_cast<std::int16_t>(number));
      return true;
    }
    return verb == "rtt" && words && went(rd_kafka_mock_broker_set_rtt(cluster_, kAll, number));
  }

 private:
  static bool went(rd_kafka_resp_err_t error) { return error == RD_KAFKA_RESP_ERR_NO_ERROR; }

  bool push_errors(std::istringstream& words) {
    int api = 0, error = 0;
    std::size_t count = 0;
    words >> api >> count >> error;
    if (!words) return false;
    const std::vector<rd_kafka_resp_err_t> errors(count, static_cast<rd_kafka_resp_err_t>(error));
    rd_kafka_mock_push_request_errors_array(cluster_, static_cast<std::int16_t>(api), count,
                                            errors.data());
    return true;
  }

  rd_kafka_t* client_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
};

}  // namespace

int main() {
  Cluster cluster;
  if (!cluster.works()) return 1;
  std::cout << cluster.brokers() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    std::cout << (cluster.obey(order) ? "ok" : "no") << std::endl;
  }
  return 0;
}
