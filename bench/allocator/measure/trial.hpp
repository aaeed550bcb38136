#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/measure/clock.hpp"
#include "allocator/measure/draws.hpp"
#include "allocator/subjects/subject.hpp"

namespace millrace::bench {

/// Duration and size of a run. They are the same for every case and subject.
struct Scale {
  std::string name = "default";
  double budget_ns = 20e6;            ///< measured CPU time per repetition
  double limit_ns = 2e9;              ///< CPU time after which a part of a repetition is given up
  std::size_t most_live = 1'000'000;  ///< maximum number of blocks, streams or markers of a case
  std::size_t churn_steps = 200'000;
  unsigned repetitions = 5;

  /// @throws std::invalid_argument that lists the known names
  [[nodiscard]] static Scale named(std::string_view name);
};

/// The settings of a repetition.
struct Setting {
  Scale scale;
  std::uint64_t seed = 1;
  std::optional<int> gpu;                   ///< std::nullopt: a device without work
  std::size_t page = std::size_t{2} << 20;  ///< page size of that device in bytes
};

/// Page size of growable ranges on a GPU with at least 32 GiB.
constexpr std::size_t kLargePage = std::size_t{32} << 20;

/// The results of a repetition. Figures that it did not reach are missing.
struct Measured {
  std::uint64_t pairs = 0;
  double cpu_ns = 0, wall_ns = 0;  ///< of all pairs, summed over threads
  double calls = 0;                ///< driver calls, without the program's own
  double call_ns = 0;              ///< host time of these calls on the modeled device
  std::optional<double> reserved_over_live;
  std::optional<double> host_bytes_per_block;
  std::string given_up;       ///< the reason; empty: the repetition is complete
  std::uint64_t reached = 0;  ///< steps made by set_up or measure_all
  double reached_cpu_ns = 0;  ///< CPU time of a set-up step at that point
};

[[nodiscard]] std::unique_ptr<Machine> make_machine(const Setting& setting);

/// Runs and measures one subject on its own machine.
class Trial {
 public:
  Trial(const SubjectRow& row, const Setting& setting, unsigned streams);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] Machine& machine() { return *machine_; }
  [[nodiscard]] Subject& subject() { return *subject_; }
  [[nodiscard]] const Setting& setting() const noexcept { return setting_; }
  /// @throws std::logic_error if the subject is not Millrace
  [[nodiscard]] MillraceParts& millrace();

  /// Calls `step(i)` for each i below `count`, unmeasured. Returns false if it took too long or ran
  /// out of memory. The trial is then over.
  template <typename Step>
  [[nodiscard]] bool set_up(std::uint64_t count, Step step);

  /// Calls `step()` `count` times, or for a quarter of the limit, unmeasured. Returns false if it
  /// ran out of memory.
  template <typename Step>
  [[nodiscard]] bool warm_up(std::uint64_t count, Step step);

  /// Measures calls of `step()` until the budget is used up or `most` calls were made. Each call
  /// makes `pairs_per_step` pairs.
  template <typename Step>
  void measure(Step step, std::uint64_t most = UINT64_MAX, std::uint64_t pairs_per_step = 1);

  /// Measures one call of `step(i)` for each i below `count`.
  template <typename Step>
  void measure_all(std::uint64_t count, Step step);

  /// Adds results that were measured elsewhere: by threads, or in sections of a loop.
  void add(std::uint64_t pairs, double cpu_ns, double wall_ns);
  void give_up(std::string why) { measured_.given_up = std::move(why); }

  /// Registers a block that is live at the end of the trial. On a GPU the trial then frees it. On
  /// other machines a free is not worth the time.
  void leave(const Held& block) {
    if (is_gpu_ && block.address != nullptr) left_.push_back(block);
  }

  /// Driver calls between these two functions are counted.
  void begin_calls();
  void end_calls();

  /// Heap growth between these two functions is attributed to the allocator, for `blocks` new
  /// blocks.
  void begin_host_bytes() { host_before_ = host_bytes(); }
  void end_host_bytes(std::uint64_t blocks);

  [[nodiscard]] Measured result(std::size_t peak_live_bytes);

 private:
  /// Runs `work` until it returns or runs out of memory.
  template <typename Work>
  void until_out_of_memory(Work work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      give_up("out of memory");
    }
  }
  [[nodiscard]] bool past(double cpu_ns) const { return thread_cpu_ns() - began_ > cpu_ns; }
  [[nodiscard]] bool out_of_time() const { return past(setting_.scale.limit_ns); }
  std::string out_of_time_text() const;

  Setting setting_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Subject> subject_;
  bool is_gpu_ = machine_->is_gpu();
  std::vector<Held> left_;
  double began_ = 0;
  Measured measured_;
  CallCounts calls_before_;
  std::uint64_t program_calls_before_ = 0, pages_before_ = 0;
  std::optional<double> host_before_;
};

template <typename Step>
bool Trial::set_up(std::uint64_t count, Step step) {
  constexpr std::uint64_t kLook = 64;
  began_ = thread_cpu_ns();
  double look_cpu = began_;
  std::uint64_t i = 0, looked = 0;
  until_out_of_memory([&] {
    for (; i < count; ++i) {
      if (i % kLook == 0 && i > 0) {
        const double now = thread_cpu_ns();
        measured_.reached_cpu_ns = (now - look_cpu) / static_cast<double>(i - looked);
        look_cpu = now;
        looked = i;
        if (out_of_time()) {
          give_up(out_of_time_text());
          break;
        }
      }
      step(i);
    }
  });
  measured_.reached = i;
  return measured_.given_up.empty();
}

template <typename Step>
bool Trial::warm_up(std::uint64_t count, Step step) {
  constexpr std::uint64_t kLook = 16;
  began_ = thread_cpu_ns();
  until_out_of_memory([&] {
    for (std::uint64_t i = 0; i < count && (i % kLook != 0 || !past(setting_.scale.limit_ns / 4));
         ++i) {
      step();
    }
  });
  return measured_.given_up.empty();
}

template <typename Step>
void Trial::measure(Step step, std::uint64_t most, std::uint64_t pairs_per_step) {
  std::uint64_t done = 0, chunk = 1;
  began_ = thread_cpu_ns();
  begin_calls();
  const double wall_began = wall_ns(), cpu_began = thread_cpu_ns();
  double cpu = 0;
  until_out_of_memory([&] {
    while (done < most && cpu < setting_.scale.budget_ns && !out_of_time()) {
      const std::uint64_t now = std::min(chunk, most - done);
      for (std::uint64_t i = 0; i < now; ++i) step();
      done += now;
      cpu = thread_cpu_ns() - cpu_began;
      if (cpu < setting_.scale.budget_ns / 8) chunk *= 2;
    }
  });
  const double wall = wall_ns() - wall_began;
  end_calls();
  add(done * pairs_per_step, cpu, wall);
}

template <typename Step>
void Trial::measure_all(std::uint64_t count, Step step) {
  constexpr std::uint64_t kLook = 256;
  std::uint64_t i = 0;
  began_ = thread_cpu_ns();
  begin_calls();
  const double wall_began = wall_ns(), cpu_began = thread_cpu_ns();
  until_out_of_memory([&] {
    for (; i < count; ++i) {
      if (i % kLook == 0 && out_of_time()) {
        give_up(out_of_time_text());
        break;
      }
      step(i);
    }
  });
  const double cpu = thread_cpu_ns() - cpu_began, wall = wall_ns() - wall_began;
  end_calls();
  measured_.reached = i;
  add(i, cpu, wall);
}

}  // namespace millrace::bench
