#pragma once

#include <string>
#include <string_view>

namespace millrace::sink {

/**
 * @brief The place of a secret: an environment variable, or a file. An address names the place and
 * never has the secret itself, which `ps` would show.
 */
class Secret {
 public:
  Secret() = default;
  static Secret in_variable(std::string name) { return {std::move(name), {}}; }
  static Secret in_file(std::string path) { return {{}, std::move(path)}; }

  [[nodiscard]] bool empty() const noexcept { return variable_.empty() && file_.empty(); }
  /**
   * @brief Reads the secret; from a file, without the newline at its end.
   * @throws std::runtime_error that says what cannot be read; never contains a secret
   */
  [[nodiscard]] std::string read() const;

 private:
  Secret(std::string variable, std::string file)
      : variable_(std::move(variable)), file_(std::move(file)) {}

  std::string variable_, file_;
};

/**
 * @brief Returns whether the value of a setting of this name is a secret, such as "sasl.password".
 */
[[nodiscard]] bool is_secret(std::string_view setting) noexcept;

}  // namespace millrace::sink
