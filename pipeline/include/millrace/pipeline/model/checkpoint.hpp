#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"
#include "millrace/pipeline/model/whole_state.hpp"

namespace millrace {

/** @brief A checkpoint that can not be used, or not be written. */
class CheckpointError : public std::runtime_error {
 public:
  /** @param right  what would be right */
  CheckpointError(const std::string& what, std::string where, std::string right)
      : std::runtime_error(what), where_(std::move(where)), right_(std::move(right)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }  ///< file, and place
  [[nodiscard]] const std::string& right() const noexcept { return right_; }

 private:
  std::string where_, right_;
};

/** @brief What a checkpoint says beside the numbers of the model. */
struct CheckpointHeader {
  std::string model;  ///< ModelDescription::to_json
  std::string data;   ///< what it was trained on; whoever resumes compares it
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;     ///< done
  std::size_t batch_size = 0;  ///< that the position counts in
  BatchPosition position;      ///< of the next batch
  std::string stream;          ///< of whoever streams changed rows; empty: nobody did
};

/**
 * @brief Writes a checkpoint: beside the file, which it then replaces, synced to the disk.
 *
 * What was enqueued on main before is in it; waits for main. A pipeline has to be drained before.
 *
 * Numbers are little-endian, of 8 bytes: "MILLRACE", the version, the bytes of the header and of
 * what follows it, the XXH3-64 of these and the header; the header, JSON; then each tensor as
 * floats, and the XXH3-64 of its bytes.
 * @param state  on several ranks: rank 0 saves, the others `send`
 * @throws CheckpointError if the file can not be written, or if a number of the state is infinite
 * or not a number: an older file is untouched then
 */
void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     WholeState& state);
/** @brief Of a model on one rank. */
void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     const ModelState& state, ModelContext& context);

/** @brief Whether a checkpoint could be written there; nothing remains. @throws CheckpointError */
void check_checkpoint_place(const std::filesystem::path& file);

/** @brief Tensors with such a name are of the loop that trains, and not of the model. */
inline constexpr std::string_view kOfPipeline = "pipeline.";

/** @brief A checkpoint that was read and checked, whole. */
class Checkpoint {
 public:
  /**
   * @throws CheckpointError if it can not be read, is no checkpoint, of another version, cut short,
   *         too long, or if a checksum is not that of the bytes
   */
  explicit Checkpoint(std::filesystem::path file);
  ~Checkpoint();

  [[nodiscard]] const CheckpointHeader& header() const noexcept;
  /**
   * @brief Copies the numbers into a model, or a rank's parts of them. Waits for main.
   *
   * Optimizer state of a table ("table.NAME.m", say) that is there and not here is left out; that
   * which is here and not there becomes zero: the table was updated by another optimizer. Tensors
   * `kOfPipeline` are left out.
   * @return the names of what became zero
   * @throws CheckpointError that names the first tensor or counter in which the model differs
   *         otherwise; nothing has changed then
   */
  std::vector<std::string> restore(const ModelState& state, ModelContext& context) const;

  /** @brief Floats of a tensor; nothing if there is no such. */
  [[nodiscard]] std::optional<std::uint64_t> size_of(std::string_view tensor) const;
  /** @brief Reads some of a tensor. @throws CheckpointError if it does not have them */
  void read(std::string_view tensor, std::uint64_t first, std::span<float> numbers) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/**
 * @brief XXH3-128 over names, sizes and bits of all tensors: weights, and what their optimizers
 *        keep. 32 hexadecimal digits. Waits for main. As with `save_checkpoint`, on rank 0.
 */
[[nodiscard]] std::string state_digest(WholeState& state);
[[nodiscard]] std::string state_digest(const ModelState& state, ModelContext& context);

}  // namespace millrace
