#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace millrace::facts {

struct Answer {
  std::string text;     ///< one or two sentences
  nlohmann::json data;  ///< all observations
};

/// A question about CUDA. The design depends on the answer; docs/cuda-facts.md says why.
struct Fact {
  const char* id;
  const char* question;
  Answer (*ask)(int ordinal);  ///< the device is current and idle; it must be idle afterwards
};

[[nodiscard]] std::span<const Fact> handle_facts();
[[nodiscard]] std::span<const Fact> order_facts();
[[nodiscard]] std::span<const Fact> capture_facts();
[[nodiscard]] std::span<const Fact> callback_facts();
[[nodiscard]] std::span<const Fact> blocking_facts();
[[nodiscard]] std::span<const Fact> waiting_facts();
[[nodiscard]] std::span<const Fact> mapping_facts();
[[nodiscard]] std::span<const Fact> memory_facts();
[[nodiscard]] std::span<const Fact> cost_facts();

}  // namespace millrace::facts
