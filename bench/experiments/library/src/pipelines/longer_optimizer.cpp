#include "pipelines/longer_optimizer.hpp"

namespace millrace::experiment {

void LongerOptimizer::optimizer_step() {
  model_.optimizer_step();
  const DenseParameters& parameters = model_.parameters();
  if (times_ <= 1 || parameters.size() == 0) return;
  const std::size_t bytes = parameters.size() * sizeof(float);
  Operation more;
  more.name = "longer optimizer";
  more.cost.bytes = (times_ - 1) * parameters.step_bytes();
  more.views = {{parameters.values({}), bytes, Access::read_write},
                {parameters.gradients({}), bytes, Access::read}};
  memory_.device().device().launch(std::move(more), main_.handle());
}

}  // namespace millrace::experiment
