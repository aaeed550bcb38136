#include "allocator/cases/script.hpp"

#include <algorithm>

#include "allocator/measure/draws.hpp"

namespace millrace::bench {
namespace {

using Kind = ScriptStep::Kind;

/// A live block of the script.
struct Block {
  void* address = nullptr;
  std::size_t bytes = 0;
  unsigned stream = 0;
  std::vector<unsigned> users;
};

class Player {
 public:
  Player(const Script& script, Trial& trial)
      : trial_(trial), subject_(trial.subject()), blocks_(script.blocks) {}

  void play(const ScriptStep& step) {
    switch (step.kind) {
      case Kind::allocate:
        allocate(step);
        break;
      case Kind::use:
        blocks_[step.block].users.push_back(step.stream);
        break;
      case Kind::free:
        free(blocks_[step.block]);
        break;
      case Kind::record:
        subject_.record(step.block, step.stream);
        break;
      case Kind::wait:
        subject_.wait(step.stream, step.block);
        break;
      case Kind::end_step:
        if (!trial_.machine().is_gpu()) trial_.machine().end_step();
    }
  }

  void free_live_blocks() {
    for (Block& block : blocks_) {
      if (block.address != nullptr) free(block);
    }
  }
  void leave_live_blocks() {
    for (const Block& block : blocks_) trial_.leave({block.address, block.bytes, block.stream});
  }

  [[nodiscard]] std::size_t peak() const noexcept { return bytes_.peak(); }

 private:
  void allocate(const ScriptStep& step) {
    Block& block = blocks_[step.block];
    block.address = subject_.allocate(step.bytes, step.stream);
    block.bytes = step.bytes;
    block.stream = step.stream;
    bytes_.add(step.bytes);
  }

  void free(Block& block) {
    if (block.users.empty()) {
      subject_.free(block.address, block.bytes, block.stream);
    } else {
      subject_.free_used(block.address, block.bytes, block.stream, block.users);
      block.users.clear();
    }
    block.address = nullptr;
    bytes_.subtract(block.bytes);
  }

  Trial& trial_;
  Subject& subject_;
  std::vector<Block> blocks_;
  LiveBytes bytes_;
};

void run_behind(const Script& script, Trial& trial) {
  if (script.ends_steps && !trial.machine().is_gpu()) trial.machine().run_behind(1);
}

Measured run_once(const Script& script, const SubjectRow& row, const Setting& setting) {
  Trial trial{row, setting, script.streams};
  run_behind(script, trial);
  Player player{script, trial};
  trial.measure_all(script.steps.size(), [&](std::uint64_t i) { player.play(script.steps[i]); });
  player.leave_live_blocks();
  return trial.result(player.peak());
}

}  // namespace

std::uint64_t Script::allocations() const {
  return static_cast<std::uint64_t>(std::ranges::count(steps, Kind::allocate, &ScriptStep::kind));
}

Measured run_script(const Script& script, const SubjectRow& row, const Setting& setting) {
  const std::uint64_t allocations = script.allocations();
  Measured all = run_once(script, row, setting);
  std::uint64_t runs = 1;
  while (all.given_up.empty() && all.cpu_ns < setting.scale.budget_ns) {
    const Measured again = run_once(script, row, setting);
    all.cpu_ns += again.cpu_ns;
    all.wall_ns += again.wall_ns;
    all.calls += again.calls;
    all.call_ns += again.call_ns;
    all.given_up = again.given_up;
    ++runs;
  }
  // A pair is an allocation with all its other steps.
  all.pairs = all.given_up.empty() ? runs * allocations : 0;
  return all;
}

Measured run_script_warm(const Script& script, const SubjectRow& row, const Setting& setting) {
  Trial trial{row, setting, script.streams};
  run_behind(script, trial);
  Player player{script, trial};
  const auto play = [&](std::uint64_t i) { player.play(script.steps[i]); };
  if (!trial.set_up(script.steps.size(), play)) return trial.result(player.peak());
  player.free_live_blocks();
  const auto pass = [&] {
    for (std::uint64_t i = 0; i < script.steps.size(); ++i) play(i);
    player.free_live_blocks();
  };
  trial.measure(pass, UINT64_MAX, script.allocations());
  return trial.result(player.peak());
}

}  // namespace millrace::bench
