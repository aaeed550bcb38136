// PyTorch's allocator configuration. Each key takes effect, is reported as without effect, or is
// refused.

#include "millrace/interop/torch_settings.hpp"

#include <cstdlib>
#include <string>

#include "millrace/interop/device_memory.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(TorchSettings::parse(text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("keys of PyTorch's configuration change the policy that they name") {
  const TorchSettings none = TorchSettings::parse("");
  CHECK(none.policy.name == DeviceMemory::drop_in().name);
  CHECK(none.policy.growable_ranges);
  CHECK(none.fraction == 1);

  const TorchSettings all = TorchSettings::parse(
      " backend:native, expandable_segments:False,max_split_size_mb:256,large_segment_size_mb:64,"
      "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,pinned_free_catch_all:True,"
      "roundup_power2_divisions:4,release_lock_on_cudamalloc:True");
  CHECK_FALSE(all.policy.growable_ranges);
  CHECK(all.policy.max_split == 256 * MiB);
  CHECK(all.policy.large_segment_least == 64 * MiB);
  CHECK(all.policy.collect_threshold == 0.8);
  CHECK(all.fraction == 0.5);
  CHECK(all.policy.round(5 * MiB + 1) == 6 * MiB);
  CHECK(all.without_effect == std::vector<std::string>{"release_lock_on_cudamalloc"});
}

TEST_CASE("a division of a list holds up to the next size, and the first one also below") {
  const Policy policy = TorchSettings::parse("roundup_power2_divisions:[4:1,16:2,64:4,>:8]").policy;
  const auto& all = policy.power2_divisions;
  CHECK(all[0] == 1);
  CHECK(all[2] == 1);
  CHECK(all[3] == 1);
  CHECK(all[4] == 2);
  CHECK(all[5] == 2);
  CHECK(all[6] == 4);
  CHECK(all[7] == 8);
  CHECK(all[15] == 8);
  CHECK(policy.round(17 * MiB) == 24 * MiB);
  CHECK(policy.round(130 * MiB) == 144 * MiB);
}

TEST_CASE("a wrong configuration is refused with its key") {
  CHECK(refusal("no_such_key:1") == "no_such_key: not a known key");
  CHECK(refusal("expandable_segments") == "expandable_segments: has no value; wanted key:value");
  CHECK(refusal("expandable_segments:yes") == "expandable_segments:yes: wanted True or False");
  CHECK(refusal("backend:cudaMallocAsync").find("backend:cudaMallocAsync: Millrace") == 0);
  for (const char* const text :
       {"max_split_size_mb:-1", "max_split_size_mb:20", "max_split_size_mb:99999999999999999999",
        "max_split_size_mb:1e3", "garbage_collection_threshold:0",
        "garbage_collection_threshold:nan", "per_process_memory_fraction:1.5",
        "per_process_memory_fraction:", "large_segment_size_mb:0", "roundup_power2_divisions:3",
        "roundup_power2_divisions:[]", "roundup_power2_divisions:[3:1]",
        "roundup_power2_divisions:[4]", "roundup_power2_divisions:[8:1,4:1]", ":", "[[[["}) {
    INFO(text);
    CHECK_FALSE(refusal(text).empty());
  }
  CHECK(refusal(std::string(1 << 20, ',')).find("longer than") == 0);
}

TEST_CASE("the older variable of PyTorch's configuration wins, and an error names it") {
  ::setenv("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.25", 1);
  CHECK(TorchSettings::from_environment().fraction == 0.25);
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:2", 1);
  CHECK_THROWS_WITH(TorchSettings::from_environment(),
                    Catch::Matchers::ContainsSubstring("PYTORCH_CUDA_ALLOC_CONF: per_process"));
  ::unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  ::unsetenv("PYTORCH_ALLOC_CONF");
  CHECK(TorchSettings::from_environment().fraction == 1);
}

}  // namespace millrace::test
