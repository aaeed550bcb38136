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

/// How long and how large a run is; the same for every case and subject.
struct Scale {
  std::string name = "default";
  double budget_ns = 20e6;            ///< CPU time that is measured of one repetition
  double limit_ns = 2e9;              ///< CPU time after which a part of a repetition gives up
  std::size_t most_live = 1'000'000;  ///< cases with more blocks, streams or markers are left out
  std::size_t churn_steps = 200'000;
  unsigned repetitions = 5;

  /// @throws std::invalid_argument that lists the names
  [[nodiscard]] static Scale named(std::string_view name);
};

/// What a repetition runs with.
struct Setting {
  Scale scale;
  std::uint64_t seed = 1;
  std::optional<int> gpu;                   ///< nothing: a device whose calls return at once
  std::size_t page = std::size_t{2} << 20;  ///< of that device, in bytes
};

/// A page of growable ranges on a GPU with 32 GiB or more.
constexpr std::size_t kLargePage = std::size_t{32} << 20;

/// What a repetition found. What it did not get to is left out.
struct Measured {
  std::uint64_t pairs = 0;
  double cpu_ns = 0, wall_ns = 0;  ///< of all pairs; with threads, of one of them
  double calls = 0;                ///< of a driver, less the program's own
  double call_ns = 0;              ///< host time of these on the modeled device
  std::optional<double> reserved_over_live;
  std::optional<double> host_bytes_per_block;
  std::string given_up;       ///< why; empty: it was done
  std::uint64_t reached = 0;  ///< of the set-up, where that was given up
  double reached_cpu_ns = 0;  ///< of a step of the set-up by then
};

[[nodiscard]] std::unique_ptr<Machine> make_machine(const Setting& setting);

/// One subject on a machine of its own, and the measuring of what is done with it.
class Trial {
 public:
  Trial(const SubjectRow& row, const Setting& setting, unsigned streams);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] Machine& machine() { return *machine_; }
  [[nodiscard]] Subject& subject() { return *subject_; }
  [[nodiscard]] const Setting& setting() const noexcept { return setting_; }
  /// @throws std::logic_error if the subject is not Millrace; the case is then not for it
  [[nodiscard]] MillraceParts& millrace();

  /// Does `step(i)` for each i below `count`, unmeasured. False: it took too long, or there was no
  /// room; the trial is then over.
  template <typename Step>
  [[nodiscard]] bool set_up(std::uint64_t count, Step step);

  /// Does `step()` so often, or for a quarter of the limit, unmeasured. False: there was no room.
  template <typename Step>
  [[nodiscard]] bool warm_up(std::uint64_t count, Step step);

  /// Measures `step()`, each of which is `pairs_per_step` pairs, until the budget is used up or
  /// `most` steps were made.
  template <typename Step>
  void measure(Step step, std::uint64_t most = UINT64_MAX, std::uint64_t pairs_per_step = 1);

  /// Measures `step(i)` for each i below `count`, all at once.
  template <typename Step>
  void measure_all(std::uint64_t count, Step step);

  /// Adds to what was measured elsewhere: threads, sections of a loop.
  void add(std::uint64_t pairs, double cpu_ns, double wall_ns);
  void give_up(std::string why) { measured_.given_up = std::move(why); }

  /// A block that is live when the trial ends. On a GPU it is then freed; elsewhere that is not
  /// worth the time.
  void leave(const Held& block) {
    if (is_gpu_ && block.address != nullptr) left_.push_back(block);
  }

  /// Calls between these two count.
  void begin_calls();
  void end_calls();

  /// Between these, what the heap grows by is the allocator's: `blocks` were made meanwhile.
  void begin_host_bytes() { host_before_ = host_bytes(); }
  void end_host_bytes(std::uint64_t blocks);

  [[nodiscard]] Measured result(std::size_t peak_live_bytes);

 private:
  /// Does `work` until it ends or memory does.
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
