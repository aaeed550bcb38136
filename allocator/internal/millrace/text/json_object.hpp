#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Reading JSON that people write. Each problem is a std::invalid_argument that names the document,
/// the place, what was found and what was expected: "job.json: 'tables.user.rows' is -1, but must
/// be a whole number from 1 to 100".

namespace millrace::text {

/** @brief A place in a document, for messages. */
struct JsonPlace {
  std::string_view origin;  ///< what the document is called; outlives the place
  std::string path;         ///< "tables.user.rows"; "" for the whole document

  [[nodiscard]] JsonPlace at(std::string_view key) const;
  [[nodiscard]] JsonPlace at(std::size_t index) const;
};

/** @brief A value as a message shows it: at most its first 40 bytes. */
[[nodiscard]] std::string shown(const nlohmann::json& value);

/** @throws std::invalid_argument "ORIGIN: 'PATH' is FOUND, but must be EXPECTED" */
[[noreturn]] void refuse(const JsonPlace& place, std::string_view found, std::string_view expected);

/** @brief Reads the keys of one object, each once, and refuses those that nobody read. */
class JsonObject {
 public:
  /** @param object  outlives this
   *  @throws std::invalid_argument if it is not an object */
  JsonObject(const nlohmann::json& object, JsonPlace place);

  /** @brief The value of `key`; null if it is absent.
   *  @throws std::invalid_argument if it is required and absent */
  const nlohmann::json* find(std::string_view key, bool required = false);

  /// Each of these leaves `value` as it is if the key is absent.
  /// @throws std::invalid_argument for a value of another type or outside the range
  void integer(std::string_view key, std::size_t& value, std::size_t least, std::size_t most,
               bool required = false);
  void number(std::string_view key, double& value, double least, double most,
              bool required = false);
  void bytes(std::string_view key, std::size_t& value, bool required = false);
  void text(std::string_view key, std::string& value, bool required = false);

  /** @throws std::invalid_argument if the object has a key that was not read
   *  @param of  the kind of object: "a workload" */
  void finish(std::string_view of) const;

  [[nodiscard]] const JsonPlace& place() const noexcept { return place_; }

 private:
  const nlohmann::json& object_;
  JsonPlace place_;
  std::vector<std::string> known_;
};

}  // namespace millrace::text
