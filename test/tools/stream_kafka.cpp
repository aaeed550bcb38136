#include <signal.h>

#include <random>

#include "test/support/kafka_cluster.hpp"
#include "test/support/seed.hpp"
#include "test/tools/streaming.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("a topic and a copy whose applier was killed have the table's rows") {
  if (!built("kafka")) SKIP("this build is without kafka");
  const KafkaCluster cluster;
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", topic = cluster.spec("rows");
  const std::string copy = (built("rocksdb") ? "rocksdb:" : "file:") + (folder / "copy").string();
  const std::vector<std::string> apply{"stream", "apply", "--from", topic, "--to", copy};
  std::mt19937_64 random{seed()};
  for (int round = 1; round <= 4; ++round) {
    const StartedProgram applier{apply, folder / "out", folder / "err"};
    auto arguments =
        train({"--steps", std::to_string(30 * round), "--stream", topic, "--save", save});
    if (round > 1) arguments.insert(arguments.end(), {"--load", save});
    run_well(arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 200});
    applier.signal(SIGKILL);
  }
  auto to_the_end = apply;
  to_the_end.insert(to_the_end.end(), {"--until-idle", "1"});
  run_well(to_the_end);
  for (const std::string& sink : {copy, topic}) {
    const auto report = verified(sink, save);
    INFO(report.dump());
    CHECK(report["same"] == true);
    CHECK(report["rows"] == report["equal"]);
  }
}

TEST_CASE("a killed trainer into a topic is resumed, and a copy has the table's rows") {
  if (!built("kafka")) SKIP("this build is without kafka");
  const KafkaCluster cluster;
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", topic = cluster.spec("rows");
  {
    const StartedProgram trainer{train({"--stream", topic, "--save", save, "--save-every", "7"}),
                                 folder / "out", folder / "err"};
    wait_for([&] { return identity(save) != 0 && has_marks(topic); });
    trainer.signal(SIGKILL);
  }
  run_well(train({"--load", save, "--steps", "1", "--stream", topic, "--save", save}));
  const std::string copy = file_in(folder, "copy");
  run_well({"stream", "apply", "--from", topic, "--to", copy, "--until-idle", "1"});
  for (const std::string& sink : {copy, topic}) {
    const auto report = verified(sink, save);
    INFO(report.dump());
    CHECK(report["same"] == true);
  }
}
