#include "millrace/pipeline/model/whole_state.hpp"

#include "model/state_transfer.hpp"

namespace millrace {

std::vector<WholeState::Tensor> LocalState::tensors() const {
  std::vector<Tensor> all;
  for (const StateTensor& tensor : state_.tensors) all.push_back({tensor.name, tensor.size});
  return all;
}

std::vector<WholeState::Counter> LocalState::counters() const {
  std::vector<Counter> all;
  for (const StateCounter& counter : state_.counters) all.push_back({counter.name, *counter.value});
  return all;
}

void LocalState::read(std::size_t tensor, const Use& use) {
  std::vector<float> piece;
  model::download(state_.tensors[tensor], context_, piece, use);
}

}  // namespace millrace
