#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

void train_plainly(TrainModel& model, Stream& main, const InputTensors& input,
                   const SparseFeatures& features) {
  model.zero_gradients();
  const std::unique_ptr<TableLookup> lookup = model.look_up(features, main);
  model.forward(input, *lookup);
  model.backward(*lookup);
  model.update_tables(*lookup, main);
  model.optimizer_step();
}

}  // namespace millrace
