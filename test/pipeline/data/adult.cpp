#include "millrace/pipeline/data/adult.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "test/pipeline/data/source_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string adult_line(int age, const std::string& work, int gain, const std::string& income) {
  return std::to_string(age) + "," + work +
         ",100,Masters,13,Never-married,Sales,Husband,White,Male," + std::to_string(gain) +
         ",0,40,Cuba," + income + "\n";
}

const std::string kTrain = adult_line(20, "Private", 0, "<=50K") + adult_line(30, "?", 0, ">50K") +
                           adult_line(40, "Private", 5000, ">50K") +
                           adult_line(50, "State-gov", 0, "<=50K");

AdultData read(const std::string& train, const std::string& test,
               const AdultSettings& settings = {}) {
  return read_adult(text_source("train", train), text_source("test", test), settings);
}

std::vector<std::int64_t> column(const ExampleTable& table, std::size_t feature) {
  std::vector<std::int64_t> ids;
  for (std::size_t row = 0; row < table.size(); ++row) {
    ids.push_back(table.ids[row * table.schema.sparse.size() + feature]);
  }
  return ids;
}

using Ids = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the training file gives each category its row, an unseen category gets row 0") {
  const AdultData data = read(kTrain, adult_line(20, "Never-worked", 0, "<=50K.") +
                                          adult_line(20, "State-gov", 0, ">50K."));
  CHECK(data.train->schema.sparse[1].name == "workclass");
  CHECK(data.train->schema.sparse[1].rows == 4);
  CHECK(column(*data.train, 1) == Ids{2, 1, 2, 3});
  CHECK(column(*data.test, 1) == Ids{0, 3});
  CHECK(data.test->labels == std::vector<float>{0, 1});
}

TEST_CASE("number buckets have equally many distinct values, the end buckets are open") {
  const std::string test = adult_line(1, "?", 0, ">50K") + adult_line(29, "?", 0, ">50K") +
                           adult_line(30, "?", 0, ">50K") + adult_line(99, "?", 0, ">50K");
  const AdultData fine = read(kTrain, test);
  CHECK(fine.train->schema.sparse[0].rows == 4);
  CHECK(column(*fine.train, 0) == Ids{0, 1, 2, 3});
  CHECK(column(*fine.test, 0) == Ids{0, 0, 1, 3});
  const AdultData coarse = read(kTrain, test, {.buckets = 2});
  CHECK(coarse.train->schema.sparse[0].rows == 2);
  CHECK(column(*coarse.train, 0) == Ids{0, 0, 1, 1});
}

TEST_CASE("dense features are scaled by the training file") {
  const AdultData data = read(kTrain, kTrain);
  REQUIRE(data.train->schema.dense.size() == 6);
  double sum = 0, squares = 0;
  for (std::size_t row = 0; row < 4; ++row) {
    sum += data.train->dense[row * 6];
    squares += data.train->dense[row * 6] * data.train->dense[row * 6];
  }
  CHECK(sum == Approx(0).margin(1e-6));
  CHECK(squares == Approx(4));
  CHECK(data.train->dense[1] == 0);  // a column with one value
  CHECK(data.train->dense == data.test->dense);
}

TEST_CASE("spaces, empty lines, CRLF and the test file's first line do not change the data") {
  std::string spaced = "|1x3 Cross validator\r\n\r\n";
  for (const char letter : kTrain) {
    if (letter == '\n') spaced += '\r';
    spaced += letter;
    if (letter == ',') spaced += ' ';
  }
  spaced.resize(spaced.size() - 2);  // no line end at the end of the file
  const AdultData data = read(kTrain, spaced);
  CHECK(data.malformed_test.count == 0);
  CHECK(data.test->ids == data.train->ids);
  CHECK(data.test->labels == data.train->labels);
}

TEST_CASE("malformed lines of Adult are counted and shown with their line numbers") {
  std::string wrong_income = adult_line(20, "Private", 0, "50K");
  const std::string text = kTrain + "1,2,3\n" + kTrain + adult_line(-3, "Private", 0, "<=50K") +
                           wrong_income + adult_line(20, "", 0, "<=50K");
  const AdultData data = read(text, kTrain, {.malformed = {.limit = 4, .shown = 3}});
  CHECK(data.train->size() == 8);
  CHECK(data.malformed_train.count == 4);
  REQUIRE(data.malformed_train.first.size() == 3);
  CHECK(data.malformed_train.first[0].number == 5);
  CHECK(data.malformed_train.first[0].reason == "3 fields, not 15");
  CHECK(data.malformed_train.first[0].text == "1,2,3");
  CHECK(data.malformed_train.first[1].number == 10);
  CHECK_THAT(data.malformed_train.first[1].reason, ContainsSubstring("age"));
  CHECK_THAT(data.malformed_train.first[2].reason, ContainsSubstring("income"));
  CHECK_THROWS_WITH(read(text, kTrain, {.malformed = {.limit = 3}}),
                    ContainsSubstring("train: more than the 3") && ContainsSubstring("line 5"));
}

TEST_CASE("files without examples are refused by name") {
  CHECK_THROWS_WITH(read(kTrain, ""), ContainsSubstring("test has no examples"));
  CHECK_THROWS_WITH(read("x\n", kTrain),
                    ContainsSubstring("train has no examples") && ContainsSubstring("line 1"));
  CHECK_THROWS_AS(read_adult(std::filesystem::path{"/nowhere"}), RetriableError);
  CHECK_THROWS_AS(read(kTrain, kTrain, {.buckets = 0}), std::invalid_argument);
}

TEST_CASE("a file with more examples than the limit is refused") {
  CHECK(read(kTrain, kTrain, {.max_examples = 4}).train->size() == 4);
  CHECK_THROWS_WITH(read(kTrain, kTrain, {.max_examples = 3}),
                    "train has more than the 3 examples that are read of this format");
}

TEST_CASE("all of UCI Adult is read, with tables sized by its data") {
  const auto folder = data_folder();
  if (!folder || !std::filesystem::exists(*folder / "adult")) SKIP("no data/adult");
  const AdultData data = read_adult(*folder / "adult");
  CHECK(data.train->size() == 32'561);
  CHECK(data.test->size() == 16'281);
  CHECK(data.malformed_train.count + data.malformed_test.count == 0);
  CHECK(std::ranges::count(data.train->labels, 1.0F) == 7841);
  CHECK(std::ranges::count(data.test->labels, 1.0F) == 3846);
  std::map<std::string, std::size_t> rows;
  for (const SparseFeature& feature : data.train->schema.sparse) rows[feature.name] = feature.rows;
  CHECK(rows.at("native-country") == 43);
  CHECK(rows.at("sex") == 3);
  CHECK(rows.at("education-num") == 16);
  CHECK(rows.at("fnlwgt") == 64);

  JaggedBench bench;
  TableSource source{data.test, {.batch_size = 1000}, {bench.host_memory, bench.copy}};
  while (const auto batch = source.next()) check_ids(batch->contents(), source.schema());
  CHECK(source.position().batch == 17);
}
