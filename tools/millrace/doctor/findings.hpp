#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "millrace/device/machine_facts.hpp"

namespace millrace::cli {

/** @brief A value of `--device`, and whether it works on this machine. */
struct DeviceChoice {
  std::string name;  ///< "virtual:h200", "cuda:0"
  std::string title;
  bool works = true;
  bool modeled = false;
  std::string problem;  ///< why it does not work
  std::string remedy;   ///< how to solve the problem
  bool trains = true;   ///< `millrace train` also works; if not, see `lacking`
  std::string lacking;  ///< "cuBLAS cannot be loaded (...)"
  std::string training_remedy;
};

/** @brief All devices that a user may name. Without a GPU this includes "cuda:0". */
[[nodiscard]] std::vector<DeviceChoice> device_choices(const MachineFacts& facts);

/** @brief 12040 -> "12.4"; "" for 0. */
[[nodiscard]] std::string version_text(int cuda);

/** @brief How to make cuBLAS available; "" if it is. */
[[nodiscard]] std::string cublas_remedy(const MachineFacts& facts);
/** @brief How to make NCCL available; "" if it is. */
[[nodiscard]] std::string nccl_remedy(const MachineFacts& facts);

/** @brief The findings as text. */
[[nodiscard]] std::string to_text(const MachineFacts& facts);
/** @brief The document `millrace.doctor/1`. docs/doctor.md lists its keys. */
[[nodiscard]] nlohmann::ordered_json to_document(const MachineFacts& facts);

}  // namespace millrace::cli
