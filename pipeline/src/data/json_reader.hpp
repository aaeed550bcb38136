#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Reading JSON that people write. Whatever is not as it must be is a std::invalid_argument that
/// names the document, the place, what was found and what was expected.

namespace millrace {

struct JsonPlace {
  std::string_view origin;  ///< what the document is called
  std::string path;         ///< "tables.user.rows"; "" for all of it

  [[nodiscard]] JsonPlace at(std::string_view key) const;
  [[nodiscard]] JsonPlace at(std::size_t index) const;
};

/** @brief A value as a message shows it: its beginning. */
[[nodiscard]] std::string shown(const nlohmann::json& value);

[[noreturn]] void refuse(const JsonPlace& place, std::string_view found, std::string_view expected);

/** @brief A document of at most 4 MiB, 64 deep, without keys that are there twice. */
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view origin);
/** @brief A file of at most 4 MiB, or a pipe. */
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/** @brief Reads the keys of one object, each once, and refuses what nobody read. */
class JsonObject {
 public:
  JsonObject(const nlohmann::json& object, JsonPlace place);

  /** @brief The value of `key`, or null where it may be left out. */
  const nlohmann::json* find(std::string_view key, bool required = false);

  void integer(std::string_view key, std::size_t& value, std::size_t least, std::size_t most,
               bool required = false);
  void number(std::string_view key, double& value, double least, double most,
              bool required = false);
  void bytes(std::string_view key, std::size_t& value, bool required = false);
  void text(std::string_view key, std::string& value, bool required = false);

  /** @brief @param of  what the keys are those of: "a workload" */
  void finish(std::string_view of) const;

  [[nodiscard]] const JsonPlace& place() const noexcept { return place_; }

 private:
  const nlohmann::json& object_;
  JsonPlace place_;
  std::vector<std::string> known_;
};

}  // namespace millrace
