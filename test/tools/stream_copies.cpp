// Reports and exit codes of `stream apply`, `stream status` and `stream verify`.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "test/support/redis_server.hpp"
#include "test/support/seed.hpp"
#include "test/tools/streaming.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Words = std::vector<std::string>;

/// A log of a training, the checkpoint at its end, and places for copies.
struct Trained {
  explicit Trained(const std::string& steps) {
    run_well(train({"--steps", steps, "--stream", log, "--save", save}));
  }
  [[nodiscard]] Words apply(const std::string& to, Words more = {}) const {
    Words words{"stream", "apply", "--from", log, "--to", to};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  ScratchFolder folder;
  std::string log = file_in(folder, "log"), save = folder / "a.ckpt";
};

/// Checks that a run is refused with these words.
void check_refused(const Words& arguments, const std::string& words) {
  const ProgramRun run = run_program(arguments);
  INFO(run.out + run.err);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring(words));
  CHECK_THAT(run.err, ContainsSubstring("right: "));
}

struct Status {
  int exit_code = 0;
  nlohmann::json document;
};
Status status_of_sink(const std::string& sink, Words more = {}) {
  Words words{"stream", "status", sink, "--json", "-"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramRun run = run_program(words);
  INFO(run.out + run.err);
  REQUIRE((run.exit_code == 0 || run.exit_code == 3));
  Status status{run.exit_code, nlohmann::json::parse(run.out)};
  CHECK(status.document["complete"] == (run.exit_code == 0));
  return status;
}

auto files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::filesystem::file_time_type> files;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    files[entry.path().filename()] = entry.last_write_time();
  }
  return files;
}

}  // namespace

TEST_CASE("stream apply: the whole log is applied, however short --until-idle is") {
  const Trained trained{"60"};
  for (const std::string kind : {"file", "rocksdb"}) {
    if (!built(kind)) continue;
    CAPTURE(kind);
    const std::string copy = fmt::format("{}:{}", kind, (trained.folder / kind).string());
    run_well(trained.apply(copy, {"--until-idle", "0.001"}));
    CHECK(verified(copy, trained.save)["same"] == true);
  }
}

TEST_CASE("stream apply: the JSON counts the applied rows and has the copy's step") {
  const Trained trained{"60"};
  const std::string copy = file_in(trained.folder, "copy");
  const auto apply = [&] {
    const ProgramRun run =
        run_program(trained.apply(copy, {"--until-idle", "0.001", "--json", "-"}));
    INFO(run.out + run.err);
    REQUIRE(run.exit_code == 0);
    return nlohmann::json::parse(run.out);
  };
  const nlohmann::json first = apply(), status = status_of_sink(copy).document;
  CHECK(first["schema"] == "millrace.stream.apply/1");
  CHECK(first["complete"] == true);
  CHECK(first["sink"] == copy);
  for (const char* const key : {"epoch", "step", "sink"}) CHECK(first[key] == status[key]);
  CHECK(first["batches"] > 0);
  CHECK(first["rows"] > first["batches"]);
  CHECK(first["bytes"] > first["rows"]);
  CHECK(first["source"] == nlohmann::json{{"source", trained.log}, {"left", 0}, {"unit", "bytes"}});
  const nlohmann::json again = apply();
  CHECK(again["rows"] == 0);
  CHECK(again["step"] == first["step"]);
}

TEST_CASE("stream apply: an interrupt ends with 0 only if the copy is the table") {
  const Trained trained{"600"};
  std::mt19937_64 random{seed()};
  int lagging = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string name = fmt::format("copy{}", round), copy = file_in(trained.folder, name);
    StartedProgram applier{trained.apply(copy), trained.folder / "out", trained.folder / "err"};
    wait_for([&] { return std::filesystem::exists(trained.folder / name / "schema.json"); });
    std::this_thread::sleep_for(std::chrono::milliseconds{random() % 20});
    applier.signal(round % 2 == 0 ? SIGINT : SIGTERM);
    const int code = applier.wait();
    const std::string out = read_file(trained.folder / "out");
    INFO(out);
    if (code == 0) {
      CHECK(verified(copy, trained.save)["same"] == true);
      continue;
    }
    CHECK(code == 3);
    CHECK_THAT(out, ContainsSubstring("it lags: ") && ContainsSubstring(" bytes of "));
    ++lagging;
    const Status status = status_of_sink(copy, {"--from", trained.log});
    CHECK(status.exit_code == 3);
    CHECK(status.document["source"]["left"] > 0);
    run_well(trained.apply(copy, {"--until-idle", "0.001"}));
    CHECK(verified(copy, trained.save)["same"] == true);
    CHECK(status_of_sink(copy, {"--from", trained.log}).exit_code == 0);
  }
  CHECK(lagging > 0);
}

TEST_CASE("stream apply: a log without its schema is not reported as empty and ends with 3") {
  const Trained trained{"5"};
  const std::string copy = file_in(trained.folder, "copy");
  std::filesystem::remove(trained.folder / "log" / "schema.json");
  const std::string json = trained.folder / "apply.json";
  const ProgramRun run = run_program(trained.apply(copy, {"--until-idle", "0.2", "--json", json}));
  INFO(run.out + run.err);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out, ContainsSubstring("has lost its schema"));
  CHECK_THAT(run.out, ContainsSubstring("it lags: "));
  const auto document = nlohmann::json::parse(read_file(json));
  CHECK(document["complete"] == false);
  CHECK(document["has_schema"] == false);
  CHECK(document["rows"] == 0);
  CHECK(document["step"].is_null());
  CHECK(document["source"]["left"] > 0);
  check_refused({"stream", "verify", trained.log, trained.save},
                "schema of their tables was deleted");
  check_refused({"stream", "status", trained.log}, "schema of their tables was deleted");
}

TEST_CASE("stream apply: a Redis that was emptied gets all rows again") {
  if (!built("redis")) SKIP("this build is without redis");
  need_redis_server();
  const Trained trained{"100"};
  const RedisServer server;
  run_well(trained.apply(server.spec(), {"--until-idle", "0.001"}));
  StartedProgram applier{trained.apply(server.spec(), {"--until-idle", "1"}),
                         trained.folder / "out", trained.folder / "err"};
  server.command({"FLUSHALL"});
  CHECK(applier.wait() == 0);
  CHECK(verified(server.spec(), trained.save)["same"] == true);
}

TEST_CASE("stream verify and status: an invalid sink is refused with the reason") {
  const Trained trained{"5"};
  std::filesystem::create_directories(trained.folder / "diary");
  std::ofstream{trained.folder / "diary" / "schema.json"} << "today";
  Words sinks{file_in(trained.folder, "diary")};
  if (built("redis")) sinks.push_back(fmt::format("redis://127.0.0.1:{}", free_port()));
  if (built("rocksdb")) sinks.push_back("rocksdb:/proc");
  for (const std::string& sink : sinks) {
    CAPTURE(sink);
    check_refused({"stream", "verify", sink, trained.save}, "");
    if (sink != "rocksdb:/proc") check_refused({"stream", "status", sink}, "");
  }
  check_refused({"stream", "status", "ftp://x"}, "rocksdb:DIR");
  check_refused({"stream", "status", trained.log, "--from", "rocksdb:x"}, "keeps no order");
  check_refused({"stream", "status", trained.log, "--from", trained.log}, "not a copy of a log");
}

TEST_CASE("stream status: the state of a sink is shown without a write") {
  const Trained trained{"10"};
  const auto before = files_in(trained.folder / "log");
  const Status status = status_of_sink(trained.log);
  CHECK(status.exit_code == 0);
  CHECK(status.document["step"] == 10);
  CHECK(status.document["ranks"] == 1);
  CHECK(status.document["missing_rows"] == 0);
  CHECK(status.document["empty"] == false);
  CHECK(status.document["marks"].size() == 1);
  const ProgramRun text = run_program({"stream", "status", trained.log});
  CHECK(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring("all ranks sent step 10 of epoch"));
  CHECK(files_in(trained.folder / "log") == before);

  const Status none = status_of_sink(file_in(trained.folder, "none"));
  CHECK(none.exit_code == 3);
  CHECK(none.document["empty"] == true);
  CHECK_FALSE(std::filesystem::exists(trained.folder / "none"));
}

TEST_CASE("stream status: a sink can be read while a trainer writes to it") {
  const ScratchFolder folder;
  const std::string save = folder / "a.ckpt";
  for (const std::string kind : {"file", "rocksdb"}) {
    if (!built(kind)) continue;
    CAPTURE(kind);
    const std::string sink = fmt::format("{}:{}", kind, (folder / kind).string());
    StartedProgram trainer{train({"--stream", sink, "--save", save}), folder / "out",
                           folder / "err"};
    wait_for([&] { return has_marks(sink); });
    const Status first = status_of_sink(sink);
    CHECK(first.document["epoch"] > 0);
    wait_for([&] { return status_of_sink(sink).document["step"] > first.document["step"]; });
    trainer.signal(SIGTERM);
    CHECK(trainer.wait() == 143);  // 128 + SIGTERM, as in a shell
    CHECK(status_of_sink(sink).exit_code == 0);
    CHECK(verified(sink, save)["same"] == true);
  }
}
