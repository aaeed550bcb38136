#include "train/session.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "cli/checkpoint_error.hpp"
#include "cli/error.hpp"
#include "cli/status_line.hpp"
#include "millrace/pipeline/data/loading_thread.hpp"
#include "millrace/pipeline/fail_group_on_error.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "train/preparation.hpp"
#include "train/stop_vote.hpp"
#include "train/stream.hpp"
#include "train/text.hpp"

namespace millrace::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Trainer> make_trainer(TrainingDevice& device, const TrainPlan& plan,
                                      const SparseNNConfig& config, EpochSource& source,
                                      ProcessGroup* group) {
  std::optional<TrainingRank> rank;
  if (group != nullptr) rank.emplace(TrainingRank{*group, plan.sharding});
  try {
    return std::make_unique<Trainer>(device, config, source, rank);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model", "a model whose parts fit, as docs/train.md says"};
  }
}

/** @param step  the step with a loss that is not finite, if this rank knows it */
[[noreturn]] void refuse_diverged(const std::optional<std::uint64_t>& step,
                                  const std::string& where) {
  const std::string what =
      step ? fmt::format("the training diverged: the loss of step {} is not a finite number", *step)
           : std::string{"the model diverged: its mean loss is not a finite number"};
  throw UsageError{fmt::format("{} ({})", what, where), "--model",
                   "a lower learning_rate; what was saved before is as it was"};
}

/** Identifies the batch with an id that has no row in its table. */
struct BadPlace {
  std::string data;
  BatchPosition behind;  ///< the source's position after that batch
  std::string of_rank;   ///< the rank whose share of the batch counts the example: " of rank 1's"
};

[[noreturn]] void refuse(const InvalidIdError& error, const BadPlace& place) {
  const SparseFeature& feature = error.feature();
  std::string right = fmt::format("ids from 0 to {}", feature.rows - 1);
  if (error.id() >= 0) {
    right += fmt::format(", or a --model whose table '{}' has {} rows or more", feature.table,
                         error.id() + 1);
  }
  throw UsageError{
      fmt::format("id {} of feature '{}' is not a row of the table '{}', which has {} ({}: epoch "
                  "{}, batch {}, example {}{})",
                  error.id(), feature.name, feature.table, feature.rows, place.data,
                  place.behind.epoch + 1, place.behind.batch, error.example() + 1, place.of_rank),
      "--data", right};
}

BatchShare share_of(const ProcessGroup* group) {
  return group == nullptr ? BatchShare{} : BatchShare{group->rank(), group->size()};
}

/** One run, from a checkpoint or from the beginning. */
class Session {
 public:
  Session(const TrainOptions& options, const SessionEnvironment& environment,
          const TrainListener& listener)
      : options_(options),
        listener_(listener),
        interrupt_(environment.interrupt),
        group_(environment.group),
        device_(environment.device),
        checkpoint_(open_checkpoint(options)),
        plan_(plan_of(options, checkpoint_.get())),
        data_(open_data(options.data, {plan_.batch_size, plan_.seed, share_of(group_)}, plan_.model,
                        device_.staging())),
        // Lookups check ids on the device. A check by the loader would read each batch twice.
        loader_(device_.executor(), *data_.train, {.check_ids = false}),
        position_(plan_.from),
        data_text_(describe(data_.train->schema())) {
    SparseNNConfig config = config_of(plan_, loader_.schema());
    config.table_cache = options_.cache;
    plan_ranks(config);
    // Compare the options before the trainer is made: ranks with different options would start
    // different exchanges, and block each other.
    if (group_ != nullptr) check_agreement(*group_, options_, plan_, data_text_);
    trainer_ = make_trainer(device_, plan_, config, loader_, group_);
    if (checkpoint_) plan_.begins_anew = restore(*trainer_, *checkpoint_, options_, data_text_);
    // The streamer starts after the checkpoint is loaded. It observes all changes of the tables
    // from now on, and loaded rows are not changes.
    if (!environment.sinks.empty()) {
      stream_.emplace(options_.stream.streaming, environment.sinks,
                      StreamedTrainer{device_, *trainer_, config, plan_, group_},
                      checkpoint_ ? checkpoint_->header().stream : "");
      plan_.stream_epoch = stream_->epoch();
    }
    checkpoint_.reset();  // its file would take room on the disk after --save has replaced it
    if (options_.steps) trainer_->stop_at(*options_.steps);
    complete_plan(plan_, data_, config, *trainer_);
  }

  /** Trains. On an error it first fails the group, so that the other ranks end before this stack is
   * unwound. */
  TrainResult run() {
    if (group_ == nullptr) return train_all();
    return fail_group_on_error(*group_, [&] { return train_all(); });
  }

 private:
  TrainResult train_all() {
    listener_.planned(plan_);
    print_steps();
    while (!options_.evaluate_only && !done()) train_epoch();
    result_.plan = plan_;
    result_.steps = trainer_->steps();
    result_.position = position_;
    if (vote_) vote_->finish();
    // Save before the stream ends. A sink that is down delays the end by --stream-deadline, and a
    // second Ctrl-C in that time must not lose the checkpoint.
    if (options_.save) save();
    end_stream();
    result_.final = last_evaluation();
    if (options_.cache) result_.cache = cache_counts_of(*trainer_);
    const auto whole = trainer_->whole_state();
    if (first()) {
      result_.digest = state_digest(*whole);
    } else {
      whole->send();
    }
    result_.interrupted = stopping();
    if (result_.malformed.count == 0) result_.malformed = data_.malformed_so_far();
    result_.accounting = device_.accounting();
    if (group_ != nullptr) result_.ranks = memory_of_ranks(*group_, device_, result_.accounting);
    return std::move(result_);
  }

  /** The sinks that are down or far behind, for the end of the progress line; "" if none is. */
  [[nodiscard]] std::string stream_status() const {
    const std::string status = stream_ ? stream_->status() : "";
    return status.empty() ? status : "   " + status;
  }

  void end_stream() {
    if (!stream_) return;
    result_.stream = stream_->stop(options_.stream.deadline);
    result_.stream_complete = all_ranks(result_.stream->complete());
    if (group_ == nullptr || group_->rank() == 0) return;  // rank 0 reports at the end
    for (const ShippingReport& sink : result_.stream->sinks) {
      const std::string lacks = what_it_lacks(sink);
      if (!lacks.empty()) spdlog::warn("rank {}: {}: {}", group_->rank(), sink.sink, lacks);
    }
  }

  [[nodiscard]] bool all_ranks(bool here) const {
    if (group_ == nullptr) return here;
    const ExchangedSizes received = group_->exchange_sizes(
        RankState::ok, std::vector<std::int64_t>(group_->size(), here ? 1 : 0));
    return std::ranges::all_of(received.values, [](std::int64_t value) { return value != 0; });
  }

  void plan_ranks(const SparseNNConfig& config) {
    if (group_ == nullptr) return;
    plan_.group = group_->name();
    plan_.sharding = sharding_of(options_.ranks, config, group_->size());
    plan_.sharding_json = to_json(plan_.sharding, config);
    vote_.emplace(*group_);
  }

  /** Whether this is rank 0 or the only rank. */
  [[nodiscard]] bool first() const { return group_ == nullptr || group_->rank() == 0; }
  /** Whether to stop. The answer is the same on all ranks. */
  [[nodiscard]] bool stopping() const { return vote_ ? vote_->stop() : interrupt_.asked(); }

  [[nodiscard]] bool enough_steps() const {
    return options_.steps && trainer_->steps() >= *options_.steps;
  }
  [[nodiscard]] bool done() const {
    return enough_steps() || stopping() || position_.epoch >= options_.epochs;
  }

  /** Steps in an epoch, or an estimate; std::nullopt if no estimate exists yet. */
  [[nodiscard]] std::optional<std::uint64_t> steps_of_epoch() const {
    const auto examples = data_.examples_expected();
    if (!examples) return std::nullopt;
    return (*examples + plan_.batch_size - 1) / plan_.batch_size;
  }

  /** @param seconds  duration of the last `steps` steps */
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

  /** @return whether the epoch ended */
  bool train(EpochResult& epoch) {
    StatusLine status;
    bool ended = false;
    const std::uint64_t before = trainer_->steps();
    while (!done()) {
      if (vote_) vote_->step(interrupt_.asked());
      ended = !step();
      if (ended) break;
      position_.batch += 1;
      if (const auto step = trainer_->diverged_at()) refuse_diverged(step, place());
      if (first() && status.due()) {
        status.show(render_progress(progress(trainer_->steps() - before, status.seconds())) +
                    stream_status());
      }
      if (options_.save_every && trainer_->steps() % *options_.save_every == 0) save();
    }
    // Train on the batches in flight, so that the steps and the position agree. At the end of an
    // epoch no batch is in flight.
    if (!ended) drain();
    epoch.trained = trainer_->take_progress();
    epoch.trained.steps = trainer_->steps() - before;
    epoch.seconds = status.seconds();
    if (!std::isfinite(epoch.trained.loss)) refuse_diverged(trainer_->diverged_at(), place());
    if (ended && position_.batch == 0) {
      refuse_empty("no example to train on", options_.data.path, "--data");
    }
    return ended;
  }

  bool step() {
    try {
      const bool stepped = trainer_->step();
      if (stepped && stream_) stream_->step_done();
      if (stepped) print_steps();
      return stepped;
    } catch (const InvalidIdError& error) {
      refuse(error, {options_.data.name, loader_.position(), of_rank()});
    }
  }

  void drain() {
    const std::uint64_t before = trainer_->steps();
    trainer_->drain();
    if (stream_ && trainer_->steps() > before) stream_->step_done();
    if (trainer_->steps() > before) print_steps();
    position_.batch += trainer_->steps() - before;
  }

  void print_steps() const {
    if (listener_.steps_done) listener_.steps_done(trainer_->steps());
  }

  void save() {
    drain();
    // The host reads losses late. A checkpoint of a diverged model must not replace a good one.
    trainer_->check_losses();
    if (const auto step = trainer_->diverged_at()) refuse_diverged(step, place());
    const CheckpointHeader header{.model = plan_.model.to_json(),
                                  .data = data_text_,
                                  .seed = plan_.seed,
                                  .steps = trainer_->steps(),
                                  .batch_size = plan_.batch_size,
                                  .position = position_,
                                  .stream = stream_ ? stream_->for_checkpoint() : ""};
    const auto whole = trainer_->checkpoint_state();
    try {
      if (first()) {
        save_checkpoint(*options_.save, header, *whole);
      } else {
        whole->send();
      }
    } catch (const CheckpointError& error) {
      throw refused_checkpoint(error, "--save");
    }
    result_.saved = true;
  }

  Evaluation evaluate() {
    data_.test->seek(data_.test_begin);
    try {
      const Evaluation tested = trainer_->evaluate(*data_.test);
      if (tested.examples == 0) {
        refuse_empty("no example to test on", options_.data.test.value_or(options_.data.path),
                     options_.data.test ? "--test" : "--data");
      }
      if (!std::isfinite(tested.loss)) refuse_diverged({}, place() + ", the test after it");
      return tested;
    } catch (const InvalidIdError& error) {
      refuse(error, {fmt::format("{}, {}", options_.data.name, data_.tested_on),
                     data_.test->position(), of_rank()});
    }
  }

  [[noreturn]] void refuse_empty(const char* what, const std::filesystem::path& file,
                                 const char* option) const {
    const MalformedLines lines = data_.malformed_so_far();
    std::string text =
        fmt::format("{}: {}", file.empty() ? options_.data.name : file.string(), what);
    if (lines.count > 0) text += fmt::format("; left out: {}", lines.describe());
    throw UsageError{text, option, "at least one line of the format"};
  }

  /** The position in the data, for error messages. */
  [[nodiscard]] std::string place() const {
    return fmt::format("{}: epoch {}, after batch {}", options_.data.name, position_.epoch + 1,
                       position_.batch);
  }

  std::optional<Evaluation> last_evaluation() {
    const bool known = !result_.epochs.empty() && result_.epochs.back().tested;
    if (known) return result_.epochs.back().tested;
    if (stopping()) return std::nullopt;
    return evaluate();
  }

  [[nodiscard]] std::string of_rank() const {
    return group_ == nullptr ? "" : fmt::format(" of rank {}'s", group_->rank());
  }

  const TrainOptions& options_;
  const TrainListener& listener_;
  const Interrupt& interrupt_;
  ProcessGroup* const group_;  ///< null for the only rank
  TrainingDevice& device_;
  std::unique_ptr<Checkpoint> checkpoint_;  ///< null once it was loaded
  TrainPlan plan_;
  TrainData data_;
  LoadingThread loader_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<TrainStream> stream_;
  std::optional<StopVote> vote_;  ///< only with several ranks
  BatchPosition position_;        ///< the first batch that was not trained on
  const std::string data_text_;
  double seconds_of_test_ = 0;
  TrainResult result_;
};

}  // namespace

std::optional<std::uint64_t> stale_steps(const TrainOptions& options, const TrainResult& result) {
  if (!traits_of(options.training.pipeline).stale) return std::nullopt;
  const std::uint64_t first = std::max(options.training.stale.start_batch, result.plan.steps);
  return result.steps - std::min(first, result.steps);
}

TrainResult run_training(const TrainOptions& options, const SessionEnvironment& environment,
                         const TrainListener& listener) {
  return Session{options, environment, listener}.run();
}

}  // namespace millrace::cli
