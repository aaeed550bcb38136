#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/observe/trace/value_tree.hpp"
#include "observe/trace/memory_budget.hpp"
#include "observe/trace/value/value_store.hpp"

namespace millrace::trace {

/**
 * @brief A stack of values, of which containers are made. The tree of a pickle and that of JSON are
 * built with it. Throws TreeBuilder::TooMuch if a limit is exceeded; the caller knows the place.
 */
class TreeBuilder {
 public:
  class TooMuch : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
  };
  using Tag = ValueNode::Tag;

  TreeBuilder(std::uint64_t inflated, const TraceLimits& limits);

  /// @name Values
  /// @{
  [[nodiscard]] ValueNode integer(std::int64_t value);
  [[nodiscard]] ValueNode real(double value);
  /** @param bytes  of a string: Tag::string or Tag::bytes */
  [[nodiscard]] ValueNode stretch(Tag bytes, std::uint64_t begin, std::uint64_t length);
  /// @}

  /// @name The stack
  /// @{
  [[nodiscard]] std::size_t height() const noexcept { return stack_.size(); }
  [[nodiscard]] ValueNode& top() noexcept { return stack_.back(); }
  [[nodiscard]] const ValueNode& at(std::size_t height) const noexcept { return stack_[height]; }
  void push(ValueNode node);
  void pop() noexcept { stack_.pop_back(); }
  void drop_to(std::size_t height) { stack_.resize(height); }
  /** @brief Puts one container in the place of everything from this height on. */
  void close(Tag kind, std::size_t from);
  /** @brief Moves everything from this height on to the end of the container below it. */
  void append(std::size_t from);
  /// @}

  /** @brief Number of values pushed so far, including containers. */
  [[nodiscard]] std::uint64_t pushed() const noexcept { return pushed_; }
  /** @brief Sets the total memory that the reader uses in addition to the tree. */
  void count_also(std::uint64_t bytes);

  /** @param text  the file
   *  @throws std::invalid_argument if the root contains itself or is too deep */
  [[nodiscard]] ValueTree finish(std::string text, ValueNode root, std::size_t max_depth);

 private:
  void count_value();
  void require_memory();
  void move_to_items(std::size_t from, std::uint64_t to);

  MemoryBudget budget_;
  std::size_t max_values_;
  std::unique_ptr<ValueStore> store_;
  GrowingArray<ValueNode> stack_;
  std::uint64_t pushed_ = 0;
  std::uint64_t besides_ = 0;
};

}  // namespace millrace::trace
