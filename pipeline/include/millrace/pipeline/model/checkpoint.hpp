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

/** @brief A checkpoint cannot be used or cannot be written. */
class CheckpointError : public std::runtime_error {
 public:
  /**
   * @param what   the error
   * @param where  the file, and the place in it
   * @param right  what was expected
   */
  CheckpointError(const std::string& what, std::string where, std::string right)
      : std::runtime_error(what), where_(std::move(where)), right_(std::move(right)) {}

  [[nodiscard]] const std::string& where() const noexcept { return where_; }
  [[nodiscard]] const std::string& right() const noexcept { return right_; }

 private:
  std::string where_, right_;
};

/** @brief The contents of a checkpoint other than the tensors of the model. */
struct CheckpointHeader {
  std::string model;  ///< ModelDescription::to_json
  std::string data;   ///< the training data; compared when a run resumes
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;     ///< steps done
  std::size_t batch_size = 0;  ///< batch size of `position`
  BatchPosition position;      ///< position of the next batch
  std::string stream;          ///< state of the streamer; empty if no rows were streamed
};

/**
 * @brief Writes a checkpoint to another name, syncs it to the disk, and then replaces `file`.
 *
 * The file contains all work enqueued on main before the call. Blocks until main is idle. Drain the
 * pipeline first.
 *
 * Layout (numbers are little-endian, 8 bytes): "MILLRACE"; the version; the sizes of the header and
 * of everything after it, in bytes; the XXH3-64 of these and the header; the header, JSON; then for
 * each tensor its floats and the XXH3-64 of their bytes.
 * @param state  with several ranks: rank 0 saves, the others call `send`
 * @throws CheckpointError if the file cannot be written, or if a number of the state is not finite;
 *         an older file is then unchanged
 */
void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     WholeState& state);
/** @brief The same for a model on one rank. */
void save_checkpoint(const std::filesystem::path& file, const CheckpointHeader& header,
                     const ModelState& state, ModelContext& context);

/**
 * @brief Checks that a checkpoint can be written to `file`; changes nothing.
 * @throws CheckpointError if it cannot be written
 */
void check_checkpoint_place(const std::filesystem::path& file);

/** @brief Prefix of the names of tensors that belong to the training pipeline, not to the model. */
inline constexpr std::string_view kOfPipeline = "pipeline.";

/** @brief A checkpoint that was read completely and verified. */
class Checkpoint {
 public:
  /**
   * @throws CheckpointError if the file cannot be read, is not a checkpoint, has another version,
   *         is truncated or too long, or has a wrong checksum
   */
  explicit Checkpoint(std::filesystem::path file);
  ~Checkpoint();

  [[nodiscard]] const CheckpointHeader& header() const noexcept;
  /**
   * @brief Copies the tensors into a model, or into a rank's parts of one. Blocks until main is
   *        idle.
   *
   * If the table was trained by another optimizer, its optimizer state (for instance
   * "table.NAME.m") may exist only in the checkpoint, where it is ignored, or only in the model,
   * where it is set to zero. Tensors with the prefix `kOfPipeline` are ignored.
   * @return the names of the tensors that were set to zero
   * @throws CheckpointError if the model differs in another way. Names the first tensor or counter
   * that differs; nothing has changed then.
   */
  std::vector<std::string> restore(const ModelState& state, ModelContext& context) const;

  /** @brief Number of floats of a tensor; std::nullopt if the checkpoint does not have it. */
  [[nodiscard]] std::optional<std::uint64_t> size_of(std::string_view tensor) const;
  /**
   * @brief Reads a part of a tensor.
   * @param first    index of the first float
   * @param numbers  receives the floats
   * @throws CheckpointError if the tensor does not have them
   */
  void read(std::string_view tensor, std::uint64_t first, std::span<float> numbers) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/**
 * @brief XXH3-128 over names, sizes and bits of all tensors: weights and optimizer state.
 *
 * Blocks until main is idle. With several ranks: rank 0 calls it, the others call `send`.
 * @return 32 hexadecimal digits
 */
[[nodiscard]] std::string state_digest(WholeState& state);
/** @brief The same for a model on one rank. */
[[nodiscard]] std::string state_digest(const ModelState& state, ModelContext& context);

}  // namespace millrace
