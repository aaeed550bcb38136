#include <algorithm>

#include "millrace/observe/trace/pickle.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"
#include "test/support/sizes.hpp"

namespace {

using Catch::Matchers::ContainsSubstring;
using millrace::test::MiB;
using millrace::test::refusal;
using millrace::test::to_pickle;
using nlohmann::json;
using namespace millrace::trace;

json small_snapshot() {
  return json::parse(R"({
    "segments": [
      {"device": 0, "address": 2097152, "total_size": 2097152, "allocated_size": 1024, "active_size": 1024,
       "requested_size": 1000, "stream": 7, "segment_type": "small", "segment_pool_id": [0, 1],
       "is_expandable": true, "frames": [],
       "blocks": [
         {"address": 2097152, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []},
         {"address": 2098176, "size": 512, "requested_size": 10, "state": "active_pending_free"},
         {"address": 2098688, "size": 2095616, "requested_size": 77, "state": "inactive"}]}],
    "device_traces": [[
      {"action": "alloc", "addr": 2097152, "size": 1000, "stream": 7, "time_us": 5, "frames": []},
      {"action": "oom", "device_free": 4096, "size": 9000, "stream": 7, "time_us": 6.0},
      {"action": "snapshot", "addr": 0, "size": 1536, "stream": 0, "time_us": 7}]],
    "allocator_settings": {
      "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,large_segment_size_mb:40", "max_split_size": 67108864,
      "garbage_collection_threshold": 0.8, "expandable_segments": true,
      "roundup_power2_divisions": {"1": 4, "2": 8}},
    "external_annotations": [{"stage": "START", "name": "step", "device": 0, "time_us": 1}],
    "a key of tomorrow": {}})");
}

struct Result {
  TorchSnapshot snapshot;
  std::vector<std::string> warnings;
};

Result read_snapshot(const json& data) {
  const ValueTree tree = read_pickle(to_pickle(data), "file");
  Warnings warnings;
  Result result;
  result.snapshot = read_torch_snapshot(tree, "file", warnings);
  result.warnings = warnings.lines();
  return result;
}

std::string refused_snapshot(const json& data) {
  return refusal([&] { return read_snapshot(data); });
}

std::string refused_with(const char* pointer, const json& value) {
  json data = small_snapshot();
  data[json::json_pointer{pointer}] = value;
  return refused_snapshot(data);
}

}  // namespace

TEST_CASE("a snapshot's segments, blocks, events and settings are read") {
  const auto [snapshot, warnings] = read_snapshot(small_snapshot());
  CHECK(warnings.empty());

  REQUIRE(snapshot.segments.size() == 1);
  const TorchSegment expected{
      .device = 0,
      .address = 2 * MiB,
      .bytes = 2 * MiB,
      .stream = 7,
      .large = false,
      .expandable = true,
      .pool = {0, 1},
      .blocks = {{2 * MiB, 1024, 1000, BlockState::allocated},
                 {2 * MiB + 1024, 512, 10, BlockState::pending_free},
                 {2 * MiB + 1536, 2 * MiB - 1536, 0, BlockState::inactive}}};
  CHECK(snapshot.segments[0] == expected);

  REQUIRE(snapshot.traces.size() == 1);
  CHECK(snapshot.traces[0] ==
        std::vector<TorchEvent>{{TorchAction::alloc, 2 * MiB, 1000, 7, 5},
                                {TorchAction::out_of_memory, 4096, 9000, 7, 6},
                                {TorchAction::snapshot}});

  CHECK(snapshot.settings.max_split_size == 64 * MiB);
  CHECK(snapshot.settings.large_segment_size == 40 * MiB);
  CHECK(snapshot.settings.garbage_collection_threshold == 0.8);
  CHECK(snapshot.settings.expandable_segments);
  CHECK(snapshot.settings.roundup_power2_divisions[0] == 4);
  CHECK(snapshot.settings.roundup_power2_divisions[1] == 8);
  CHECK(snapshot.settings.roundup_power2_divisions[2] == 0);
}

TEST_CASE("keys that older versions do not write may be missing") {
  json data = small_snapshot();
  data.erase("device_traces");
  data.erase("allocator_settings");
  data.erase("external_annotations");
  json& segment = data["segments"][0];
  for (const char* const key :
       {"device", "stream", "segment_pool_id", "is_expandable", "frames", "allocated_size"}) {
    segment.erase(key);
  }
  for (json& block : segment["blocks"]) {
    block.erase("address");
    block.erase("requested_size");
  }
  const auto [snapshot, warnings] = read_snapshot(data);
  CHECK(warnings.empty());
  CHECK(snapshot.traces.empty());
  CHECK(snapshot.settings == TorchSettings{});
  CHECK(snapshot.segments[0].blocks[1] ==
        TorchBlock{2 * MiB + 1024, 512, 512, BlockState::pending_free});
}

TEST_CASE("a list of segments alone is a snapshot without a trace") {
  const auto [snapshot, warnings] = read_snapshot(small_snapshot()["segments"]);
  CHECK(snapshot.segments.size() == 1);
  CHECK(snapshot.traces.empty());
}

TEST_CASE("a value of the wrong type is refused with its path of keys") {
  CHECK(refused_snapshot(json::object()) == "file: 'segments' is missing");
  CHECK(refused_snapshot(5) == "file: is an integer, should be a dict");
  CHECK(refused_with("/segments", "x") == "file: segments: is a string, should be a list");
  CHECK(refused_with("/segments/0/blocks/1/size", "512") ==
        "file: segments[0].blocks[1].size: is a string, should be an integer");
  CHECK(refused_with("/segments/0/blocks/1", json::object()) ==
        "file: segments[0].blocks[1]: 'size' is missing");
  CHECK_THAT(
      refused_with("/segments/0/blocks/1/state", "busy"),
      ContainsSubstring("segments[0].blocks[1].state: is 'busy', should be 'active_allocated'"));
  CHECK_THAT(refused_with("/segments/0/segment_type", "huge"),
             ContainsSubstring("should be 'large' or 'small'"));
  CHECK(refused_with("/segments/0/segment_pool_id", json::array({1})) ==
        "file: segments[0].segment_pool_id: should be a tuple of two");
  CHECK(refused_with("/device_traces/0/1/action", 3) ==
        "file: device_traces[0][1].action: is an integer, should be a string");
  CHECK(refused_with("/device_traces/0/0", json{{"action", "alloc"}}) ==
        "file: device_traces[0][0]: 'addr' is missing");
  CHECK(refused_with("/allocator_settings/expandable_segments", "yes") ==
        "file: allocator_settings.expandable_segments: is a string, should be a boolean");
  CHECK(refused_with("/allocator_settings/roundup_power2_divisions/1", 3) ==
        "file: allocator_settings.roundup_power2_divisions.1: is 3, should be 0 or a power of two");
}

TEST_CASE("sizes and addresses that no machine has are refused") {
  CHECK(refused_with("/segments/0/total_size", -1) ==
        "file: segments[0].total_size: is -1, should not be negative");
  CHECK(refused_with("/segments/0/blocks/0/size", 0) ==
        "file: segments[0].blocks[0].size: is 0, should be a size");
  CHECK_THAT(refused_with("/segments/0/address", INT64_MAX),
             ContainsSubstring("beyond an address space of 57 bits"));
  CHECK_THAT(refused_with("/device_traces/0/0/size", INT64_MAX),
             ContainsSubstring("device_traces[0][0].size"));
  CHECK_THAT(refused_with("/segments/0/device", 1 << 20), ContainsSubstring("beyond reason"));
  CHECK(refused_with("/segments/0/blocks/0/requested_size", 2000) ==
        "file: segments[0].blocks[0].requested_size: 2000 bytes in a block of 1024");
}

TEST_CASE("values that no field uses are not checked") {
  // Python values as pickle opcodes.
  using namespace std::string_literals;
  const std::vector<std::string> odd = {
      "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"s,     // 2 ** 64 - 1
      "\x8b\xff\x00\x00\x00"s + std::string(255, '\x7f'),  // about 2 ** 2039
      "G\x7f\xf8\x00\x00\x00\x00\x00\x00"s,                // NaN
      "G\xff\xf0\x00\x00\x00\x00\x00\x00"s,                // -infinity
      "X\x02\x00\x00\x00\xff\xfe"s,                        // not UTF-8
      "(K\x01\x91"s,                                       // frozenset({1})
      "\x96\x01\x00\x00\x00\x00\x00\x00\x00x"s,            // bytearray(b"x")
      "}(K\x01K\x02NN)]u"s,                                // {1: 2, None: None, (): []}
      "](NK\x01\x65"s,                                     // [None, 1]
  };
  // A unique string marks the place in the pickle where the odd value goes.
  const std::string mark = millrace::test::to_pickle_body("the odd value");
  const std::vector<const char*> unused = {"/a key of tomorrow",
                                           "/external_annotations",
                                           "/external_annotations/0/time_us",
                                           "/segments/0/frames",
                                           "/segments/0/allocated_size",
                                           "/segments/0/blocks/2/requested_size",
                                           "/device_traces/0/0/line",
                                           "/device_traces/0/2/addr",
                                           "/device_traces/0/2/size",
                                           "/device_traces/0/2/stream",
                                           "/device_traces/0/2/time_us",
                                           "/allocator_settings/a setting of tomorrow"};
  // Only explanations use these fields. An unreadable value is left out, and all else is unchanged.
  const std::vector<const char*> explained = {"/segments/0/blocks/0/frames",
                                              "/device_traces/0/0/frames",
                                              "/device_traces/0/0/user_metadata"};
  const Result plain = read_snapshot(small_snapshot());
  std::vector<const char*> places = unused;
  places.insert(places.end(), explained.begin(), explained.end());
  for (const char* const place : places) {
    const bool is_unused = std::ranges::find(explained, place) == explained.end();
    for (std::size_t i = 0; i < odd.size(); ++i) {
      INFO(place << ", odd value " << i);
      json data = small_snapshot();
      data[json::json_pointer{place}] = "the odd value";
      std::string pickle = to_pickle(data);
      const std::size_t at = pickle.find(mark);
      REQUIRE(at != std::string::npos);
      pickle.replace(at, mark.size(), odd[i]);
      const ValueTree tree = read_pickle(pickle, "file");
      Warnings warnings;
      const TorchSnapshot snapshot = read_torch_snapshot(tree, "file", warnings);
      CHECK(snapshot.segments == plain.snapshot.segments);
      CHECK(snapshot.settings == plain.snapshot.settings);
      if (!is_unused) continue;
      CHECK(snapshot.traces == plain.snapshot.traces);
      CHECK(warnings.empty());
    }
  }
}

TEST_CASE("values that a field uses are checked, also unusual ones") {
  const auto read_json_text = [](const std::string& text) {
    return refusal([&] {
      const ValueTree tree = read_json(text, "file");
      Warnings warnings;
      return read_torch_snapshot(tree, "file", warnings);
    });
  };
  CHECK(read_json_text(R"({"segments": 18446744073709551615})") ==
        "file: segments: is an integer beyond 64 bits, should be a list");
  CHECK(
      read_json_text(
          R"({"segments": [], "allocator_settings": {"garbage_collection_threshold": 1e1111}})") ==
      "file: allocator_settings.garbage_collection_threshold: is not a finite number");
}

TEST_CASE("an impossible request is an event, and a missing split limit means unlimited") {
  json data = small_snapshot();
  data["device_traces"][0][1]["size"] = std::int64_t{1} << 62;
  data["allocator_settings"]["max_split_size"] = -1;
  const auto snapshot = read_snapshot(data).snapshot;
  CHECK(snapshot.traces[0][1].bytes == std::uint64_t{1} << 62);
  CHECK(snapshot.settings.max_split_size == TorchSettings::kUnlimited);
  const ValueTree tree = read_json(
      R"({"segments": [], "allocator_settings": {"max_split_size": 18446744073709551615}})",
      "file");
  Warnings warnings;
  CHECK(read_torch_snapshot(tree, "file", warnings).settings.max_split_size ==
        TorchSettings::kUnlimited);
}

TEST_CASE("addresses of 57 bits are read minus a base that keeps their alignment") {
  constexpr std::uint64_t far = std::uint64_t{1} << 56;
  const auto moved = [](std::uint64_t by) {
    json data = small_snapshot();
    json& segment = data["segments"][0];
    segment["address"] = segment["address"].get<std::uint64_t>() + by;
    for (json& block : segment["blocks"]) {
      block["address"] = block["address"].get<std::uint64_t>() + by;
    }
    json& event = data["device_traces"][0][0];
    event["addr"] = event["addr"].get<std::uint64_t>() + by;
    return data;
  };
  const auto [snapshot, warnings] = read_snapshot(moved(far));
  CHECK(snapshot.base % (std::uint64_t{1} << 40) == 0);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "addresses beyond 48 bits are shown less a base (0xffff0000000000)");
  CHECK(snapshot.segments == read_snapshot(moved(far - snapshot.base)).snapshot.segments);
  CHECK(snapshot.traces == read_snapshot(moved(far - snapshot.base)).snapshot.traces);
  CHECK(read_snapshot(moved(0)).snapshot.base == 0);

  json apart = moved(far);
  apart["device_traces"][0][0]["addr"] = 4096;
  CHECK_THAT(refused_snapshot(apart), ContainsSubstring("lie further apart than the 47 bits"));
}

TEST_CASE("blocks that do not fill their segment give a warning") {
  json data = small_snapshot();
  data["segments"][0]["blocks"].erase(1);
  const auto warnings = read_snapshot(data).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] == "a block does not begin where the one before it ends (block at 0x200600)");

  data["segments"][0]["blocks"].erase(1);
  CHECK(read_snapshot(data).warnings ==
        std::vector<std::string>{
            "the blocks of a segment do not add up to its size (segment at 0x200000)"});
}

TEST_CASE("an unknown action is skipped with a warning") {
  json data = small_snapshot();
  data["device_traces"][0][0]["action"] = "levitate";
  const auto [snapshot, warnings] = read_snapshot(data);
  CHECK(snapshot.traces[0][0].action == TorchAction::other);
  CHECK(warnings == std::vector<std::string>{
                        "an action of the trace is not known and passed over ('levitate')"});
}

TEST_CASE("a pickle that shares its records too often is refused without being expanded") {
  using namespace std::string_literals;
  const json block = small_snapshot()["segments"][0]["blocks"][0];
  json segment = small_snapshot()["segments"][0];
  segment.erase("blocks");
  std::string body = millrace::test::to_pickle_body(segment);
  body.pop_back();  // the SETITEMS
  const auto repeat = [](char memo, int times) {
    std::string refs;
    for (int i = 0; i < times; ++i) refs += "h"s + memo;
    return refs;
  };
  // A block of the memo occurs a thousand times in a segment, and the segment a thousand times in
  // the list.
  const auto key = [](const char* name) { return millrace::test::to_pickle_body(name); };
  const std::string bomb = "\x80\x02" + millrace::test::to_pickle_body(block) + "q\x01" + "0" +
                           body + key("blocks") + "](" + repeat(1, 1000) + "euq\x02" + "0}" +
                           key("segments") + "](" + repeat(2, 1000) + "es.";
  const auto problem = refusal([&] {
    const ValueTree tree = read_pickle(bomb, "file");
    Warnings warnings;
    return read_torch_snapshot(tree, "file", warnings);
  });
  CHECK_THAT(problem, ContainsSubstring("repeats its records more often than an honest file does"));
}

TEST_CASE("PyTorch rounds to 512 bytes, or to steps between powers of two") {
  TorchSettings settings;
  CHECK(torch_rounded(1, settings) == 512);
  CHECK(torch_rounded(512, settings) == 512);
  CHECK(torch_rounded(513, settings) == 1024);
  settings.roundup_power2_divisions.fill(4);
  CHECK(torch_rounded(1200, settings) == 1536);  // up to 4 x 512: a multiple of 512
  CHECK(torch_rounded(2049, settings) == 2560);
  CHECK(torch_rounded(5 * MiB + 1, settings) == 6 * MiB);
  CHECK(torch_rounded(8 * MiB, settings) == 8 * MiB);
  settings.roundup_power2_divisions.fill(0);
  settings.roundup_power2_divisions[1] = 2;  // from 2 to 4 MiB
  CHECK(torch_rounded(2 * MiB + 1, settings) == 3 * MiB);
  CHECK(torch_rounded(4 * MiB + 1, settings) == 4 * MiB + 512);
  settings.roundup_power2_divisions[15] = 2;  // from 32 GiB on
  CHECK(torch_rounded(65 * 1024 * MiB, settings) == 96 * 1024 * MiB);
}
