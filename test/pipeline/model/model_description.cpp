#include "millrace/pipeline/model/model_description.hpp"

#include <stdexcept>
#include <string>

#include "test/support/catch.hpp"

using namespace millrace;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string document(const std::string& more) {
  return R"({"schema": "millrace.model/1")" + (more.empty() ? "" : ", " + more) + "}";
}

std::string description_refusal(const std::string& json) {
  try {
    static_cast<void>(ModelDescription::parse(json, "model.json"));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

InputSchema two_tables() {
  return {.dense = {"age"},
          .sparse = {{"bought", "item", 100}, {"seen", "item", 100}, {"user", "user", 50}},
          .weighted = {{"tag", "tag", 20}}};
}

}  // namespace

TEST_CASE("a model description that is written is read back unchanged") {
  const ModelDescription given = ModelDescription::parse(
      document(R"("width": 4, "pooling": "mean", "tables": {"item": {"rows": 7, "pooling": "sum"}},
               "position_weights": {"seen": 3}, "dense_arch": [], "over_arch": [5, 6],
               "interaction": "concatenate",
               "table_optimizer": {"kind": "adam", "learning_rate": 0.1, "beta1": 0.7},
               "dense_optimizer": {"kind": "sgd", "learning_rate": 3})"),
      "model.json");
  const ModelDescription again = ModelDescription::parse(given.to_json(), "again");
  CHECK(again.to_json() == given.to_json());
  CHECK(difference(given, again).empty());
  CHECK(again.tables.at("item").rows == 7);
  CHECK(again.table_optimizer.learning_rate == 0.1F);
}

TEST_CASE("the models that ship can be read, and their difference is described") {
  CHECK(ModelDescription::names() == std::vector<std::string>{"adult", "criteo", "synthetic"});
  for (const std::string& name : ModelDescription::names()) {
    CHECK_NOTHROW(ModelDescription::named(name));
  }
  CHECK_THAT(difference(ModelDescription::named("adult"), ModelDescription::named("criteo")),
             ContainsSubstring(", not "));
  CHECK_THROWS_WITH(ModelDescription::named("audlt"), ContainsSubstring("adult, criteo"));
}

TEST_CASE("an invalid model description is refused with the place, the value and what is valid") {
  CHECK_THAT(description_refusal("{"),
             ContainsSubstring("model.json:1") && ContainsSubstring("not JSON"));
  CHECK_THAT(description_refusal("[]"), ContainsSubstring("an object"));
  CHECK_THAT(description_refusal("{}"), ContainsSubstring("'schema' is missing"));
  CHECK_THAT(description_refusal(R"({"schema": "millrace.model/2"})"),
             ContainsSubstring("millrace.model/1"));
  CHECK_THAT(description_refusal(document(R"("widht": 4)")),
             ContainsSubstring("'widht' is not a key of a model"));
  CHECK_THAT(description_refusal(document(R"("width": 0)")), ContainsSubstring("'width' is 0"));
  CHECK_THAT(description_refusal(document(R"("width": 4, "width": 8)")),
             ContainsSubstring("twice"));
  CHECK_THAT(description_refusal(document(R"("pooling": "max")")),
             ContainsSubstring("\"max\"") && ContainsSubstring("\"sum\" or \"mean\""));
  CHECK_THAT(description_refusal(document(R"("over_arch": [4, -1])")),
             ContainsSubstring("'over_arch[1]' is -1"));
  CHECK_THAT(description_refusal(document(R"("over_arch": 4)")), ContainsSubstring("a list"));
  CHECK_THAT(description_refusal(document(R"("tables": {"item": {"row": 4}})")),
             ContainsSubstring("'tables.item.row' is not a key of a table"));
  CHECK_THAT(description_refusal(document(R"("table_optimizer": {"kind": "adagard"})")),
             ContainsSubstring("table_optimizer.kind") && ContainsSubstring("\"adagrad\""));
  CHECK_THAT(description_refusal(document(R"("dense_optimizer": {"kind": "rowwise-adagrad"})")),
             ContainsSubstring("no rows"));
  CHECK_THAT(description_refusal(document(R"("dense_optimizer": {"learning_rate": 1})")),
             ContainsSubstring("'dense_optimizer.kind' is missing"));
}

TEST_CASE("tables and their features come from the data, in their order") {
  ModelDescription description;
  description.width = 8;
  description.tables["user"] = {.rows = 60, .width = {}, .pooling = Pooling::mean};
  const SparseNNConfig config = description.config(two_tables(), 5);
  REQUIRE(config.tables.size() == 2);
  CHECK(config.tables[0].name == "item");
  CHECK(config.tables[0].features == std::vector<std::string>{"bought", "seen"});
  CHECK(config.tables[0].rows == 100);
  CHECK(config.tables[1].rows == 60);
  CHECK(config.tables[1].pooling == Pooling::mean);
  CHECK(config.weighted_tables.at(0).rows == 20);
  CHECK(config.dense_features == 1);
  CHECK(config.seed == 5);
}

TEST_CASE("a table or a feature that the data lack is refused with the names of the data") {
  ModelDescription description;
  description.tables["itme"] = {};
  CHECK_THROWS_WITH(description.config(two_tables(), 1),
                    ContainsSubstring("'itme'") && ContainsSubstring("item, tag, user"));
  description.tables.clear();
  description.position_weights["tag"] = 2;  // a weighted feature
  CHECK_THROWS_WITH(description.config(two_tables(), 1),
                    ContainsSubstring("'tag'") && ContainsSubstring("bought, seen, user"));
}
