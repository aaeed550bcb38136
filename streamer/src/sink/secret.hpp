#pragma once

#include <string>
#include <string_view>

namespace millrace::sink {

/**
 * @brief Where a secret is: in a variable of the environment, or in a file. An address names one of
 *        these and never has the secret itself, which `ps` would show.
 */
class Secret {
 public:
  Secret() = default;
  static Secret in_variable(std::string name) { return {std::move(name), {}}; }
  static Secret in_file(std::string path) { return {{}, std::move(path)}; }

  [[nodiscard]] bool empty() const noexcept { return variable_.empty() && file_.empty(); }
  /** @brief The secret as it is now; of a file without the newline at its end.
   *  @throws std::runtime_error that says what cannot be read; never contains a secret */
  [[nodiscard]] std::string read() const;

 private:
  Secret(std::string variable, std::string file)
      : variable_(std::move(variable)), file_(std::move(file)) {}

  std::string variable_, file_;
};

/** @brief True if the value of a setting of this name is a secret, for instance "sasl.password". */
[[nodiscard]] bool is_secret(std::string_view setting) noexcept;

}  // namespace millrace::sink
