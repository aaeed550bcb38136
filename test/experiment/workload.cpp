#include "millrace/experiment/workload.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::experiment;
using Catch::Matchers::ContainsSubstring;
using Json = nlohmann::json;

namespace {

Json valid() {
  return {{"schema", "millrace.workload/1"},
          {"batch_size", 1000},
          {"num_unweighted_features", 3},
          {"num_weighted_features", 2},
          {"num_float_features", 4},
          {"feature_pooling_avg", 10},
          {"activations", "1GiB"}};
}

std::string refusal(const Json& json) {
  try {
    (void)Workload::parse(json.dump(), "mine.json");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal_with(const char* key, const Json& value) {
  Json json = valid();
  json[key] = value;
  return refusal(json);
}

}  // namespace

TEST_CASE("a workload with the required keys is read and named after its file") {
  const Workload workload = Workload::parse(valid().dump(), "folder/mine.json");
  CHECK(workload.name == "mine");
  CHECK(workload.batch_size == 1000);
  CHECK(workload.activations == std::size_t{1} << 30);
  CHECK(workload.shape == PipelineKind::sparse_dist);
}

TEST_CASE("the mean batch counts ids, lengths, offsets, weights, floats and labels") {
  const Workload workload = Workload::parse(valid().dump(), "mine.json");
  const std::size_t ids = 5 * 10 * 8, lengths = 5 * 8, offsets = lengths, weights = 2 * 10 * 4,
                    floats = 5 * 4;
  CHECK(workload.mean_batch_bytes() == 1000 * (ids + lengths + offsets + weights + floats));
}

TEST_CASE("scaling changes the samples of a batch and nothing else") {
  const Workload workload = Workload::named("sparse_data_dist_base").scaled_to(1 << 30);
  CHECK(std::abs(static_cast<double>(workload.mean_batch_bytes()) / (1 << 30) - 1) < 1e-4);
  CHECK(workload.num_unweighted_features == 90);
  CHECK(workload.table_bytes() == Workload::named("sparse_data_dist_base").table_bytes());
}

TEST_CASE("every workload that ships is valid and is found by its name") {
  REQUIRE(!Workload::names().empty());
  for (const std::string& name : Workload::names()) {
    CHECK(Workload::named(name).mean_batch_bytes() > 0);
  }
}

TEST_CASE("an unknown workload is refused with the list of names") {
  CHECK_THROWS_WITH(Workload::named("nothing"), ContainsSubstring("sparse_data_dist_base"));
}

TEST_CASE("an unknown key of a workload is refused by its name") {
  CHECK_THAT(refusal_with("batch_sise", 5),
             ContainsSubstring("mine.json: 'batch_sise' is not a key"));
}

TEST_CASE("a workload with a missing key is refused with the key") {
  Json json = valid();
  json.erase("batch_size");
  CHECK(refusal(json) == "mine.json: 'batch_size' is missing");
}

TEST_CASE("negative sizes and counts are refused with the key, the value and what is valid") {
  CHECK_THAT(refusal_with("batch_size", -5),
             ContainsSubstring("mine.json: 'batch_size' is -5, but must be a whole number from 1"));
  CHECK_THAT(refusal_with("activations", -1), ContainsSubstring("'activations' is -1"));
  CHECK_THAT(refusal_with("activations", "-1GiB"), ContainsSubstring("'activations' is \"-1GiB\""));
  CHECK_THAT(refusal_with("feature_pooling_std", -0.5), ContainsSubstring("feature_pooling_std"));
}

TEST_CASE("values of the wrong type are refused with the valid type") {
  CHECK_THAT(refusal_with("batch_size", "many"), ContainsSubstring("a whole number"));
  CHECK_THAT(refusal_with("batch_size", 1.5), ContainsSubstring("a whole number"));
  CHECK_THAT(refusal_with("batch_size", true), ContainsSubstring("a whole number"));
  CHECK_THAT(refusal_with("batch_size", nullptr), ContainsSubstring("a whole number"));
  CHECK_THAT(refusal_with("compute_to_copy", "2"), ContainsSubstring("a number from"));
  CHECK_THAT(refusal_with("activations", 1.5), ContainsSubstring("\"4GiB\""));
  CHECK_THAT(refusal_with("description", 1), ContainsSubstring("a text"));
  CHECK_THAT(refusal_with("shape", "round"), ContainsSubstring("\"base\" or \"sparse-dist-lite\""));
  CHECK_THAT(refusal_with("additional_tables", 3), ContainsSubstring("a list"));
}

TEST_CASE("an error in a list names the entry") {
  const Json tables = {{{"num_embeddings", 10}, {"embedding_dim", 4}},
                       {{"num_embeddings", -10}, {"embedding_dim", 4}}};
  CHECK_THAT(refusal_with("additional_tables", tables),
             ContainsSubstring("'additional_tables[1].num_embeddings' is -10"));
}

TEST_CASE("a batch without features or of more than 1 TiB is refused") {
  Json json = valid();
  for (const char* key :
       {"num_unweighted_features", "num_weighted_features", "num_float_features"}) {
    json[key] = 0;
  }
  CHECK_THAT(refusal(json), ContainsSubstring("no features"));
  json = valid();
  json["batch_size"] = 100'000'000;
  json["num_weighted_features"] = 100'000;
  CHECK_THAT(refusal(json), ContainsSubstring("at most 1 TiB"));
}

TEST_CASE("text that is not JSON is refused with line and column") {
  const auto message = [](const char* text) {
    try {
      (void)Workload::parse(text, "mine.json");
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  CHECK(message("{\n\"batch_size\": ,\n}") ==
        "mine.json:2:15: this is not JSON: found ',' where a value must stand");
  CHECK_THAT(message(""), ContainsSubstring("this is not JSON"));
  CHECK_THAT(message("[]"), ContainsSubstring("the document is []"));
  CHECK_THAT(message("{\"a\":1,\"a\":2}"),
             ContainsSubstring("mine.json:1:8: the key 'a' occurs twice"));
  CHECK(message("{\"batch_size\": 1e999}") ==
        "mine.json:1:16: a number is greater than any that a double can hold");
}

TEST_CASE("a misspelled key is refused with a suggestion") {
  CHECK(refusal_with("batch_sise", 5) ==
        "mine.json: 'batch_sise' is not a key of a workload (did you mean batch_size?)");
  CHECK(refusal_with("xyz", 5) == "mine.json: 'xyz' is not a key of a workload");
  CHECK(refusal_with(std::string(100'000, 'k').c_str(), 5).size() < 100);
}

TEST_CASE("a document of more than 64 levels or 4 MiB is refused") {
  const auto nested = [](std::size_t depth) {
    const std::string text(depth, '[');
    return text + std::string(depth, ']');
  };
  const auto message = [](const std::string& text) {
    try {
      (void)Workload::parse(text, "mine.json");
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  CHECK_THAT(message(nested(64)), ContainsSubstring("the document is [[["));
  CHECK(message(nested(65)) == "mine.json:1:65: nested more than 64 deep");
  CHECK(message(std::string(1'000'000, '[')) == "mine.json:1:65: nested more than 64 deep");

  constexpr std::size_t most = std::size_t{4} << 20;
  std::string text = valid().dump();
  text += std::string(most - text.size(), ' ');
  CHECK(message(text) == "accepted");
  CHECK(message(text + " ") == "mine.json: has 4194305 bytes, more than the 4194304 that are read");
}

TEST_CASE("a device file is refused as a workload") {
  CHECK_THROWS_WITH(Workload::load("/dev/zero"), "/dev/zero: is a device, not a file or a pipe");
}

TEST_CASE("a workload with another schema is refused") {
  CHECK_THAT(refusal_with("schema", "millrace.workload/2"),
             ContainsSubstring("must be \"millrace.workload/1\""));
}

TEST_CASE("a workload file that does not exist is refused with its name") {
  CHECK_THROWS_WITH(Workload::load("no/such/file.json"),
                    ContainsSubstring("no/such/file.json: cannot be opened: No such file"));
}

TEST_CASE("dense features of 1 or 2 bytes are padded to whole floats per sample") {
  Workload workload = Workload::parse(valid().dump(), "mine.json");
  workload.num_float_features = 101;
  const std::size_t as_floats = workload.mean_batch_bytes();
  workload.float_feature_bytes = 1;
  CHECK(as_floats - workload.mean_batch_bytes() == 1000 * (101 * 4 - 104));
  CHECK(draw_batches(workload, 1, 1).front().tensor_bytes().front() == 1000 * 104);
  CHECK_THAT(refusal_with("float_feature_bytes", 3), ContainsSubstring("1, 2 or 4"));
  Json with_model = valid();
  with_model["float_feature_bytes"] = 2;
  with_model["model"] = Json::object();
  CHECK_THAT(refusal(with_model), ContainsSubstring("'float_feature_bytes' is 2, but must be 4"));
}

TEST_CASE("a workload that is written is read back unchanged") {
  Json json = valid();
  json.update({{"parameters", "3MiB"},
               {"gradients", 0},
               {"optimizer_state", "6MiB"},
               {"activations_by_ids", 0.5},
               {"layer_ratio", 0.5},
               {"checkpoint_every", 2},
               {"accumulate", 4},
               {"evaluate_every", 100},
               {"evaluation_batches", 7},
               {"gathered", "1GiB"},
               {"gathers_ahead", 2},
               {"offload_every", 3},
               {"offloads_ahead", 0},
               {"copies_ahead", 2},
               {"host_us", 4.5},
               {"float_feature_bytes", 2}});
  const std::string written = Workload::parse(json.dump(), "mine.json").to_json();
  CHECK(Workload::parse(written, "mine.json").to_json() == written);
  const Json again = Json::parse(written);
  for (const char* const key : {"activations_by_ids", "accumulate", "gathers_ahead", "host_us",
                                "offload_every", "offloads_ahead", "copies_ahead"}) {
    CHECK(again.at(key) == json.at(key));
  }
  CHECK(again.at("gathered") == std::size_t{1} << 30);
  CHECK(again.at("gradients") == 0);
}
