#include <signal.h>

#include "sink/kafka/kafka_sink.hpp"
#include "sink/kafka/kafka_source.hpp"
#include "test/conformance/sink/sink_conformance.hpp"
#include "test/support/kafka_cluster.hpp"

namespace millrace::test {
namespace {

/// One cluster serves all tests of this process. Each place has its own topic.
class KafkaPlace final : public SinkPlace {
 public:
  KafkaPlace() {
    static unsigned places = 0;
    topic_ = "place-" + std::to_string(places++);
    static_cast<void>(cluster());  // it ends with the thread that starts it
  }

  std::unique_ptr<Sink> open() override {
    return std::make_unique<sink::KafkaSink>(cluster().spec(topic_), always());
  }
  std::unique_ptr<RecordSource> source() override {
    return std::make_unique<sink::KafkaSource>(cluster().spec(topic_));
  }
  void fall_silent() override { cluster().signal(SIGSTOP); }
  void speak() override { cluster().signal(SIGCONT); }

 private:
  /// Makes the sink see requests for snapshots at once.
  static sink::KafkaLimits always() { return {.requests_every = std::chrono::milliseconds{0}}; }
  static KafkaCluster& cluster() {
    static KafkaCluster one;
    return one;
  }

  std::string topic_;
};

const bool added = add_sink_fixture({.name = "kafka",
                                     .make_place = [] { return std::make_unique<KafkaPlace>(); },
                                     .is_source = true,
                                     .rivals = true,
                                     .has_peer = true,
                                     .programs = 4});

}  // namespace
}  // namespace millrace::test
