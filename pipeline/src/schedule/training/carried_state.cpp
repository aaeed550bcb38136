#include "schedule/training/carried_state.hpp"

#include <utility>

#include "millrace/pipeline/data/share_source.hpp"

namespace millrace {
namespace {

const std::string kPooled = std::string{kOfPipeline} + "pooled";
const std::string kValues = std::string{kOfPipeline} + "values.";
const std::string kStash = std::string{kOfPipeline} + "stash.";

}  // namespace

CarriedState::CarriedState(SparseNN& model, ModelContext& context, TrainPipeline& pipeline,
                           ProcessGroup* group)
    : model_(model), context_(context), pipeline_(pipeline), group_(group) {}

void CarriedState::take() {
  TableLookup* const lookup = pipeline_.looked_up_ahead();
  if (lookup == nullptr) return;
  ahead_ = model_.give_up(*lookup);
  pipeline_.attach(pipeline_.detach());  // drops the lookup
}

void CarriedState::give_back() {
  if (ahead_) model_.take_up(*std::exchange(ahead_, {}));
}

std::vector<std::size_t> CarriedState::of_all(std::size_t number) const {
  if (group_ == nullptr) return {number};
  const auto mine = static_cast<std::int64_t>(number);
  const ExchangedSizes received =
      group_->exchange_sizes(RankState::ok, std::vector<std::int64_t>(ranks(), mine));
  return {received.values.begin(), received.values.end()};
}

std::vector<TensorOfRanks> CarriedState::tensors() const {
  std::vector<TensorOfRanks> all;
  const auto of_first = [&](const StateTensor& tensor) {
    std::vector<std::size_t> sizes(ranks(), 0);
    sizes[0] = tensor.size;
    all.push_back({tensor, std::move(sizes)});
  };
  if (ahead_) {
    const std::size_t size = ahead_->pooled.size();
    const StateTensor pooled{kPooled, ahead_->pooled.data(), size};
    all.push_back({pooled, of_all(size)});
    if (ahead_->values.size() > 0) {
      // Dense parameters are the same on every rank.
      for (const auto& tensor : model_.parameters().tensors_in(ahead_->values.data(), kValues)) {
        of_first(tensor);
      }
    }
  }
  if (const Buffer* const stash = pipeline_.stashed_gradients(); stash != nullptr && *stash) {
    auto* const gradients = static_cast<float*>(stash->data());
    // Gradients differ from rank to rank until they are reduced.
    for (const auto& tensor : model_.parameters().tensors_in(gradients, kStash)) {
      all.push_back({tensor, std::vector<std::size_t>(ranks(), tensor.size)});
    }
  }
  return all;
}

void CarriedState::restore(const Checkpoint& checkpoint, bool stashes) {
  restore_lookup(checkpoint);
  if (stashes) restore_stash(checkpoint);
}

Array<float> CarriedState::room(std::size_t size) const {
  return {context_.allocator(), size, context_.main(), context_.tags().parameters};
}

void CarriedState::upload(const std::vector<float>& numbers, float* to) const {
  const StreamHandle main = context_.main().handle();
  context_.device().copy(to, numbers.data(), numbers.size() * sizeof(float),
                         CopyKind::host_to_device, main);
  context_.device().synchronize(main);
}

void CarriedState::restore_lookup(const Checkpoint& checkpoint) {
  const auto saved = checkpoint.size_of(kPooled);
  if (!saved) return;
  const std::size_t columns = model_.pooled_columns();
  // The checkpoint may be of another number of ranks, so the batch's examples are divided again.
  const BatchShare share{rank(), ranks()};
  const std::size_t examples = columns == 0 ? 0 : *saved / columns;
  const std::size_t first = share.begin(examples) * columns;
  std::vector<float> numbers(share.end(examples) * columns - first);
  checkpoint.read(kPooled, first, numbers);
  ahead_ = AheadLookup{room(numbers.size()), {}};
  upload(numbers, ahead_->pooled.data());
  DenseParameters& parameters = model_.parameters();
  Array<float> values = parameters.copy_values(context_.main());
  bool any = false;
  for (const StateTensor& tensor : parameters.tensors_in(values.data(), kValues)) {
    if (checkpoint.size_of(tensor.name) != tensor.size) continue;
    numbers.resize(tensor.size);
    checkpoint.read(tensor.name, 0, numbers);
    upload(numbers, tensor.data);
    any = true;
  }
  if (any) ahead_->values = std::move(values);
}

// The checkpoint may be of another number of ranks. Only the sum over the ranks matters, so rank 0
// gets all of it.
void CarriedState::restore_stash(const Checkpoint& checkpoint) {
  DenseParameters& parameters = model_.parameters();
  Array<float> stash = room(parameters.size());
  if (stash.size() == 0) return;
  context_.device().fill(stash.data(), 0, stash.size() * sizeof(float), context_.main().handle());
  bool any = false;
  for (const StateTensor& tensor : parameters.tensors_in(stash.data(), kStash)) {
    const auto saved = checkpoint.size_of(tensor.name);
    if (!saved || tensor.size == 0) continue;
    any = true;
    const std::size_t parts = *saved / tensor.size;
    std::vector<float> sum(tensor.size), part(tensor.size);
    for (std::size_t i = 0; i < parts; ++i) {
      // With the same number of ranks, each rank gets its own part: training continues bit for bit.
      if (parts == ranks() ? i != rank() : rank() != 0) continue;
      checkpoint.read(tensor.name, i * tensor.size, part);
      for (std::size_t k = 0; k < part.size(); ++k) sum[k] += part[k];
    }
    upload(sum, tensor.data);
  }
  if (any) pipeline_.stash_gradients(std::move(stash.buffer()));
}

}  // namespace millrace
