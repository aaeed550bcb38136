#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "millrace/device/machine_facts.hpp"

namespace millrace::cli {

/** @brief A value of `--device`, and whether it works here. */
struct DeviceChoice {
  std::string name;  ///< "virtual:h200", "cuda:0"
  std::string title;
  bool works = true;
  bool modelled = false;
  std::string problem;  ///< why it does not work
  std::string remedy;   ///< what to do then
  bool trains = true;   ///< `millrace train` works as well; if only that does not, see `lacking`
  std::string lacking;  ///< "cuBLAS cannot be loaded (...)"
  std::string training_remedy;
};

/** @brief Every device that there could be: "cuda:0" too where there is no GPU. */
[[nodiscard]] std::vector<DeviceChoice> device_choices(const MachineFacts& facts);

/** @brief 12040 -> "12.4"; "" for 0. */
[[nodiscard]] std::string version_text(int cuda);

/** @brief What to do to have cuBLAS; "" if it is there. */
[[nodiscard]] std::string cublas_remedy(const MachineFacts& facts);
/** @brief What to do to have NCCL; "" if it is there. */
[[nodiscard]] std::string nccl_remedy(const MachineFacts& facts);

/** @brief For people. */
[[nodiscard]] std::string to_text(const MachineFacts& facts);
/** @brief The document `millrace.doctor/1`; docs/doctor.md has its keys. */
[[nodiscard]] nlohmann::ordered_json to_document(const MachineFacts& facts);

}  // namespace millrace::cli
