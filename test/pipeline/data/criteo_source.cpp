#include "millrace/pipeline/data/criteo_source.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "data/criteo_line.hpp"
#include "test/pipeline/data/source_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/gzip.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Line `number`: its parity is the label, I1 and C1 hold the number, I2 is negative, I3 is empty.
/// C2 is empty in every third line.
std::string line(int number) {
  std::string text = std::to_string(number % 2) + "\t" + std::to_string(number);
  for (int i = 2; i <= 13; ++i) text += i == 2 ? "\t-5" : i == 3 ? "\t" : "\t7";
  for (int i = 1; i <= 26; ++i) {
    text += i == 1                      ? "\t" + std::to_string(number)
            : i == 2 && number % 3 == 0 ? "\t"
                                        : "\t68fd1e64";
  }
  return text + "\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line(i);
  return text;
}

struct CriteoBench : JaggedBench {
  [[nodiscard]] CriteoSource open(const ByteSource& file, const CriteoSettings& settings) {
    return {file, settings, {host_memory, copy}};
  }
  [[nodiscard]] CriteoSource open(const std::string& text, const CriteoSettings& settings) {
    return open(text_source("clicks.tsv", text), settings);
  }
};

/// A file that the destructor removes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("millrace_criteo_" + std::to_string(std::hash<std::string>{}(bytes)))) {
    std::ofstream{path_, std::ios::binary} << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The line numbers of all remaining examples, computed from I1.
std::vector<int> numbers_of_rest(EpochSource& source) {
  std::vector<int> numbers;
  while (const auto batch = source.next()) {
    const auto dense = list<float>(batch->contents().dense);
    for (std::size_t row = 0; row < batch->batch_size(); ++row) {
      numbers.push_back(static_cast<int>(std::lround(std::expm1(dense[row * 13]))));
    }
  }
  return numbers;
}

std::vector<int> count_to(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<std::size_t>(i)] = i;
  return numbers;
}

}  // namespace

TEST_CASE("a Criteo line becomes one example") {
  CriteoBench bench;
  CriteoSource source = bench.open(lines(4), {.batch_size = 4});
  const auto read = source.next();
  REQUIRE(read);
  const InputTensors& batch = read->contents();
  CHECK(list<float>(batch.labels) == std::vector<float>{0, 1, 0, 1});
  const auto dense = list<float>(batch.dense);
  CHECK(dense[13] == static_cast<float>(std::log1p(1.0)));
  CHECK(dense[1] == 0);  // negative
  CHECK(dense[2] == 0);  // empty
  CHECK(batch.sparse.key_count() == 26);
  CHECK(batch.sparse.value_count(1) == 2);  // two of the lines have no C2
  const auto lengths = list<std::int32_t>(batch.sparse.lengths());
  CHECK(std::vector<std::int32_t>(lengths.begin() + 4, lengths.begin() + 8) ==
        std::vector<std::int32_t>{0, 1, 1, 0});
  CHECK_FALSE(source.next());
}

TEST_CASE("a category has one id in all lines, and another id in another column") {
  std::vector<std::size_t> rows(kCriteoCategories, 1'000'000);
  CriteoRow first, second;
  CHECK(parse_criteo_line(lines(1).substr(0, lines(1).size() - 1), rows, first).empty());
  const std::string other = line(7);
  CHECK(parse_criteo_line(other.substr(0, other.size() - 1), rows, second).empty());
  CHECK(first.ids[5] == second.ids[5]);
  CHECK(first.ids[5] != first.ids[6]);
  CHECK(first.ids[0] != second.ids[0]);
}

TEST_CASE("hashed categories are rows of tables of the requested sizes") {
  CriteoBench bench;
  CriteoSettings settings{.batch_size = 50, .value_type = IndexType::int32};
  settings.rows.clear();
  for (std::size_t table = 0; table < 26; ++table) settings.rows.push_back(table + 1);
  CriteoSource source = bench.open(lines(200), settings);
  CHECK(source.schema().sparse[25].rows == 26);
  while (const auto batch = source.next()) check_ids(batch->contents(), source.schema());
  CHECK(source.position().batch == 4);
}

TEST_CASE("gzip data of several members gives the same batches as plain text") {
  const std::string text = lines(3000);
  const TemporaryFile file{gzipped(text.substr(0, 100'000)) + gzipped(text.substr(100'000))};
  CriteoBench bench;
  CriteoSource packed = bench.open(file_source(file.path()), {.batch_size = 256});
  CriteoSource plain = bench.open(text, {.batch_size = 256});
  CHECK(rest_of(packed) == rest_of(plain));
}

TEST_CASE("truncated or damaged gzip data is refused after the batches before the damage") {
  const std::string whole = gzipped(lines(3000));
  std::string damaged = whole;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  CriteoBench bench;
  const TemporaryFile cut{whole.substr(0, whole.size() / 2)}, wrong{damaged};
  CriteoSource short_source = bench.open(file_source(cut.path()), {.batch_size = 64});
  CHECK_THROWS_WITH(rest_of(short_source),
                    ContainsSubstring(cut.path().string()) && ContainsSubstring("cut short"));
  CHECK(short_source.position().batch > 0);
  CriteoSource wrong_source =
      bench.open(file_source(wrong.path()), {.batch_size = 64, .malformed = {.limit = 10'000}});
  CHECK_THROWS_AS(rest_of(wrong_source), DataError);
}

TEST_CASE("a missing file is a retriable error, a folder is refused") {
  CriteoBench bench;
  CriteoSource none = bench.open(file_source("/nowhere/clicks.tsv"), {});
  CHECK_THROWS_AS(none.next(), RetriableError);
  CriteoSource folder = bench.open(file_source(std::filesystem::temp_directory_path()), {});
  CHECK_THROWS_WITH(folder.next(), ContainsSubstring("folder"));
}

TEST_CASE("malformed lines are left out, counted, and shown with their numbers") {
  CriteoBench bench;
  std::string text = lines(2) + "nonsense\n" + line(2) + "2" + line(0).substr(1) + line(3);
  text += "0\tx" + line(1).substr(3);
  text += std::string(100'000, '\t') + "\n\n" + line(4);
  CriteoSource source = bench.open(text, {.batch_size = 2, .malformed = {.shown = 3}});
  CHECK(numbers_of_rest(source) == count_to(5));
  const MalformedLines malformed = source.malformed();
  CHECK(malformed.count == 4);
  REQUIRE(malformed.first.size() == 3);
  CHECK(malformed.first[0].number == 3);
  CHECK(malformed.first[0].reason == "1 columns, not 40");
  CHECK(malformed.first[0].text == "nonsense");
  CHECK(malformed.first[1].number == 5);
  CHECK(malformed.first[2].reason == "I1 is not an integer");
  CHECK_THAT(malformed.describe(), ContainsSubstring("4 malformed lines; line 3: 1 columns"));

  source.next_epoch();
  CHECK(numbers_of_rest(source) == count_to(5));
  CHECK(source.malformed().count == 4);
}

TEST_CASE("malformed lines over the limit are an error that shows the first of them") {
  CriteoBench bench;
  const std::string text = lines(2) + "a\nb\nc\n" + line(2);
  CriteoSource source = bench.open(text, {.batch_size = 8, .malformed = {.limit = 2, .shown = 1}});
  CHECK_THROWS_WITH(source.next(), ContainsSubstring("clicks.tsv") && ContainsSubstring("the 2") &&
                                       ContainsSubstring("line 3") && ContainsSubstring("'a'"));
  CHECK(source.position() == BatchPosition{});
  CHECK(source.malformed().count == 3);
}

TEST_CASE("a Criteo source gives the same batches after a seek to any position") {
  const std::optional<std::uint64_t> shuffle =
      GENERATE(as<std::optional<std::uint64_t>>{}, std::nullopt, std::optional<std::uint64_t>{3});
  CriteoBench bench;
  const CriteoSettings settings{.batch_size = 7, .shuffle = shuffle, .shuffle_window = 20};
  CriteoSource source = bench.open(lines(60), settings);
  source.seek({1, 0});
  const auto all = rest_of(source);
  REQUIRE(all.size() == 9);
  for (const std::uint64_t batch : {4U, 0U, 8U, 2U, 9U, 1000U, 3U}) {
    source.seek({1, batch});
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(batch, 9));
    CHECK(rest_of(source) == std::vector<BatchBytes>{begin, all.end()});
  }
}

TEST_CASE("each epoch has every line once, shuffled within windows in a new order") {
  CriteoBench bench;
  CriteoSource source =
      bench.open(lines(50), {.batch_size = 7, .shuffle = 3, .shuffle_window = 20});
  const auto first = numbers_of_rest(source);
  source.next_epoch();
  CHECK(numbers_of_rest(source) != first);
  CHECK(first != count_to(50));
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i] / 20 == static_cast<int>(i) / 20);
  }
  auto sorted = first;
  std::ranges::sort(sorted);
  CHECK(sorted == count_to(50));
}

TEST_CASE("a read that fails in the middle of a file loses no example") {
  class Failing final : public ByteStream {
   public:
    Failing(std::unique_ptr<ByteStream> inner, int& failures)
        : inner_(std::move(inner)), failures_(failures) {}
    std::size_t read(std::span<char> room) override {
      if (++reads_ == 3 && failures_ > 0) {
        --failures_;
        throw RetriableError{"the disk"};
      }
      return inner_->read(room.first(std::min<std::size_t>(room.size(), 1000)));
    }

   private:
    std::unique_ptr<ByteStream> inner_;
    int& failures_;
    int reads_ = 0;
  };
  CriteoBench bench;
  const ByteSource text = text_source("clicks.tsv", lines(60));
  int failures = 2;
  const ByteSource failing{"clicks.tsv",
                           [&] { return std::make_unique<Failing>(text.open(), failures); }};
  CriteoSource source = bench.open(failing, {.batch_size = 3});
  std::vector<BatchBytes> batches;
  int seen = 0;
  while (true) {
    try {
      const auto batch = source.next();
      if (!batch) break;
      batches.push_back(bytes_of(*batch));
    } catch (const RetriableError&) {
      ++seen;
    }
  }
  CHECK(seen == 2);
  CriteoSource whole = bench.open(text, {.batch_size = 3});
  CHECK(batches == rest_of(whole));
}

TEST_CASE("with drop_last a short last batch of a file is left out") {
  CriteoBench bench;
  CriteoSource source = bench.open(lines(8), {.batch_size = 3, .drop_last = true});
  CHECK(numbers_of_rest(source) == count_to(6));
  CHECK_FALSE(source.next());
}

TEST_CASE("invalid settings of a Criteo source are refused") {
  CriteoBench bench;
  CHECK_THROWS_AS(bench.open("", {.batch_size = 0}), std::invalid_argument);
  CHECK_THROWS_WITH(bench.open("", {.rows = {1, 2}}), ContainsSubstring("2 numbers of rows"));
  CHECK_THROWS_WITH(bench.open("", {.rows = {0}}), ContainsSubstring("no rows"));
  CHECK_THROWS_AS(bench.open("", {.shuffle = 1, .shuffle_window = 0}), std::invalid_argument);
}

TEST_CASE("the number of examples is estimated from the file's size, and exact after an epoch") {
  CriteoBench bench;
  constexpr int kLines = 20'000;
  const bool packed = GENERATE(false, true);
  const std::string text = lines(kLines);
  const TemporaryFile file{packed ? gzipped(text) : text};
  CriteoSource source = bench.open(file_source(file.path()), {.batch_size = 500});
  CHECK(!source.examples_expected());
  for (int i = 0; i < 30; ++i) REQUIRE(source.next());
  const double expected = static_cast<double>(source.examples_expected().value());
  CHECK(std::abs(expected - kLines) < kLines / 5);
  while (source.next()) {
  }
  CHECK(source.examples_expected() == kLines);
  source.next_epoch();
  REQUIRE(source.next());
  CHECK(source.examples_expected() == kLines);
}
