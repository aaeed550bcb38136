#include "test/property/program.hpp"

#include <array>
#include <ostream>

namespace millrace::test {

namespace {

constexpr std::array kKinds{
    "allocate",     "allocate_for", "write",       "read",        "record_use",
    "transfer",     "free",         "free_on",     "free_behind", "free_in_callback",
    "mark",         "order",        "synchronize", "poll",        "trim",
    "renew_stream", "attach"};
static_assert(kKinds.size() == Step::kinds_);
constexpr std::array kPresets{"torch",   "millrace", "waiting", "ordered",
                              "drop-in", "pinned",   "driver"};
constexpr std::array kLanes{"plain", "blocking", "raw", "independent", "legacy"};

/** Sizes of both pools. Many share a bin, and some fill segments. */
rc::Gen<std::uint32_t> request_bytes() {
  return rc::gen::weightedOneOf<std::uint32_t>(
      {{6, rc::gen::inRange<std::uint32_t>(1, 5000)},
       {3, rc::gen::map(rc::gen::inRange<std::uint32_t>(1, 12),
                        [](std::uint32_t n) { return n * 65536; })},
       {4, rc::gen::map(rc::gen::inRange<std::uint32_t>(1, 12),
                        [](std::uint32_t n) { return n * 1048576 + 100; })}});
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << '\n'
             << kKinds[step.kind] << " stream " << int{step.stream} << " other " << int{step.other}
             << " choice " << int{step.choice} << " buffer " << step.buffer << " bytes "
             << step.bytes;
}

std::ostream& operator<<(std::ostream& out, const Setup& setup) {
  out << kPresets[static_cast<std::size_t>(setup.preset)]
      << (setup.schedule == VirtualMachine::Schedule::timed ? ", timed" : ", adversarial")
      << ", seed " << setup.seed << ", lanes";
  for (const LaneKind lane : setup.lanes) out << ' ' << kLanes[static_cast<std::size_t>(lane)];
  out << ", " << (setup.memory_bytes >> 20) << " MiB";
  if (setup.limit_bytes != 0) out << ", limit " << (setup.limit_bytes >> 20) << " MiB";
  return out;
}

rc::Gen<Program> random_program(double length) {
  const auto kind = rc::gen::weightedElement<Step::Kind>({{14, Step::allocate},
                                                          {3, Step::allocate_for},
                                                          {10, Step::write},
                                                          {6, Step::read},
                                                          {2, Step::record_use},
                                                          {1, Step::transfer},
                                                          {8, Step::free},
                                                          {2, Step::free_on},
                                                          {2, Step::free_behind},
                                                          {1, Step::free_in_callback},
                                                          {4, Step::mark},
                                                          {3, Step::order},
                                                          {1, Step::synchronize},
                                                          {2, Step::poll},
                                                          {1, Step::trim},
                                                          {1, Step::renew_stream},
                                                          {1, Step::attach}});
  const auto byte = rc::gen::inRange<std::uint8_t>(0, 12);
  const auto buffer = rc::gen::inRange<std::uint16_t>(0, 60);
  return rc::gen::scale(length, rc::gen::container<Program>(rc::gen::construct<Step>(
                                    kind, byte, byte, byte, buffer, request_bytes())));
}

rc::Gen<Setup> random_setup() {
  return rc::gen::mapcat(
      rc::gen::element(Preset::torch, Preset::millrace, Preset::waiting, Preset::waiting,
                       Preset::ordered, Preset::drop_in, Preset::pinned, Preset::driver),
      [](Preset preset) { return random_setup(preset); });
}

rc::Gen<Setup> random_setup(Preset preset) {
  using Schedule = VirtualMachine::Schedule;
  const auto mib = [](std::size_t count) { return count << 20; };
  const std::size_t raw = preset == Preset::drop_in ? 20 : 2;
  const auto lane = rc::gen::weightedElement<LaneKind>({{8, LaneKind::plain},
                                                        {2, LaneKind::blocking},
                                                        {raw, LaneKind::raw},
                                                        {1, LaneKind::independent},
                                                        {1, LaneKind::legacy}});
  const auto lanes = rc::gen::mapcat(
      rc::gen::element<std::size_t>(1, 2, 3, 3, 4),
      [=](std::size_t count) { return rc::gen::container<std::vector<LaneKind>>(count, lane); });
  return rc::gen::construct<Setup>(rc::gen::just(preset),
                                   rc::gen::element(Schedule::adversarial, Schedule::timed),
                                   rc::gen::inRange<std::uint64_t>(0, 1 << 20), lanes,
                                   rc::gen::map(rc::gen::element<std::size_t>(24, 48, 512), mib),
                                   rc::gen::map(rc::gen::element<std::size_t>(0, 0, 20), mib));
}

}  // namespace millrace::test
