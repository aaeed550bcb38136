#include <limits>
#include <memory>
#include <optional>

#include "millrace/pipeline/data/table_source.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"
#include "test/support/catch.hpp"

using namespace millrace;

namespace {

/// Examples of one dense feature each. The feature of example `at` is NaN.
std::shared_ptr<const ExampleTable> with_nan(std::size_t examples, std::size_t at) {
  ExampleTable table;
  table.schema.dense = {"x"};
  table.dense.assign(examples, 0.5F);
  table.dense[at] = std::numeric_limits<float>::quiet_NaN();
  table.labels.assign(examples, 1);
  return std::make_shared<const ExampleTable>(std::move(table));
}

SparseNNConfig one_number() {
  return {.dense_features = 1,
          .interaction = Interaction::concatenate,
          .table_optimizer = {.kind = OptimizerKind::sgd},
          .dense_optimizer = {.kind = OptimizerKind::sgd}};
}

}  // namespace

TEST_CASE("the step that diverged is reported, however many steps precede or follow it") {
  constexpr std::uint64_t kLooked = 1024;  // the trainer checks its losses after this many steps
  const std::uint64_t before = GENERATE(0U, 7U);
  const std::uint64_t bad = GENERATE(1U, 1024U, 1025U, 1030U, 2049U);
  TrainingDevice device{{}};
  TableSource source{with_nan(2 * kLooked + 2, bad - 1), {.batch_size = 1}, device.staging()};
  Trainer trainer{device, one_number(), source};
  trainer.resume(before, {0, 0});
  const std::uint64_t seen = before + (bad + kLooked - 1) / kLooked * kLooked;
  while (trainer.step()) {
    const bool reported = trainer.diverged_at().has_value();
    if (reported != (trainer.steps() > seen)) FAIL("after " << trainer.steps() << " steps");
  }
  trainer.check_losses();
  CHECK(trainer.diverged_at() == before + bad);
}
