#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allocator/measure/trial.hpp"
#include "allocator/report/row.hpp"

namespace millrace::bench {

/// The document that --json writes.
[[nodiscard]] nlohmann::ordered_json document_of(const std::vector<ResultRow>& rows,
                                                 const std::vector<LeftOut>& left_out,
                                                 const Setting& setting,
                                                 const std::string& command);

/// @throws std::invalid_argument that names the file, if `write_document` could not write it
void require_writable(const std::string& file);
/// Writes the file; it appears only when complete. @throws std::runtime_error that names the file
void write_document(const nlohmann::ordered_json& document, const std::string& file);

}  // namespace millrace::bench
