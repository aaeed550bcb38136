#pragma once

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/pipeline/data/whole_file.hpp"

namespace millrace::bench {

/**
 * @brief The file of a program's result. It appears only when it is complete.
 *
 * Construct it before the work begins: the constructor refuses a place that cannot be written to.
 */
class ResultFile {
 public:
  /** @throws std::runtime_error if the file cannot be written */
  explicit ResultFile(std::filesystem::path file) : file_(std::move(file)) {
    guarded([&] { check_whole_file(file_); });
  }

  /** @brief Writes the result. Call it once. @throws std::runtime_error if the file cannot be
   *         written */
  void write(std::string_view text) const {
    guarded([&] {
      WholeFile out{file_};
      out.write(std::as_bytes(std::span{text}));
      out.finish();
    });
  }

 private:
  template <typename Body>
  void guarded(Body&& body) const {
    try {
      body();
    } catch (const WholeFileError& error) {
      throw std::runtime_error{file_.string() + " cannot be written: " + error.what()};
    }
  }

  std::filesystem::path file_;
};

}  // namespace millrace::bench
