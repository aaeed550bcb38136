#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "millrace/observe/trace/torch_snapshot.hpp"
#include "observe/trace/torch/record_budget.hpp"

namespace millrace::trace {

/**
 * @brief Reads the stacks and labels of records into the tables of a snapshot.
 *
 * Nothing but explanations depends on them: what has another form than PyTorch writes is left out
 * with a warning.
 */
class StackReader {
 public:
  StackReader(TorchSnapshot& snapshot, Warnings& warnings, RecordBudget& budget)
      : snapshot_{snapshot}, warnings_{warnings}, budget_{budget} {}

  /** @brief The stack of a segment, block or event: its key `frames`. */
  [[nodiscard]] StackTable::Id stack_of(const Field& record);
  /** @brief What the program said about a block or event: `user_metadata`, or else `category`. */
  [[nodiscard]] LabelTable::Id label_of(const Field& record);
  [[nodiscard]] LabelTable::Id label(std::string_view text, const Field& field);

 private:
  using FrameId = StackTable::FrameId;

  [[nodiscard]] std::optional<StackTable::Id> read_stack(const Field& frames);
  [[nodiscard]] std::optional<FrameId> frame_of(const Field& frame);
  [[nodiscard]] static std::optional<StackFrame> read_frame(const Field& frame);

  TorchSnapshot& snapshot_;
  Warnings& warnings_;
  RecordBudget& budget_;
  // A pickle has each stack and each frame once, and records share it.
  std::unordered_map<std::uint64_t, StackTable::Id> known_stacks_;
  std::unordered_map<std::uint64_t, FrameId> known_frames_;
};

}  // namespace millrace::trace
