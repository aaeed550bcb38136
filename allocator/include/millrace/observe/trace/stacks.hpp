#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace millrace::trace {

/** @brief One line of a recorded stack. */
struct StackFrame {
  std::string file;
  std::string function;
  std::uint64_t line = 0;  ///< 0 if unknown

  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/**
 * @brief The stacks of a recorded program, each kept once.
 *
 * Stacks that have their outer frames in common share them: a stack is its outer stack and one
 * frame more. The ids of frames and stacks are numbers from 0 and from 1 in the order in which they
 * were added.
 */
class StackTable {
 public:
  using FrameId = std::uint32_t;
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;  ///< no stack was recorded; also the outside of every stack

  /** @brief The id of a frame, which is added if it is new. */
  [[nodiscard]] FrameId frame(const StackFrame& frame);
  /** @brief The id of the stack that calls `inner` from `outer`, which is added if it is new. */
  [[nodiscard]] Id push(Id outer, FrameId inner);

  /** @brief The frames of a stack, the innermost first. */
  [[nodiscard]] std::vector<FrameId> frames_of(Id stack) const;
  [[nodiscard]] const StackFrame& at(FrameId frame) const { return frames_[frame]; }
  [[nodiscard]] FrameId innermost(Id stack) const { return nodes_[stack - 1].frame; }
  [[nodiscard]] Id outer(Id stack) const { return nodes_[stack - 1].outer; }

  [[nodiscard]] std::size_t frame_count() const noexcept { return frames_.size(); }
  [[nodiscard]] std::size_t stack_count() const noexcept { return nodes_.size(); }

 private:
  struct Node {
    Id outer;
    FrameId frame;
  };
  using FrameKey = std::tuple<std::string, std::string, std::uint64_t>;

  std::vector<StackFrame> frames_;
  std::vector<Node> nodes_;
  std::map<FrameKey, FrameId> known_frames_;
  std::unordered_map<std::uint64_t, Id> known_stacks_;  // by outer stack and frame
};

/** @brief Copies stacks of one table to another, each once. Both tables outlive it. */
class StackCopy {
 public:
  StackCopy(const StackTable& from, StackTable& to) : from_(from), to_(to) {}

  /** @brief The id in the other table of a stack of the first. */
  [[nodiscard]] StackTable::Id of(StackTable::Id stack);

 private:
  const StackTable& from_;
  StackTable& to_;
  std::unordered_map<StackTable::Id, StackTable::Id> stacks_;
  std::unordered_map<StackTable::FrameId, StackTable::FrameId> frames_;
};

/** @brief Texts of a recorded program, such as the labels of blocks, each kept once. */
class LabelTable {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;  ///< the empty text

  [[nodiscard]] Id add(std::string_view text);
  [[nodiscard]] const std::string& at(Id label) const { return texts_[label]; }
  [[nodiscard]] std::size_t size() const noexcept { return texts_.size(); }

 private:
  std::vector<std::string> texts_{std::string{}};
  std::map<std::string, Id, std::less<>> known_;
};

}  // namespace millrace::trace
