#include "allocator/report/row.hpp"

#include <algorithm>
#include <functional>

namespace millrace::bench {
namespace {

using Figure = std::function<std::optional<double>(const Measured&)>;

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> values_of(const ResultRow& row, const Figure& figure) {
  std::vector<double> values;
  for (const Measured& measured : row.repetitions) {
    if (const auto value = figure(measured)) values.push_back(*value);
  }
  return values;
}

Figure per_pair(double Measured::*sum) {
  return [sum](const Measured& measured) -> std::optional<double> {
    if (measured.pairs == 0) return std::nullopt;
    return measured.*sum / static_cast<double>(measured.pairs);
  };
}

nlohmann::ordered_json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  return std::round(*value * 1e4) / 1e4;
}

nlohmann::ordered_json spread(std::vector<double> values) {
  if (values.empty()) return nullptr;
  const auto [least, most] = std::ranges::minmax(values);
  return nlohmann::ordered_json::array({number(least), number(most)});
}

}  // namespace

std::optional<double> ns_per_pair(const ResultRow& row) {
  return median(values_of(row, per_pair(&Measured::cpu_ns)));
}

std::string given_up(const ResultRow& row) {
  for (const Measured& measured : row.repetitions) {
    if (!measured.given_up.empty()) return measured.given_up;
  }
  return {};
}

nlohmann::ordered_json json_of(const ResultRow& row) {
  const Figure reserved = [](const Measured& m) { return m.reserved_over_live; };
  const Figure host = [](const Measured& m) { return m.host_bytes_per_block; };
  nlohmann::ordered_json json{
      {"suite", row.of->suite},
      {"case", row.of->name},
      {"subject", row.subject},
      {"unit", row.of->unit},
      {"ns_per_pair", number(ns_per_pair(row))},
      {"ns_per_pair_range", spread(values_of(row, per_pair(&Measured::cpu_ns)))},
      {"wall_ns_per_pair", number(median(values_of(row, per_pair(&Measured::wall_ns))))},
      {"device_calls_per_pair", number(median(values_of(row, per_pair(&Measured::calls))))},
      {"modeled_call_ns_per_pair", number(median(values_of(row, per_pair(&Measured::call_ns))))},
      {"reserved_over_live", number(median(values_of(row, reserved)))},
      {"reserved_over_live_range", spread(values_of(row, reserved))},
      {"host_bytes_per_block", number(median(values_of(row, host)))},
      {"repetitions", row.repetitions.size()},
  };
  std::uint64_t pairs = 0;
  for (const Measured& measured : row.repetitions) pairs += measured.pairs;
  json["pairs"] = pairs;
  json["given_up"] = nullptr;
  if (const std::string why = given_up(row); !why.empty()) {
    const auto it = std::ranges::find_if(
        row.repetitions, [](const Measured& measured) { return !measured.given_up.empty(); });
    json["given_up"] = {
        {"why", why}, {"reached", it->reached}, {"ns_per_step_there", number(it->reached_cpu_ns)}};
  }
  return json;
}

}  // namespace millrace::bench
