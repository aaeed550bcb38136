#include "millrace/pipeline/model/train_model.hpp"

#include <stdexcept>

namespace millrace {

std::unique_ptr<TableLookup> TrainModel::prefetch(const SparseFeatures&, Stream&) {
  return nullptr;
}

void TrainModel::look_up_prefetched(TableLookup&, Stream&) {
  throw std::logic_error{"this model cannot prefetch"};
}

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
