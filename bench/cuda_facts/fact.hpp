#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace millrace::facts {

struct Answer {
  std::string text;     ///< a sentence or two
  nlohmann::json data;  ///< all that was seen
};

/// A question about CUDA that the design assumes an answer to. docs/cuda-facts.md says why.
struct Fact {
  const char* id;
  const char* question;
  Answer (*ask)(int ordinal);  ///< on an idle device that is current; leaves it idle
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
