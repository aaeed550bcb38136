#include "millrace/device/profile.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test/support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::Call;
using millrace::DeviceProfile;
using Json = nlohmann::json;

namespace {

Json h200() { return Json::parse(DeviceProfile::named("h200").to_json()); }

void parse(const Json& json) { (void)DeviceProfile::parse(json.dump(), "mine.json"); }

}  // namespace

TEST_CASE("every shipped profile is complete and has a source for each figure") {
  const auto name = GENERATE(from_range(DeviceProfile::names()));
  const DeviceProfile profile = DeviceProfile::named(name);
  CHECK(profile.name == name);
  CHECK(profile.sources.size() == 36 + static_cast<std::size_t>(Call::count_));
  CHECK(profile.memory_bytes > profile.allocation_granularity);
  CHECK(2 * profile.device_to_device <= profile.memory_bandwidth);
}

TEST_CASE("the profiles of h200, h100 and a100 are shipped") {
  CHECK(DeviceProfile::names() == std::vector<std::string>{"a100", "h100", "h200"});
  CHECK(DeviceProfile::named("h200").host_to_device == 54.9e9);
  CHECK(DeviceProfile::named("h200").host(Call::query_event) == std::chrono::nanoseconds{450});
  CHECK(DeviceProfile::named("a100").launch_queue_depth == 1024);
  CHECK(DeviceProfile::named("a100").chip.multiprocessors == 108);
  CHECK(DeviceProfile::named("h200").chip.memory_clock == 3201e6);
}

TEST_CASE("an unknown profile is refused with a list of the known profiles") {
  CHECK_THROWS_WITH(DeviceProfile::named("v100"),
                    "unknown device profile 'v100' (expected a100, h100 or h200)");
}

TEST_CASE("a written profile is read back unchanged") {
  DeviceProfile profile = DeviceProfile::named("a100");
  profile.launch_latency = std::chrono::nanoseconds{1234};
  profile.pool.allow_opportunistic = false;
  profile.chip.clock = 1410.5e6;
  const DeviceProfile again = DeviceProfile::parse(profile.to_json(), "again");
  CHECK(again.to_json() == profile.to_json());
  CHECK(again.launch_latency == profile.launch_latency);
  CHECK_FALSE(again.pool.allow_opportunistic);
  CHECK(again.chip.clock == 1410.5e6);
}

TEST_CASE("a profile is read from a file, and a missing file is named") {
  const auto file = std::filesystem::temp_directory_path() / "millrace-profile-test.json";
  std::ofstream{file} << DeviceProfile::named("h100").to_json();
  CHECK(DeviceProfile::load(file).title == DeviceProfile::named("h100").title);
  std::filesystem::remove(file);
  CHECK_THROWS_WITH(DeviceProfile::load(file),
                    ContainsSubstring("millrace-profile-test.json: cannot be opened"));
}

TEST_CASE("a profile with a wrong figure is refused with the path of its key") {
  Json json = h200();
  SECTION("an unknown key") {
    json["copy"]["speed"] = 1;
    CHECK_THROWS_WITH(parse(json), "mine.json: 'copy.speed' is not a key of a device profile");
  }
  SECTION("an unknown group") {
    json["cache"] = Json::object();
    CHECK_THROWS_WITH(parse(json), "mine.json: 'cache' is not a key of a device profile");
  }
  SECTION("a missing figure") {
    json["host"].erase("launch");
    CHECK_THROWS_WITH(parse(json), "mine.json: 'host.launch' is missing");
  }
  SECTION("a chip without a compute capability") {
    json["chip"].erase("compute_major");
    CHECK_THROWS_WITH(parse(json), "mine.json: 'chip.compute_major' is missing");
  }
  SECTION("a negative figure") {
    json["kernel"]["minimum"]["value"] = -3;
    CHECK_THROWS_WITH(parse(json),
                      "mine.json: 'kernel.minimum.value' is -3, but must be a number from 0");
  }
  SECTION("a bandwidth of zero") {
    json["copy"]["host_to_device"]["value"] = 0;
    CHECK_THROWS_WITH(parse(json),
                      "mine.json: 'copy.host_to_device.value' is 0, but must be a number above 0");
  }
  SECTION("a figure of the wrong type") {
    json["copy"]["latency"]["value"] = "fast";
    CHECK_THROWS_WITH(parse(json),
                      "mine.json: 'copy.latency.value' is \"fast\", but must be a number from 0");
  }
  SECTION("a figure that is not an object") {
    json["copy"]["latency"] = 3;
    CHECK_THROWS_WITH(parse(json), "mine.json: 'copy.latency' is 3, but must be an object { ... }");
  }
  SECTION("a unit of another dimension") {
    json["copy"]["latency"]["unit"] = "GB/s";
    CHECK_THROWS_WITH(parse(json),
                      "mine.json: 'copy.latency.unit' is \"GB/s\", but must be one of ns, us, ms");
  }
  SECTION("a fraction of a byte") {
    json["memory"]["bytes"]["value"] = 10.5;
    CHECK_THROWS_WITH(parse(json),
                      ContainsSubstring("mine.json: 'memory.bytes.value' is 10.5, but must be "));
  }
  SECTION("a figure without a source") {
    json["copy"]["latency"].erase("source");
    CHECK_THROWS_WITH(parse(json), ContainsSubstring("'copy.latency.source' is missing"));
  }
  SECTION("another schema") {
    json["schema"] = "millrace.profile/9";
    CHECK_THROWS_WITH(
        parse(json), ContainsSubstring(
                         "'schema' is \"millrace.profile/9\", but must be \"millrace.profile/1\""));
  }
}

TEST_CASE("a profile that is not JSON, or has a key twice, is refused") {
  CHECK_THROWS_WITH(DeviceProfile::parse("{\"name\": ", "x"),
                    "x:1:10: this is not JSON: found the end of the text where a value must stand");
  CHECK_THROWS_WITH(DeviceProfile::parse("{\"name\": \"a\", \"name\": \"b\"}", "x"),
                    "x:1:15: the key 'name' occurs twice");
  CHECK_THROWS_WITH(DeviceProfile::parse("{\"version\": 1e999}", "x"),
                    "x:1:13: a number is greater than any that a double can hold");
}
