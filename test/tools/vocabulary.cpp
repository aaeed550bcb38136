#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"
#include "millrace/pipeline/schedule/pipeline_options.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "millrace/streamer/row_capture.hpp"
#include "millrace/streamer/schema.hpp"
#include "millrace/streamer/shipper.hpp"
#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"
#include "test/tools/file_options.hpp"
#include "test/tools/program.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

std::vector<std::string> footprint(const std::vector<std::string>& more) {
  return joined({"footprint", "--workload", "train_pipeline_base", "--allocator", "torch",
                 "--seeds", "1", "--batch-bytes", "1MiB"},
                more);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("vocabulary: a long message ends after a whole character") {
  for (const std::string start : {"", "a"}) {
    std::string name = start;
    while (name.size() < 600) name += "é";
    const ProgramRun run = run_program({"footprint", "--workload", name});
    CHECK(run.exit_code == 2);
    CAPTURE(run.err);
    CHECK_NOTHROW(nlohmann::json(run.err).dump());  // throws for text that is not UTF-8
  }
}

TEST_CASE("vocabulary: help of every command ends with two examples of it") {
  for (const CommandFiles& command : all_commands()) {
    std::vector<std::string> words = command.words;
    std::string start = "\n  millrace";
    for (const std::string& word : words) start += ' ' + word;
    words.emplace_back("--help");
    const std::string help = run_program(words).out;
    INFO(help);
    const std::size_t examples = help.find("\nExamples:\n");
    REQUIRE(examples != std::string::npos);
    CHECK(count(help.substr(examples), start) == 2);
  }
}

TEST_CASE("vocabulary: former names of options still work, and help does not show them") {
  const ProgramRun now = run_program(footprint({"--copy", "ring", "--steps", "6"}));
  CHECK(now.exit_code == 0);
  CHECK(run_program(footprint({"--strategy", "ring", "--iterations", "6"})).out == now.out);
  const std::string help = run_program({"footprint", "--help"}).out;
  CHECK(help.find("--strategy") == std::string::npos);
  CHECK(help.find("--iterations") == std::string::npos);
  CHECK(run_program({"pipelines", "--help"}).out.find("--batches") == std::string::npos);
  CHECK_THAT(run_program({"train", "--help"}).out, ContainsSubstring("--data-format"));
}

TEST_CASE("vocabulary: a name near a former name gets the present name as a suggestion") {
  const auto said = [](const std::string& option) {
    return run_program({"footprint", option, "x"}).err;
  };
  CHECK_THAT(said("--strategies"), ContainsSubstring("did you mean --copy?"));
  CHECK_THAT(said("--iteration"), ContainsSubstring("did you mean --steps?"));
  CHECK_THAT(said("--copys"), ContainsSubstring("did you mean --copy?"));
}

TEST_CASE("vocabulary: the run-ahead of stream bench is in steps, as its option says") {
  const auto bench = [](const std::string& option, const std::string& value) {
    return run_program({"stream", "bench", "--rows", "40", "--table-rows", "400", "--steps", "4",
                        "--capture", "ring", "--json", "-", option, value})
        .out;
  };
  CHECK(Json::parse(bench("--steps-ahead", "2")).at("run_ahead") == 2);
  CHECK(bench("--run-ahead", "2") == bench("--steps-ahead", "2"));
  CHECK(run_program({"stream", "bench", "--help"}).out.find("--run-ahead") == std::string::npos);
}

TEST_CASE("vocabulary: every command has the formats text and json, and table means text") {
  std::size_t commands = 0;
  for (const CommandFiles& command : all_commands()) {
    const std::string help = run_program(joined(command.words, {"--help"})).out;
    if (help.find("--format") == std::string::npos) continue;
    CHECK_THAT(help, ContainsSubstring("Write the results as text (default) or json"));
    ++commands;
  }
  CHECK(commands == 10);
  for (const char* const format : {"text", "table"}) {
    INFO(format);
    const std::vector<std::string> few{"--copy", "ring", "--steps", "6"};
    CHECK(run_program(footprint(joined(few, {"--format", format}))).out ==
          run_program(footprint(few)).out);
    const ProgramRun doctor = run_program({"doctor", "--format", format});
    CHECK(doctor.exit_code == 0);
    CHECK(doctor.out == run_program({"doctor"}).out);
  }
}

TEST_CASE("vocabulary: the help of train has headings from data to results") {
  const std::string help = run_program({"train", "--help"}).out;
  INFO(help);
  std::size_t at = 0;
  for (const char* const next :
       {"\nFiles that are read:\n", "  --data ", "  --model ", "\nData:\n", "  --data-format ",
        "\nTraining:\n", "  --epochs ", "  --steps ", "  --eval ", "  --device ", "  --ranks ",
        "\nPipeline:\n", "  --pipeline ", "  --copy ", "\nStreaming:\n", "  --stream-skip ",
        "\nOptions:\n", "\nFiles that are written:\n", "  --save "}) {
    INFO(next);
    const std::size_t found = help.find(next, at);
    REQUIRE(found != std::string::npos);
    at = found;
  }
}

TEST_CASE("vocabulary: --json writes results in addition to the text, or instead of it") {
  const ScratchFolder scratch;
  const std::string json = (scratch / "results.json").string();
  const std::string text = (scratch / "results.txt").string();
  const std::vector<std::string> few{"--copy", "ring", "--steps", "6"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), few.begin(), few.end());
    return run_program(footprint(more));
  };
  const std::string table = with({}).out;
  const std::string document = with({"--format", "json"}).out;
  CHECK(with({"--json", json}).out == table);
  CHECK(read_file(json) == document);
  CHECK(with({"--json", "-"}).out == document);
  CHECK(with({"--json", "-", "-o", text}).out == document);
  CHECK(read_file(text) == table);
  CHECK_THAT(with({"--json", "-", "-o", "-"}).err, ContainsSubstring("--json"));
  CHECK_NOTHROW(Json::parse(run_program({"doctor", "--json", "-"}).out));
}

TEST_CASE("vocabulary: train writes its results with the options of other commands") {
  const ScratchFolder scratch;
  const std::string json = (scratch / "results.json").string();
  const std::string file = (scratch / "results").string();
  const auto with = [](std::vector<std::string> more) {
    const std::vector<std::string> few{"train",        "--data", "synthetic", "--examples", "64",
                                       "--batch-size", "32",     "--epochs",  "1"};
    more.insert(more.begin(), few.begin(), few.end());
    ProgramRun run = run_program(more);
    INFO(run.err);
    CHECK(run.exit_code == 0);
    return run.out;
  };
  const auto digest = [](const std::string& document) {
    return Json::parse(document).at("weights_digest").get<std::string>();
  };
  const std::string weights = digest(with({"--format", "json"}));
  CHECK_THAT(with({}), ContainsSubstring(weights));
  CHECK_THAT(with({"--json", json}), ContainsSubstring(weights));
  CHECK(digest(read_file(json)) == weights);
  CHECK(digest(with({"--json", "-"})) == weights);
  CHECK(with({"-o", file}).empty());
  CHECK_THAT(read_file(file), ContainsSubstring(weights));
  CHECK(with({"--format", "json", "-o", file}).empty());
  CHECK(digest(read_file(file)) == weights);
  CHECK(digest(with({"--json", "-", "-o", file})) == weights);
  CHECK_THAT(read_file(file), ContainsSubstring(weights));
}

TEST_CASE("vocabulary: an option with a list is shown as a list and accepts all") {
  const std::string bench = run_program({"stream", "bench", "--help"}).out;
  CHECK_THAT(bench, ContainsSubstring("--capture A,B|all"));
  const std::string pipelines = run_program({"pipelines", "--help"}).out;
  CHECK_THAT(pipelines,
             ContainsSubstring("lookups at these") && ContainsSubstring("lookups on these"));
  CHECK_THAT(run_program({"train", "--help"}).out, ContainsSubstring("lookups here"));
  const std::vector<std::string> ring{"--steps", "6", "--copy"};
  CHECK(run_program(footprint(joined(ring, {"ring,all"}))).out ==
        run_program(footprint(joined(ring, {"all"}))).out);
}

TEST_CASE("vocabulary: the help of train names every value that an option accepts") {
  const std::string help = run_program({"train", "--help"}).out;
  const auto names_all = [&](const auto& values) {
    for (const auto value : values)
      CHECK_THAT(help, ContainsSubstring(std::string{to_string(value)}));
  };
  names_all(kPipelineKinds);
  names_all(kCopyMethods);
  names_all(kCachePolicies);
  names_all(kLookupPositions);
  names_all(kLookupStreams);
  names_all(kShardings);
  names_all(kCaptureModes);
  names_all(kRowContents);
  names_all(kWhenFull);
  names_all(kGatherOn);
  names_all(kQueuePolicies);
  for (const std::string& model : ModelDescription::names())
    CHECK_THAT(help, ContainsSubstring(model));
}
