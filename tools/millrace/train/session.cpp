#include "train/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/error.hpp"
#include "cli/names.hpp"
#include "cli/status_line.hpp"
#include "millrace/pipeline/data/loading_thread.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "train/data.hpp"
#include "train/interrupt.hpp"
#include "train/text.hpp"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

ModelDescription read_model(const std::string& given) {
  const std::vector<std::string> names = ModelDescription::names();
  const bool ships = std::find(names.begin(), names.end(), given) != names.end();
  try {
    return ships ? ModelDescription::named(given) : ModelDescription::load(given);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model",
                     did_you_mean(given, names,
                                  fmt::format("a JSON file as docs/train.md says, or one of {}",
                                              fmt::join(names, ", ")))};
  }
}

ModelDescription model_of(const TrainOptions& options, const Checkpoint* checkpoint) {
  ModelDescription model;
  if (options.model) {
    model = read_model(*options.model);
  } else if (checkpoint != nullptr) {
    model = ModelDescription::parse(checkpoint->header().model, "the checkpoint's model");
  } else {
    model = ModelDescription::named(options.data.name);
  }
  if (options.freeze_tables) model.table_optimizer.kind = OptimizerKind::none;
  return model;
}

template <typename Value>
void compare(std::string_view option, const std::optional<Value>& given, Value saved) {
  if (!given || *given == saved) return;
  throw UsageError{
      fmt::format("the checkpoint is of a run with {} {}, not {}", option.substr(2), saved, *given),
      std::string{option}, fmt::format("{} {}, or nothing", option, saved)};
}

void check_same_run(const TrainOptions& options, const ModelDescription& model,
                    const CheckpointHeader& saved) {
  const ModelDescription known = ModelDescription::parse(saved.model, "the checkpoint's model");
  if (const std::string other = difference(known, model); !other.empty()) {
    throw UsageError{fmt::format("the checkpoint is of another model: its {}", other),
                     options.load->string(), "no --model: the checkpoint has it"};
  }
  compare("--seed", options.seed, saved.seed);
  compare("--batch-size", options.batch_size, saved.batch_size);
}

std::unique_ptr<Checkpoint> open_checkpoint(const TrainOptions& options) {
  try {
    if (options.save) check_checkpoint_place(*options.save);
    return options.load ? std::make_unique<Checkpoint>(*options.load) : nullptr;
  } catch (const CheckpointError& error) {
    throw UsageError{error.what(), error.where(), error.right()};
  }
}

TrainPlan plan_of(const TrainOptions& options, const Checkpoint* checkpoint) {
  TrainPlan plan;
  plan.model = model_of(options, checkpoint);
  plan.seed = options.seed.value_or(1);
  plan.batch_size = options.batch_size.value_or(usual_batch_size(options.data.kind));
  if (checkpoint == nullptr) return plan;
  const CheckpointHeader& saved = checkpoint->header();
  check_same_run(options, plan.model, saved);
  plan.seed = saved.seed;
  plan.batch_size = saved.batch_size;
  plan.from = saved.position;
  plan.steps = saved.steps;
  return plan;
}

SparseNNConfig config_of(const TrainPlan& plan, const InputSchema& schema) {
  try {
    return plan.model.config(schema, plan.seed);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model", "names of tables and features that the data have"};
  }
}

std::unique_ptr<Trainer> make_trainer(TrainingDevice& device, const TrainPlan& plan,
                                      EpochSource& source) {
  const SparseNNConfig config = config_of(plan, source.schema());
  try {
    return std::make_unique<Trainer>(device, config, source);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model", "a model whose parts fit, as docs/train.md says"};
  }
}

/** @param behind  where the source is: behind the batch that has the id */
[[noreturn]] void refuse(const InvalidIdError& error, const std::string& data,
                         BatchPosition behind) {
  const SparseFeature& feature = error.feature();
  std::string right = fmt::format("ids from 0 to {}", feature.rows - 1);
  if (error.id() >= 0) {
    right += fmt::format(", or a --model whose table '{}' has {} rows or more", feature.table,
                         error.id() + 1);
  }
  throw UsageError{fmt::format("id {} of feature '{}' is not a row of the table '{}', which has {}",
                               error.id(), feature.name, feature.table, feature.rows),
                   fmt::format("{}: epoch {}, batch {}, example {}", data, behind.epoch + 1,
                               behind.batch, error.example() + 1),
                   right};
}

/** One run, from its checkpoint or its beginning. */
class Session {
 public:
  Session(const TrainOptions& options, const TrainListener& listener)
      : options_(options),
        listener_(listener),
        checkpoint_(open_checkpoint(options)),
        plan_(plan_of(options, checkpoint_.get())),
        device_(options.training),
        data_(open_data(options.data, {plan_.batch_size, plan_.seed}, plan_.model,
                        device_.staging())),
        loader_(device_.executor(), *data_.train, {.check_ids = false}),
        trainer_(make_trainer(device_, plan_, loader_)),
        position_(plan_.from),
        data_text_(describe(data_.train->schema())) {
    restore();
    if (options_.steps) trainer_->stop_at(*options_.steps);
    complete_plan();
  }

  TrainResult run() {
    listener_.planned(plan_);
    while (!options_.evaluate_only && !done()) train_epoch();
    result_.plan = plan_;
    result_.steps = trainer_->steps();
    result_.position = position_;
    if (options_.save) save();
    result_.final = last_evaluation();
    result_.digest = state_digest(trainer_->model().state(), trainer_->context());
    result_.interrupted = interrupt_.asked();
    if (result_.malformed.count == 0) result_.malformed = data_.malformed_so_far();
    result_.accounting = device_.accounting();
    return std::move(result_);
  }

 private:
  void restore() {
    if (!checkpoint_) return;
    if (checkpoint_->header().data != data_text_) {
      throw UsageError{
          "the checkpoint was trained on data with other features", options_.load->string(),
          fmt::format("the same data; its features are: {}", checkpoint_->header().data)};
    }
    try {
      checkpoint_->restore(trainer_->model().state(), trainer_->context());
    } catch (const CheckpointError& error) {
      throw UsageError{error.what(), error.where(), error.right()};
    }
    trainer_->resume(plan_.steps, plan_.from);
  }

  void complete_plan() {
    plan_.tested_on = data_.tested_on;
    plan_.examples = data_.examples;
    plan_.test_examples = data_.test_examples;
    for (EmbeddingBags* bags : {&trainer_->model().bags(), &trainer_->model().weighted_bags()}) {
      plan_.tables += bags->tables().size();
      for (const TableView& table : bags->tables()) {
        plan_.table_rows += table.rows;
        plan_.parameters += table.rows * table.width;
      }
    }
    plan_.parameters += trainer_->model().parameters().size();
  }

  [[nodiscard]] bool enough_steps() const {
    return options_.steps && trainer_->steps() >= *options_.steps;
  }
  [[nodiscard]] bool done() const {
    return enough_steps() || interrupt_.asked() || position_.epoch >= options_.epochs;
  }

  /** All of an epoch, as far as that is known. */
  [[nodiscard]] std::optional<std::uint64_t> steps_of_epoch() const {
    const auto examples = data_.examples_expected();
    if (!examples) return std::nullopt;
    return (*examples + plan_.batch_size - 1) / plan_.batch_size;
  }

  /** @param seconds  for the last `steps` */
  [[nodiscard]] EpochProgress progress(std::uint64_t steps, double seconds) const {
    const auto done = static_cast<double>(steps);
    EpochProgress progress{.epoch = position_.epoch + 1,
                           .epochs = options_.epochs,
                           .step = position_.batch,
                           .steps = steps_of_epoch()};
    progress.examples_per_second = done * static_cast<double>(plan_.batch_size) / seconds;
    std::optional<std::uint64_t> left;
    const std::uint64_t later = options_.epochs - progress.epoch;
    if (progress.steps) {
      progress.steps = std::max(*progress.steps, progress.step);
      left = *progress.steps * (later + 1) - progress.step;
    }
    if (options_.steps) {
      const std::uint64_t most = *options_.steps - trainer_->steps();
      left = std::min(left.value_or(most), most);
    }
    if (left) {
      progress.seconds_left = static_cast<double>(*left) * seconds / done +
                              static_cast<double>(later + 1) * seconds_of_test_;
    }
    return progress;
  }

  void train_epoch() {
    EpochResult epoch{.epoch = position_.epoch + 1};
    const bool ended = train(epoch);
    if (data_.criteo != nullptr && ended) result_.malformed = data_.criteo->malformed();
    if (ended) {
      position_ = {position_.epoch + 1, 0};
      trainer_->resume(trainer_->steps(), position_);
      const Clock::time_point begin = Clock::now();
      epoch.tested = evaluate();
      seconds_of_test_ = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    if (epoch.trained.steps == 0) return;
    listener_.epoch_ended(epoch);
    result_.epochs.push_back(epoch);
  }

  /** @return whether the epoch came to its end */
  bool train(EpochResult& epoch) {
    StatusLine status;
    bool ended = false;
    const std::uint64_t before = trainer_->steps();
    while (!done()) {
      ended = !step();
      if (ended) break;
      position_.batch += 1;
      if (status.due()) {
        status.show(render_progress(progress(trainer_->steps() - before, status.seconds())));
      }
      if (options_.save_every && trainer_->steps() % *options_.save_every == 0) save();
    }
    if (!ended) drain();
    epoch.trained = trainer_->take_progress();
    epoch.trained.steps = trainer_->steps() - before;
    epoch.seconds = status.seconds();
    return ended;
  }

  bool step() {
    try {
      return trainer_->step();
    } catch (const InvalidIdError& error) {
      refuse(error, options_.data.name, loader_.position());
    }
  }

  void drain() {
    const std::uint64_t before = trainer_->steps();
    trainer_->drain();
    position_.batch += trainer_->steps() - before;
  }

  void save() {
    drain();
    const CheckpointHeader header{.model = plan_.model.to_json(),
                                  .data = data_text_,
                                  .seed = plan_.seed,
                                  .steps = trainer_->steps(),
                                  .batch_size = plan_.batch_size,
                                  .position = position_};
    try {
      save_checkpoint(*options_.save, header, trainer_->model().state(), trainer_->context());
    } catch (const CheckpointError& error) {
      throw UsageError{error.what(), error.where(), error.right()};
    }
    result_.saved = true;
  }

  Evaluation evaluate() {
    data_.test->seek(data_.test_begin);
    try {
      return trainer_->evaluate(*data_.test);
    } catch (const InvalidIdError& error) {
      refuse(error, fmt::format("{}, {}", options_.data.name, data_.tested_on),
             data_.test->position());
    }
  }

  std::optional<Evaluation> last_evaluation() {
    const bool known = !result_.epochs.empty() && result_.epochs.back().tested;
    if (known) return result_.epochs.back().tested;
    if (interrupt_.asked()) return std::nullopt;
    return evaluate();
  }

  const TrainOptions& options_;
  const TrainListener& listener_;
  const Interrupt interrupt_;
  const std::unique_ptr<Checkpoint> checkpoint_;
  TrainPlan plan_;
  TrainingDevice device_;
  TrainData data_;
  LoadingThread loader_;
  std::unique_ptr<Trainer> trainer_;
  BatchPosition position_;  ///< of the first batch that was not trained on
  const std::string data_text_;
  double seconds_of_test_ = 0;
  TrainResult result_;
};

}  // namespace

TrainResult run_training(const TrainOptions& options, const TrainListener& listener) {
  return Session{options, listener}.run();
}

}  // namespace millrace::cli
