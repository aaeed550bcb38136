#include "allocator/measure/trial.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace millrace::bench {
namespace {

// The device profile with the host times for `call_ns`.
const DeviceProfile& modeled_device() {
  static const DeviceProfile profile = DeviceProfile::named("h100");
  return profile;
}

const std::array kScales{
    Scale{},
    Scale{.name = "quick",
          .budget_ns = 1e6,
          .limit_ns = 0.1e9,
          .most_live = 10'000,
          .churn_steps = 5'000,
          .repetitions = 1},
    Scale{.name = "smoke",
          .budget_ns = 0.05e6,
          .limit_ns = 0.1e9,
          .most_live = 1'000,
          .churn_steps = 1'500,
          .repetitions = 1},
    Scale{.name = "long", .limit_ns = 60e9, .churn_steps = 10'000'000},
};

}  // namespace

Scale Scale::named(std::string_view name) {
  for (const Scale& scale : kScales) {
    if (scale.name == name) return scale;
  }
  throw std::invalid_argument{
      fmt::format("no scale is called '{}'; right: default, quick, smoke, long", name)};
}

std::unique_ptr<Machine> make_machine(const Setting& setting) {
  return setting.gpu ? make_cuda_machine(*setting.gpu) : make_null_machine(setting.page);
}

Trial::Trial(const SubjectRow& row, const Setting& setting, unsigned streams)
    : setting_(setting), machine_(make_machine(setting)), subject_(row.make(*machine_, streams)) {}

Trial::~Trial() {
  try {
    for (const Held& block : left_) subject_->free(block.address, block.bytes, block.stream);
  } catch (const DeviceError&) {  // a lost GPU has lost its memory
  }
}

MillraceParts& Trial::millrace() {
  if (MillraceParts* const parts = subject_->millrace()) return *parts;
  throw std::logic_error{"this case is for Millrace only"};
}

void Trial::add(std::uint64_t pairs, double cpu_ns, double wall_ns) {
  measured_.pairs += pairs;
  measured_.cpu_ns += cpu_ns;
  measured_.wall_ns += wall_ns;
}

void Trial::begin_calls() {
  calls_before_ = subject_->calls();
  program_calls_before_ = subject_->program_calls();
  pages_before_ = machine_->mapped_pages();
}

void Trial::end_calls() {
  const CallCounts calls = subject_->calls() - calls_before_;
  const auto program = static_cast<double>(subject_->program_calls() - program_calls_before_);
  measured_.calls += static_cast<double>(calls.all()) - program;
  // Nearly all calls of the program itself are records.
  const auto record = static_cast<double>(modeled_device().host(Call::record).count());
  measured_.call_ns +=
      calls.nanoseconds(modeled_device(), machine_->mapped_pages() - pages_before_) -
      program * record;
}

void Trial::end_host_bytes(std::uint64_t blocks) {
  const std::optional<double> after = host_bytes();
  if (!after || !host_before_ || blocks == 0) return;
  measured_.host_bytes_per_block = (*after - *host_before_) / static_cast<double>(blocks);
}

Measured Trial::result(std::size_t peak_live_bytes) {
  if (peak_live_bytes > 0) {
    measured_.reserved_over_live =
        static_cast<double>(subject_->peak_reserved()) / static_cast<double>(peak_live_bytes);
  }
  return measured_;
}

std::string Trial::out_of_time_text() const {
  return fmt::format("more than {:g} s of CPU time", setting_.scale.limit_ns / 1e9);
}

}  // namespace millrace::bench
