#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "test/pipeline/schedule/pipeline_rig.hpp"

namespace millrace::test {

/// The exception that a script throws.
class Scripted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Records the calls to the parts of a pipeline, in order. Each call can be set to throw once.
class Script {
 public:
  void say(std::string line) {
    if (failing_.erase(line) > 0) {
      log_.push_back(line + " fails");
      throw Scripted{line};
    }
    log_.push_back(std::move(line));
  }
  void fail(std::string line) { failing_.insert(std::move(line)); }

  /// The calls since the last `take`.
  [[nodiscard]] std::vector<std::string> take() { return std::exchange(log_, {}); }

 private:
  std::vector<std::string> log_;
  std::set<std::string> failing_;
};

/// A batch's example count encodes its number.
[[nodiscard]] inline std::size_t number_of(std::size_t examples) { return examples - 1; }

class ScriptedSource final : public BatchSource {
 public:
  ScriptedSource(Script& script, PipelineRig& rig, std::size_t begin, std::size_t end)
      : script_(script), rig_(rig), next_(begin), end_(end) {}

 private:
  std::optional<ModelInput> do_next() override {
    if (next_ == end_) {
      script_.say("end");
      return std::nullopt;
    }
    script_.say(fmt::format("draw {}", next_));
    InputShape shape{.batch_size = ++next_, .labeled = true};
    shape.sparse = {
        .keys = make_keys({"a"}), .batch_size = next_, .counts = {next_}, .weighted = false};
    return ModelInput{rig_.pinned, rig_.streams.copy, shape};
  }

  Script& script_;
  PipelineRig& rig_;
  std::size_t next_, end_;
};

/// Passes features through unchanged. Records each call with its batch's number; a second `arrange`
/// returns no features.
class ScriptedExchange final : public SparseExchange {
 public:
  explicit ScriptedExchange(Script& script) : script_(script) {}

  std::unique_ptr<FeatureExchange> start(const InputTensors& input, Stream& stream) override {
    script_.say(fmt::format("start {} on {}", number_of(input.batch_size),
                            stream.device().name(stream.id())));
    return std::make_unique<Flight>(*this, input);
  }

  [[nodiscard]] int alive() const noexcept { return alive_; }

 private:
  class Flight final : public FeatureExchange {
   public:
    Flight(ScriptedExchange& exchange, const InputTensors& input)
        : exchange_(exchange), number_(number_of(input.batch_size)), features_{input.sparse, {}} {
      ++exchange_.alive_;
    }
    ~Flight() override { --exchange_.alive_; }
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;

    void receive(Waits) override { exchange_.script_.say(fmt::format("receive {}", number_)); }
    SparseFeatures arrange() override {
      exchange_.script_.say(fmt::format("arrange {}", number_));
      return std::exchange(features_, {});
    }

   private:
    ScriptedExchange& exchange_;
    std::size_t number_;
    SparseFeatures features_;
  };

  Script& script_;
  int alive_ = 0;
};

class ScriptedModel final : public TrainModel {
 public:
  explicit ScriptedModel(Script& script) : script_(script) {}

  void zero_gradients() override { script_.say("zero"); }
  std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features, Stream& stream) override {
    const std::size_t number = number_of(features.unweighted.batch_size());
    say("prefetch", number, stream);
    return std::make_unique<Lookup>(number);
  }
  void look_up_prefetched(TableLookup& lookup, Stream& stream) override {
    say("look up", static_cast<Lookup&>(lookup).number, stream);
  }
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override {
    const std::size_t number = number_of(features.unweighted.batch_size());
    say("look up", number, stream);
    return std::make_unique<Lookup>(number);
  }
  void forward(const InputTensors& input, TableLookup& lookup) override {
    number_ = number_of(input.batch_size);
    if (static_cast<Lookup&>(lookup).number != number_) {
      throw std::logic_error{"the lookup of another batch"};
    }
    script_.say(fmt::format("forward {}", number_));
  }
  void backward(TableLookup& lookup) override {
    script_.say(fmt::format("backward {}", static_cast<Lookup&>(lookup).number));
  }
  void update_tables(TableLookup& lookup, Stream& stream) override {
    say("update", static_cast<Lookup&>(lookup).number, stream);
  }
  void optimizer_step() override {
    script_.say(fmt::format("optimizer {}", number_));
    trained.push_back(number_);
  }
  void swap_gradients(Buffer&) override { script_.say(fmt::format("swap {}", number_)); }
  void abandon() noexcept override { abandoned.push_back(number_); }

  std::vector<std::size_t> trained, abandoned;

 private:
  struct Lookup final : TableLookup {
    explicit Lookup(std::size_t of) : number(of) {}
    std::size_t number;
  };
  void say(const char* what, std::size_t number, const Stream& stream) {
    script_.say(fmt::format("{} {} on {}", what, number, stream.device().name(stream.id())));
  }

  Script& script_;
  std::size_t number_ = 0;
};

/// A pipeline of scripted parts.
struct ScriptedPipeline final : private CopyObserver {
  explicit ScriptedPipeline(PipelineKind kind, Waits waits = Waits::coarse,
                            bool execute_all_batches = true)
      : ScriptedPipeline(PipelineCase{.kind = kind, .waits = waits}, execute_all_batches) {}
  explicit ScriptedPipeline(const PipelineCase& what, bool execute_all_batches = true)
      : rig(what),
        pipeline(TrainPipeline::make(what.kind,
                                     {.streams = rig.streams,
                                      .batches = rig.memory,
                                      .model = model,
                                      .exchange = exchange,
                                      .observer = this},
                                     what.options(execute_all_batches))) {}

  [[nodiscard]] ScriptedSource source(std::size_t begin, std::size_t end) {
    return {script, rig, begin, end};
  }

  PipelineRig rig;
  Script script;
  ScriptedExchange exchange{script};
  ScriptedModel model{script};
  std::unique_ptr<TrainPipeline> pipeline;

 private:
  void copies_begin(Stream&) override { script.say("copy"); }
  void copies_end(Stream&) override {}
};

}  // namespace millrace::test
