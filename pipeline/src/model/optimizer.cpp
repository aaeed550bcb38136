#include "millrace/pipeline/model/optimizer.hpp"

#include <array>

#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

constexpr std::array kKinds{OptimizerKind::none, OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                            OptimizerKind::adagrad, OptimizerKind::adam};
constexpr std::array<std::string_view, kKinds.size()> kNames{"none", "sgd", "rowwise-adagrad",
                                                             "adagrad", "adam"};

}  // namespace

std::string_view to_string(OptimizerKind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

OptimizerKind parse_optimizer(std::string_view name) {
  return text::parse_enum("optimizer", name, kKinds);
}

}  // namespace millrace
