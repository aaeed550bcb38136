#include "millrace/pipeline/model/optimizer.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace millrace {
namespace {

constexpr std::array<std::pair<OptimizerKind, std::string_view>, 5> kNames{
    {{OptimizerKind::none, "none"},
     {OptimizerKind::sgd, "sgd"},
     {OptimizerKind::rowwise_adagrad, "rowwise-adagrad"},
     {OptimizerKind::adagrad, "adagrad"},
     {OptimizerKind::adam, "adam"}}};

}  // namespace

std::string_view to_string(OptimizerKind kind) noexcept {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == kind) return name;
  }
  return "?";
}

OptimizerKind parse_optimizer(std::string_view name) {
  std::string known;
  for (const auto& [kind, candidate] : kNames) {
    if (candidate == name) return kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate);
  }
  throw std::invalid_argument(fmt::format("there is no optimizer '{}'; there are {}", name, known));
}

}  // namespace millrace
