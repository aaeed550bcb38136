#include "millrace/pipeline/model/checkpoint.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

/// A state of two tensors and a counter, and a folder for its checkpoints.
struct Saved {
  Saved() {
    std::string name = (fs::temp_directory_path() / "millrace-checkpoint-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
    file = folder / "model";
    std::iota(first.begin(), first.end(), 0.5F);
    std::iota(second.begin(), second.end(), -7.25F);
  }
  ~Saved() { fs::remove_all(folder); }

  ModelState state(std::vector<float>& one, std::vector<float>& other) {
    to_first = bench.memory.upload(one);
    to_second = bench.memory.upload(other);
    return {{{"table.a.weights", to_first.as<float>().data(), one.size()},
             {"over.bias", to_second.as<float>().data(), other.size()}},
            {{"dense.steps", &steps}}};
  }
  void save() {
    save_checkpoint(file,
                    {.model = "{}",
                     .data = "some data",
                     .seed = 11,
                     .steps = 22,
                     .batch_size = 33,
                     .position = {4, 5}},
                    state(first, second), bench.context);
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream stream{file, std::ios::binary};
    return {std::istreambuf_iterator<char>{stream}, {}};
  }
  void write(const std::string& text) const { std::ofstream{file, std::ios::binary} << text; }

  [[nodiscard]] std::string refusal() const {
    try {
      const Checkpoint checkpoint{file};
    } catch (const CheckpointError& error) {
      CHECK_THAT(error.where(), ContainsSubstring(file.string()));
      CHECK(!error.right().empty());
      return error.what();
    }
    return "accepted";
  }

  ModelBench bench;
  fs::path folder, file;
  std::vector<float> first = std::vector<float>(1000), second = std::vector<float>(3);
  std::uint64_t steps = 9;
  BatchTensor to_first, to_second;
};

}  // namespace

TEST_CASE("a checkpoint restores the saved state to the bit") {
  Saved saved;
  saved.save();
  const Checkpoint checkpoint{saved.file};
  CHECK(checkpoint.header().data == "some data");
  CHECK(checkpoint.header().seed == 11);
  CHECK(checkpoint.header().steps == 22);
  CHECK(checkpoint.header().batch_size == 33);
  CHECK(checkpoint.header().position == BatchPosition{4, 5});

  const std::string before =
      state_digest(saved.state(saved.first, saved.second), saved.bench.context);
  std::vector<float> zeros(1000), few(3);
  const ModelState other = saved.state(zeros, few);
  CHECK(state_digest(other, saved.bench.context) != before);
  saved.steps = 0;
  checkpoint.restore(other, saved.bench.context);
  CHECK(saved.steps == 9);
  CHECK(state_digest(other, saved.bench.context) == before);
}

TEST_CASE("a checkpoint that was verified is read to its end, though another one gets its name") {
  Saved saved;
  saved.save();
  const Checkpoint checkpoint{saved.file};
  const std::string before =
      state_digest(saved.state(saved.first, saved.second), saved.bench.context);
  const std::vector<float> first = saved.first, second = saved.second;
  for (float& number : saved.first) number += 1;
  saved.save();
  std::vector<float> numbers(3);
  checkpoint.read("table.a.weights", 500, numbers);
  CHECK(numbers == std::vector<float>(first.begin() + 500, first.begin() + 503));
  std::vector<float> zeros(1000), few(3);
  const ModelState other = saved.state(zeros, few);
  checkpoint.restore(other, saved.bench.context);
  CHECK(state_digest(other, saved.bench.context) == before);
}

TEST_CASE("a checkpoint replaces the previous one and leaves no other file in its folder") {
  Saved saved;
  saved.write("an older file");
  saved.save();
  saved.save();
  CHECK(std::distance(fs::directory_iterator{saved.folder}, fs::directory_iterator{}) == 1);
  CHECK(saved.refusal() == "accepted");
}

TEST_CASE("a checkpoint that cannot be written leaves the older one unchanged") {
  Saved saved;
  saved.file = saved.folder / "nowhere" / "model";
  CHECK_THROWS_AS(saved.save(), CheckpointError);
  CHECK_THROWS_AS(check_checkpoint_place(saved.folder), CheckpointError);
  saved.file = saved.folder / "model";
  CHECK_NOTHROW(check_checkpoint_place(saved.file));
  CHECK(!fs::exists(saved.file));
}

TEST_CASE("any flipped bit of a checkpoint is found") {
  Saved saved;
  saved.save();
  const std::string good = saved.bytes();
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    const std::size_t at = round < 48 ? static_cast<std::size_t>(round) : random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    saved.write(bad);
    INFO(at);
    CHECK(saved.refusal() != "accepted");
  }
  std::string bad = good;
  bad[bad.size() - 10] = static_cast<char>(bad[bad.size() - 10] ^ 4);
  saved.write(bad);
  CHECK_THAT(saved.refusal(), ContainsSubstring("damaged") && ContainsSubstring("'over.bias'"));
}

TEST_CASE("truncated checkpoints, too long checkpoints and other files get different errors") {
  Saved saved;
  saved.save();
  const std::string good = saved.bytes();
  for (const std::size_t size : {std::size_t{60}, good.size() / 2, good.size() - 1}) {
    saved.write(good.substr(0, size));
    CHECK_THAT(saved.refusal(), ContainsSubstring("cut short"));
  }
  saved.write(good + "x");
  CHECK_THAT(saved.refusal(), ContainsSubstring("too long"));
  for (const std::size_t size : {0, 8, 39}) {
    saved.write(good.substr(0, size));
    CHECK_THAT(saved.refusal(), ContainsSubstring("not a checkpoint"));
  }
  saved.write(std::string(500, 'x'));
  CHECK_THAT(saved.refusal(), ContainsSubstring("not a checkpoint"));
  fs::remove(saved.file);
  CHECK_THAT(saved.refusal(), ContainsSubstring("No such file"));
}

TEST_CASE("a checkpoint of another version is refused with its version") {
  Saved saved;
  saved.save();
  std::string other = saved.bytes();
  other[8] = 2;
  saved.write(other);
  CHECK_THAT(saved.refusal(), ContainsSubstring("version 2"));
}

TEST_CASE("a checkpoint of another model is refused before anything changes") {
  Saved saved;
  saved.save();
  const Checkpoint checkpoint{saved.file};
  std::vector<float> shorter(999), few(3);
  const ModelState other = saved.state(shorter, few);
  const std::string before = state_digest(other, saved.bench.context);
  CHECK_THROWS_WITH(checkpoint.restore(other, saved.bench.context),
                    ContainsSubstring("'table.a.weights'") && ContainsSubstring("1000") &&
                        ContainsSubstring("999"));
  CHECK(state_digest(other, saved.bench.context) == before);
  ModelState renamed = saved.state(saved.first, saved.second);
  renamed.tensors[1].name = "over.weight";
  CHECK_THROWS_WITH(checkpoint.restore(renamed, saved.bench.context),
                    ContainsSubstring("'over.weight'"));
  renamed.tensors.pop_back();
  CHECK_THROWS_AS(checkpoint.restore(renamed, saved.bench.context), CheckpointError);
}
