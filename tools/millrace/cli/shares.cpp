#include "cli/shares.hpp"

namespace millrace::cli {

nlohmann::ordered_json shares_of(const Ladder& ladder, const StreamNames& name, bool knows_usable) {
  const nlohmann::json all = explain(ladder, name);
  nlohmann::ordered_json shares = nlohmann::ordered_json::object();
  for (const char* const key : {"live_at_peak", "heaviest_conflict", "idle_at_peak"}) {
    shares[key] = all.at(key);
  }
  if (!knows_usable) shares["idle_at_peak"] = nullptr;
  return shares;
}

}  // namespace millrace::cli
