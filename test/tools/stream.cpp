#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "millrace/device/profile.hpp"
#include "millrace/streamer/sink.hpp"
#include "test/support/catch.hpp"
#include "test/support/redis_server.hpp"
#include "test/support/seed.hpp"
#include "test/tools/streaming.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("train --stream: a sink has every row of the checkpoint to the bit") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt";
  for (const std::string kind : {"file", "rocksdb"}) {
    if (!built(kind)) continue;
    for (const std::string way : {"ring", "ring-kernel", "mapped", "sync", "sync-pageable"}) {
      CAPTURE(kind, way);
      const std::string sink = fmt::format("{}:{}", kind, (folder / (kind + way)).string());
      run_well(train({"--steps", "30", "--stream", sink, "--stream-capture", way,
                      "--stream-content", "weights-and-state", "--save", save}));
      const auto report = verified(sink, save);
      CHECK(report["same"] == true);
      CHECK(report["rows"] == report["equal"]);
      CHECK(report["rows"] > 0);
    }
  }
}

TEST_CASE("train --stream: pipelines, cached tables and ranks stream the checkpoint's rows") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt";
  int number = 0;
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--pipeline", "fused-sparse-dist", "--lookup-stream", "own"},
        {"--pipeline", "semi-sync", "--start-batch", "5"},
        {"--pipeline", "prefetch-sparse-dist", "--cache-load-factor", "0.1"},
        {"--ranks", "2"},
        {"--ranks", "2", "--sharding", "row-wise", "--stream-gather", "own"},
        {"--ranks", "3", "--sharding", "data-parallel"}}) {
    CAPTURE(options);
    const std::string sink = file_in(folder, fmt::format("{}", ++number));
    auto arguments = train({"--steps", "25", "--stream", sink, "--save", save});
    arguments.insert(arguments.end(), options.begin(), options.end());
    run_well(arguments);
    CHECK(verified(sink, save)["same"] == true);
  }
}

TEST_CASE("train --stream: streaming changes no trained bit") {
  const ScratchFolder folder;
  const auto digest = [](const ProgramRun& run) {
    return nlohmann::json::parse(run.out)["weights_digest"];
  };
  const auto plain = run_program(train({"--steps", "20", "--json", "-"}));
  const auto streamed = run_program(
      train({"--steps", "20", "--json", "-", "--check-races", "--stream", file_in(folder, "f")}));
  CHECK(digest(plain) == digest(streamed));
  CHECK(nlohmann::json::parse(streamed.out)["memory"]["races"].empty());
  CHECK(nlohmann::json::parse(streamed.out)["stream"]["complete"] == true);
}

TEST_CASE("train --stream: a resume from an older checkpoint sends the newer rows again") {
  const ScratchFolder folder;
  const std::string old = folder / "old.ckpt", later = folder / "later.ckpt";
  const std::string sink = file_in(folder, "f");
  run_well(train({"--steps", "10", "--stream", sink, "--save", old}));
  run_well(train({"--load", old, "--steps", "30", "--stream", sink, "--save", later}));
  CHECK(verified(sink, later)["same"] == true);
  CHECK(verified(sink, old)["same"] == false);
  CHECK(verified(sink, old)["newer"] > 0);
  // Training goes back by twenty steps. Then it makes one step, which changes few rows.
  const ProgramRun back = run_program(
      train({"--load", old, "--steps", "11", "--stream", sink, "--save", later, "--json", "-"}));
  INFO(back.err);
  REQUIRE(back.exit_code == 0);
  CHECK(verified(sink, later)["same"] == true);
  CHECK(nlohmann::json::parse(back.out)["stream"]["sinks"][0]["snapshots"] == 0);
}

TEST_CASE("train --stream: a run after a run with skipped tables sends a snapshot") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", sink = file_in(folder, "f");
  run_well(train({"--steps", "10", "--stream", sink, "--save", save}));
  run_well(train({"--load", save, "--steps", "20", "--stream", sink, "--stream-skip", "table.s2",
                  "--save", save}));
  CHECK(verified(sink, save)["same"] == false);
  run_well(train({"--load", save, "--steps", "21", "--stream", sink, "--save", save}));
  CHECK(verified(sink, save)["same"] == true);
}

TEST_CASE("train --stream: a run after a run without streaming sends a snapshot") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", sink = file_in(folder, "f");
  run_well(train({"--steps", "10", "--stream", sink, "--save", save}));
  run_well(train({"--load", save, "--steps", "20", "--save", save}));
  run_well(train({"--load", save, "--steps", "21", "--stream", sink, "--save", save}));
  CHECK(verified(sink, save)["same"] == true);
}

TEST_CASE("train --stream: after a kill at any instant a resumed run completes the copy") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", sink = file_in(folder, "f");
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 6; ++round) {
    std::vector<std::string> options{"--stream", sink, "--save", save, "--save-every", "7"};
    const std::uint64_t before = identity(save);
    if (before != 0) options.insert(options.end(), {"--load", save});
    {
      const StartedProgram trainer{train(options), folder / "out", folder / "err"};
      wait_for([&] { return identity(save) != before; });
      std::this_thread::sleep_for(std::chrono::milliseconds{random() % 100});
      trainer.signal(SIGKILL);
    }
    const ProgramRun run = run_program(train(
        {"--load", save, "--epochs", "100000", "--steps", "1", "--stream", sink, "--save", save}));
    INFO(run.err);  // all --steps are done, so it only streams the remaining rows
    REQUIRE(run.exit_code == 0);
    const auto report = verified(sink, save);
    INFO(report.dump());
    CHECK(report["same"] == true);
  }
}

TEST_CASE("train --stream: a sink that is down does not end training and is reported") {
  if (!built("redis")) SKIP("this build is without redis");
  const ScratchFolder folder;
  const std::string sink = fmt::format("redis://127.0.0.1:{}", free_port());
  const auto policy = GENERATE(as<std::string>{}, "coalesce", "recapture", "block");
  CAPTURE(policy);
  const ProgramRun run = run_program(
      train({"--steps", "10", "--stream", sink, "--stream-deadline", "0.5", "--save",
             folder / "a.ckpt", "--stream-queue-policy", policy, "--stream-queue-bytes", "1KiB"}));
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out, ContainsSubstring("weights xxh3-128:"));
  CHECK_THAT(run.out, ContainsSubstring("were not delivered"));
  CHECK(std::filesystem::exists(folder / "a.ckpt"));
}

TEST_CASE("train --stream: a Redis that loses all rows during a run has all in the end") {
  if (!built("redis")) SKIP("this build is without redis");
  need_redis_server();
  const ScratchFolder folder;
  RedisServer server;
  const std::string save = folder / "a.ckpt";
  StartedProgram trainer{train({"--stream", server.spec(), "--save", save}), folder / "out",
                         folder / "err"};
  wait_for([&] { return has_marks(server.spec()); });
  server.kill();
  std::this_thread::sleep_for(200ms);
  server.start();
  wait_for([&] { return has_marks(server.spec()); });
  trainer.signal(SIGINT);
  INFO(read_file(folder / "err"));
  CHECK(trainer.wait() == 130);  // 128 + SIGINT, as in a shell
  const auto report = verified(server.spec(), save);
  INFO(report.dump());
  CHECK(report["same"] == true);
}

TEST_CASE("train --stream: a sink of another model is reported, and training continues") {
  const ScratchFolder folder;
  const std::string sink = file_in(folder, "f");
  run_well(train({"--steps", "5", "--stream", sink}));
  StartedProgram trainer{train({"--stream", sink, "--stream-content", "weights-and-state"}),
                         folder / "out", folder / "err"};
  wait_for([&] {
    return read_file(folder / "err").find("streaming to " + sink + " has stopped") !=
           std::string::npos;
  });
  trainer.signal(SIGINT);
  CHECK(trainer.wait() == 3);  // interrupted, and a sink lacks rows: the latter decides
  CHECK_THAT(read_file(folder / "out"), ContainsSubstring("given up"));
}

TEST_CASE("stream apply: a copy continues where it stopped after a kill at any instant") {
  const std::string kind = built("rocksdb") ? "rocksdb:" : "file:";
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", from = file_in(folder, "f");
  const std::string copy = kind + (folder / "copy").string();
  std::mt19937_64 random{seed()};
  StartedProgram trainer{train({"--steps", "1200", "--stream", from, "--save", save}),
                         folder / "out", folder / "err"};
  for (int round = 0; round < 5; ++round) {
    const StartedProgram applier{
        {"stream", "apply", "--from", from, "--to", copy}, folder / "out2", folder / "err2"};
    wait_for([&] { return std::filesystem::exists(folder / "copy"); });
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 200});
    applier.signal(SIGKILL);
  }
  CHECK(trainer.wait() == 0);
  const ProgramRun run =
      run_program({"stream", "apply", "--from", from, "--to", copy, "--until-idle", "0.5"});
  INFO(run.out + run.err);
  CHECK(run.exit_code == 0);
  const auto report = verified(copy, save);
  INFO(report.dump());
  CHECK(report["same"] == true);
}

TEST_CASE("stream apply: missing rows are requested, and the next training sends them") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt", from = file_in(folder, "f");
  const std::string copy = file_in(folder, "copy");
  run_well(train({"--steps", "10", "--stream", from, "--save", save}));
  run_well(train({"--load", save, "--steps", "20", "--stream", from, "--save", save}));
  std::vector<std::filesystem::path> segments;
  for (const auto& entry : std::filesystem::directory_iterator{folder / "f"}) {
    if (entry.path().extension() == ".segment") segments.push_back(entry.path());
  }
  REQUIRE(segments.size() == 2);
  std::filesystem::remove(std::min(segments[0], segments[1]));
  const std::vector<std::string> apply{"stream", "apply", "--from",       from,
                                       "--to",   copy,    "--until-idle", "0.3"};
  ProgramRun run = run_program(apply);
  INFO(run.out + run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out, ContainsSubstring("1 gap,"));
  run_well(train({"--load", save, "--steps", "21", "--stream", from, "--save", save}));
  run = run_program(apply);
  CHECK(run.exit_code == 0);
  CHECK(verified(copy, save)["same"] == true);
}

TEST_CASE("stream bench: ring stalls a step by at most the gather's bytes and a launch") {
  const DeviceProfile h200 = DeviceProfile::named("h200");
  const ProgramRun run = run_program({"stream", "bench", "--rows", "100000,400000", "--json", "-"});
  INFO(run.err);
  REQUIRE(run.exit_code == 0);
  const auto document = nlohmann::json::parse(run.out);
  REQUIRE(document["sizes"].size() == 2);
  for (const auto& size : document["sizes"]) {
    std::map<std::string, nlohmann::json> captures;
    for (const auto& capture : size["captures"]) captures[capture["capture"]] = capture;
    const double ring = captures.at("ring")["stall_us"];
    const double rows = size["rows"], moved = 2 * (size["changed_bytes"].get<double>() + 4 * rows);
    const double launch = static_cast<double>(h200.launch_latency.count()) / 1e3;
    CHECK(ring <= moved / h200.memory_bandwidth * 1e6 + launch);
    CHECK(ring <= captures.at("sync")["stall_us"].get<double>() / 20);
    CHECK(captures.at("ring")["link_bytes_per_changed_byte"] <= 1.05);
    CHECK(captures.at("ring")["link_bytes_per_changed_byte"] > 0.9);
    CHECK(captures.at("ring")["run_ahead_steps"] >= size["without"]["run_ahead_steps"]);
    CHECK(captures.at("ring")["host_wait_us"] == 0);
    const double link = size["link_bytes_per_second"];
    for (const auto& [name, capture] : captures) {
      CAPTURE(name, link);
      const auto& ladder = capture["ladder"];
      CHECK(ladder["l0"] >= size["without"]["ladder"]["l0"]);
      CHECK(ladder["l0"] <= ladder["l1"]);
      CHECK(ladder["l3"] <= ladder["reserved"]);
      CHECK(ladder["reserved"] == capture["bytes"]["reserved"]["peak"]);
      if (capture["link_bytes_per_second"].is_null()) continue;
      CHECK(capture["link_bytes_per_second"] <= 1.05 * link);
      CHECK(capture["link_bytes_per_second"] >= (name == "sync-pageable" ? 0.05 : 0.9) * link);
    }
    CHECK(captures.at("ring")["gather_bytes_per_second"] >= 20 * link);
    CHECK(captures.at("ring-kernel")["stall_us"] <= 1.05 * ring + 1);
    CHECK(captures.at("ring-kernel")["device_bytes"] < captures.at("ring")["device_bytes"]);
    CHECK(captures.at("ring-kernel")["run_ahead_steps"] >= size["without"]["run_ahead_steps"]);
    CHECK(captures.at("mapped")["gather_bytes_per_second"] <= 1.05 * link);
  }
}

TEST_CASE("stream: invalid options are refused with the reason") {
  const ScratchFolder folder;
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& words) {
    const ProgramRun run = run_program(arguments);
    INFO(run.out + run.err);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err, ContainsSubstring(words));
  };
  refused(train({"--stream", "ftp://x"}), "rocksdb:DIR");
  refused(train({"--stream-slots", "3"}), "--stream SINK");
  refused(train({"--stream", file_in(folder, "f"), "--freeze-tables"}),
          "no changed rows to stream");
  refused(train({"--stream", file_in(folder, "f"), "--stream-capture", "rung"}), "ring");
  refused(train({"--stream", file_in(folder, "f"), "--stream-skip", "nobody"}), "nobody");
  refused({"stream", "apply", "--from", "rocksdb:x", "--to", "file:y"}, "keeps no order");
  refused({"stream", "apply", "--from", "file:x"}, "--to");
  refused({"stream", "verify", file_in(folder, "none"), folder / "none.ckpt"}, "checkpoint");
  refused({"stream", "bench", "--rows", "7"}, "evenly");
  for (const char* const list : {"20,", ",20", "20,,40", ""})
    refused({"stream", "bench", "--rows", list}, "--rows");
  refused({"stream", "bench", "--capture", "rings"}, "ring");
  refused({"stream", "nothing"}, "apply");
}
