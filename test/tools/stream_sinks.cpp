// A trainer whose sink loses rows, or that another trainer overtakes, and what it reports.
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/kafka_cluster.hpp"
#include "test/support/redis_server.hpp"
#include "test/tools/streaming.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

void need_redis() {
  if (!built("redis")) SKIP("this build is without redis");
  need_redis_server();
}

nlohmann::json sink_of(const ProgramRun& run) {
  INFO(run.out + run.err);
  return nlohmann::json::parse(run.out)["stream"]["sinks"][0];
}

/// Deletes the keys of rows that match, and returns their number.
std::size_t forget_rows(const RedisServer& server, const char* pattern) {
  const std::string script = fmt::format(
      "local n = 0 for _, k in ipairs(redis.call('KEYS', '{}')) do n = n + redis.call('DEL', k) "
      "end "
      "return n",
      pattern);
  return std::stoul(server.command({"EVAL", script, "0"}).substr(1));
}

}  // namespace

TEST_CASE("train --load: rows that vanished from a Redis between runs are sent again") {
  need_redis();
  const ScratchFolder folder;
  const RedisServer server;
  const std::string save = folder / "a.ckpt";
  run_well(train({"--steps", "10", "--stream", server.spec(), "--save", save}));
  REQUIRE(forget_rows(server, "test:*:*7") > 100);
  CHECK(verified(server.spec(), save)["absent"] > 100);
  const ProgramRun run = run_program(train(
      {"--load", save, "--steps", "11", "--stream", server.spec(), "--save", save, "--json", "-"}));
  CHECK(run.exit_code == 0);
  CHECK(sink_of(run)["snapshots"] == 0);
  CHECK(verified(server.spec(), save)["same"] == true);
}

TEST_CASE("train --load: a folder without its middle segments gets all rows again") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt";
  const std::string sink = file_in(folder, "f") + "?segment_bytes=20000";
  // Three runs make at least three segments, even if a busy machine ships many steps at once.
  run_well(train({"--steps", "10", "--stream", sink, "--save", save}));
  for (const char* const steps : {"20", "30"}) {
    run_well(train({"--load", save, "--steps", steps, "--stream", sink, "--save", save}));
  }
  std::vector<std::filesystem::path> segments;
  for (const auto& entry : std::filesystem::directory_iterator{folder / "f"}) {
    if (entry.path().extension() == ".segment") segments.push_back(entry.path());
  }
  REQUIRE(segments.size() > 2);
  std::sort(segments.begin(), segments.end());
  // A single segment may hold only rows that later segments hold as well.
  for (std::size_t i = 1; i + 1 < segments.size(); ++i) std::filesystem::remove(segments[i]);
  CHECK(verified(sink, save)["same"] == false);
  const ProgramRun run = run_program(
      train({"--load", save, "--steps", "31", "--stream", sink, "--save", save, "--json", "-"}));
  CHECK(run.exit_code == 0);
  CHECK(sink_of(run)["snapshots"] == 1);
  CHECK(verified(sink, save)["same"] == true);
}

TEST_CASE("train --stream: rows that vanish from a Redis during a run are sent again") {
  need_redis();
  const ScratchFolder folder;
  const RedisServer server;
  const std::string save = folder / "a.ckpt";
  StartedProgram trainer{train({"--stream", server.spec(), "--save", save}), folder / "out",
                         folder / "err"};
  wait_for([&] { return has_marks(server.spec()); });
  std::this_thread::sleep_for(300ms);
  CHECK(forget_rows(server, "test:*:*7") > 0);
  trainer.signal(SIGINT);
  CHECK(trainer.wait() == 130);
  INFO(read_file(folder / "out") + read_file(folder / "err"));
  CHECK(verified(server.spec(), save)["same"] == true);
}

TEST_CASE("train --stream: a Redis that starts to evict is an error with the reason") {
  need_redis();
  const ScratchFolder folder;
  const RedisServer server;
  StartedProgram trainer{train({"--stream", server.spec(), "--save", folder / "a.ckpt"}),
                         folder / "out", folder / "err"};
  wait_for([&] { return has_marks(server.spec()); });
  server.command({"CONFIG", "SET", "maxmemory", "2mb"});
  server.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
  wait_for([&] { return read_file(folder / "err").find("has stopped: ") != std::string::npos; });
  trainer.signal(SIGINT);
  CHECK(trainer.wait() != 0);
  CHECK_THAT(read_file(folder / "err"), ContainsSubstring("noeviction"));
}

namespace {

void check_first_is_overtaken(const std::string& spec) {
  const ScratchFolder folder;
  StartedProgram first{train({"--steps", "100000", "--stream", spec, "--json", folder / "json"}),
                       folder / "out", folder / "err"};
  wait_for([&] { return has_marks(spec); });
  const std::string save = folder / "a.ckpt";
  run_well(train({"--steps", "20", "--seed", "2", "--stream", spec, "--save", save}));
  wait_for([&] { return read_file(folder / "err").find("a later trainer") != std::string::npos; });
  first.signal(SIGINT);
  CHECK(first.wait() == 3);
  const auto sink = nlohmann::json::parse(read_file(folder / "json"))["stream"]["sinks"][0];
  CHECK(sink["rows"] == 0);
  CHECK(sink["steps"] == 0);
  CHECK_THAT(sink["given_up"].get<std::string>(), ContainsSubstring("a later trainer"));
  CHECK(verified(spec, save)["same"] == true);
}

}  // namespace

TEST_CASE("train --stream: the first of two trainers on a Redis is overtaken and ends with 3") {
  need_redis();
  const RedisServer server;
  check_first_is_overtaken(server.spec());
}

TEST_CASE("train --stream: the first of two trainers on a topic is overtaken and ends with 3") {
  if (!built("kafka")) SKIP("this build is without kafka");
  const KafkaCluster cluster;
  check_first_is_overtaken(cluster.spec("rows"));
}

TEST_CASE("train --stream: a RocksDB that is deleted during a run has all rows in the end") {
  if (!built("rocksdb")) SKIP("this build is without rocksdb");
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", copy = (folder / "copy").string();
  StartedProgram trainer{train({"--stream", "rocksdb:" + copy, "--save", save}), folder / "out",
                         folder / "err"};
  wait_for([&] { return std::filesystem::exists(folder / "copy" / "CURRENT"); });
  std::this_thread::sleep_for(300ms);
  std::error_code busy;  // the trainer may make files meanwhile
  wait_for([&] {
    std::filesystem::remove_all(copy, busy);
    return !busy;
  });
  wait_for([&] { return std::filesystem::exists(folder / "copy" / "CURRENT"); });
  trainer.signal(SIGINT);
  CHECK(trainer.wait() == 130);
  INFO(read_file(folder / "out") + read_file(folder / "err"));
  CHECK(verified("rocksdb:" + copy, save)["same"] == true);
}

namespace {

/// A reply or a message may take 10 s, but the deadline ends the wait. The limit includes the time
/// of training.
template <typename Server>
void check_silence_ends(const Server& server, const std::string& spec) {
  server.signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const ProgramRun run =
      run_program(train({"--steps", "5", "--stream", spec, "--stream-deadline", "1"}));
  server.signal(SIGCONT);
  INFO(run.out + run.err);
  CHECK(run.exit_code == 3);
  CHECK(std::chrono::steady_clock::now() - begin < 9s);
}

}  // namespace

TEST_CASE("train --stream: a silent server delays a run's end at most until the deadline") {
  need_redis();
  const RedisServer server;
  check_silence_ends(server, server.spec());
}

TEST_CASE("train --stream: silent brokers delay a run's end at most until the deadline") {
  if (!built("kafka")) SKIP("this build is without kafka");
  const KafkaCluster cluster;
  check_silence_ends(cluster, cluster.spec("rows"));
}

TEST_CASE("train --stream: a sink that goes down and returns is reported in one line each") {
  need_redis();
  const ScratchFolder folder;
  RedisServer server;
  StartedProgram trainer{train({"--stream", server.spec(), "--save", folder / "a.ckpt"}),
                         folder / "out", folder / "err"};
  wait_for([&] { return has_marks(server.spec()); });
  const auto said = [&](const char* words) {
    return read_file(folder / "err").find(words) != std::string::npos;
  };
  server.kill();
  wait_for([&] { return said("is down: "); });
  server.start();
  wait_for([&] { return said("works again, after "); });
  trainer.signal(SIGINT);
  CHECK(trainer.wait() == 130);
  const std::string err = read_file(folder / "err");
  CHECK(err.find("is down: ") == err.rfind("is down: "));
}

TEST_CASE("no output shows a secret of a sink's address") {
  const ScratchFolder folder;
  const std::string secret = "hunter2";
  const std::string save = folder / "a.ckpt";
  run_well(train({"--steps", "1", "--save", save}));
  ::setenv("MILLRACE_TEST_SECRET", secret.c_str(), 1);
  const std::string port = std::to_string(free_port());
  std::vector<std::string> specs{
      "redis://:hunter2@127.0.0.1:" + port,
      "redis://hunter2@127.0.0.1:" + port,
      "rediss://app:hunter2@127.0.0.1:" + port + "/rows",
      "redis://127.0.0.1:" + port + "?password=hunter2",
      "reddis://:hunter2@127.0.0.1",
      "kafka://127.0.0.1:" + port + "/t?sasl.password=hunter2",
      "kafka://me:hunter2@127.0.0.1/t",
      "redis://127.0.0.1:" + port + "?password-env=MILLRACE_TEST_SECRET",
      "rediss://127.0.0.1:" + port + "?password-env=MILLRACE_TEST_SECRET",
      "kafka://127.0.0.1:" + port +
          "/t?security.protocol=sasl_plaintext&sasl.mechanism=PLAIN&sasl.username=me&"
          "sasl.password-env=MILLRACE_TEST_SECRET&socket.timeout.ms=300&message.timeout.ms=300"};
  for (const std::string& spec : specs) {
    const bool kafka = spec.starts_with("kafka");
    if (!built(kafka ? "kafka" : "redis")) continue;
    CAPTURE(spec);
    const std::string json = folder / "json";
    std::vector<std::vector<std::string>> commands{
        train({"--steps", "1", "--stream", spec, "--stream-deadline", "0.1", "--json", json}),
        train({"--steps", "1", "--strem", spec}),
        train({"--steps", "1", "--stream", spec, "--stream-slots", spec}),
        {"train", spec},
        {spec},
        {"stream", "status", spec},
        {"stream", "verify", spec, save, "--json", json}};
    if (kafka) {
      commands.push_back({"stream", "apply", "--from", spec, "--to", file_in(folder, "copy"),
                          "--until-idle", "0.1"});
    }
    for (const std::vector<std::string>& command : commands) {
      if (kafka && spec.find("-env") != std::string::npos && command.front() == "stream") continue;
      const ProgramRun run = run_program(command);
      CAPTURE(command);
      CHECK(run.exit_code != 0);
      CHECK_THAT(run.out + run.err, !ContainsSubstring(secret));
      if (std::filesystem::exists(json)) CHECK_THAT(read_file(json), !ContainsSubstring(secret));
    }
  }
  ::unsetenv("MILLRACE_TEST_SECRET");
}
