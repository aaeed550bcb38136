#include "cli/published.hpp"

namespace millrace::cli {

bool is_published(experiment::Workload workload, const experiment::Workload& published) {
  workload.description = published.description;
  workload.num_batches = published.num_batches;
  workload.run_ahead = published.run_ahead;
  workload.exchange_gb_per_s = published.exchange_gb_per_s;
  workload.exchange_latency_us = published.exchange_latency_us;
  return workload.to_json() == published.to_json();
}

}  // namespace millrace::cli
