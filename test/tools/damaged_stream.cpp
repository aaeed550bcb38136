// Checkpoints with documents that our writers never write and with correct checksums. Also names
// that are not UTF-8.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "model/hash.hpp"
#include "test/tools/streaming.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kPreamble = 40;

std::uint64_t number_in(const std::string& bytes, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// The whole file of the checkpoint, with another document about its stream.
std::string with_stream(const std::string& checkpoint, const std::string& stream) {
  const std::size_t header = number_in(checkpoint, 16);
  auto document = nlohmann::ordered_json::parse(checkpoint.substr(kPreamble, header));
  document["stream"] = stream;
  const std::string text = document.dump();
  const std::uint64_t numbers[] = {number_in(checkpoint, 0), number_in(checkpoint, 8), text.size(),
                                   number_in(checkpoint, 24)};
  model::Hash hash;
  for (const std::uint64_t number : numbers) hash.add(number);
  hash.add(std::as_bytes(std::span{text}));
  const std::uint64_t check = hash.of_64_bits();
  std::string file{reinterpret_cast<const char*>(numbers), sizeof numbers};
  file.append(reinterpret_cast<const char*>(&check), sizeof check);
  return file + text + checkpoint.substr(kPreamble + header);
}

void check_stream_refused(const ProgramRun& run) {
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.err, ContainsSubstring("the checkpoint's data about its stream"));
  CHECK_THAT(run.err, ContainsSubstring("where: ") && ContainsSubstring("right: "));
  CHECK_THAT(run.err, !ContainsSubstring("json.exception"));
  CHECK(std::ranges::count(run.err, '\n') == 3);
}

}  // namespace

TEST_CASE("a checkpoint with a damaged record of its stream is refused with a clear message") {
  const ScratchFolder folder;
  const std::string good = folder / "good.ckpt", sink = file_in(folder, "rows");
  run_well(train({"--steps", "2", "--stream", sink, "--save", good}));
  const std::string bytes = read_file(good);
  const std::string right = R"({"lineage":"1:2","placement":"one rank"})";
  const std::vector<std::string> damaged{
      "[",
      "{}",
      "7",
      right.substr(0, 20),
      std::string(100'000, '['),
      R"({"lineage":5,"placement":"one rank"})",
      R"({"lineage":"1:2","placement":null})",
      R"({"lineage":"2:1 1:2","placement":"one rank"})",
      R"({"lineage":"one","placement":"one rank"})",
      R"({"lineage":"1:99999999999999999999","placement":"one rank"})",
      R"({"lineage":"1:2","lineage":"1:2","placement":"one rank"})"};
  const std::string bad = folder / "bad.ckpt";
  for (const std::string& stream : damaged) {
    CAPTURE(stream.substr(0, 60));
    static_cast<void>(folder.write("bad.ckpt", with_stream(bytes, stream)));
    check_stream_refused(run_program(train({"--steps", "4", "--load", bad, "--stream", sink})));
    const ProgramRun verified = run_program({"stream", "verify", sink, bad});
    check_stream_refused(verified);
    CHECK_THAT(verified.err, ContainsSubstring("where: CHECKPOINT"));
  }
  static_cast<void>(
      folder.write("bad.ckpt", with_stream(bytes, right)));  // the right document works
  run_well(train({"--steps", "4", "--load", bad, "--stream", sink}));
}

TEST_CASE("a file name that is not UTF-8 does not prevent the output of results") {
  const ScratchFolder folder;
  const std::string csv = folder / "a\xff.csv", json = folder / "out.json";
  static_cast<void>(folder.write("a\xff.csv", "id,lower,upper,size\n1,0,5,100\n2,2,7,100\n"));
  run_well({"replay", csv, "--format", "json", "-o", json});
  CHECK_THAT(nlohmann::json::parse(read_file(json)).dump(), ContainsSubstring("a\xef\xbf\xbd.csv"));
  const std::string sink = file_in(folder, "rows\xff"), save = folder / "a.ckpt";
  run_well(train({"--steps", "2", "--stream", sink, "--save", save, "--json", json}));
  CHECK(nlohmann::json::parse(read_file(json))["stream_complete"] == true);
  CHECK(verified(sink, save)["same"] == true);
  run_well({"stream", "status", sink, "--json", json});
  CHECK(nlohmann::json::accept(read_file(json)));
}
