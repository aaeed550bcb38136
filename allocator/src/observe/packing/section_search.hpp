#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "observe/packing/sections.hpp"
#include "observe/packing/steps.hpp"

namespace millrace::packing {

enum class Outcome : std::uint8_t {
  found,
  impossible,  ///< every possibility was ruled out
  gave_up,     ///< the budget was spent
};

/**
 * Searches for offsets at which all blocks end at or below a height.
 *
 * Every section has a floor, and no further block is placed below it. Consider a section in which
 * the blocks that could lie on the floor have the same floor during all of their life. Then either
 * one of the blocks lies on the floor, or none does and the floor can be raised to the next
 * possible offset. The search tries these choices in turn. A branch ends if the floor and the
 * remaining bytes of a section exceed the height. Stretches of time that no remaining block
 * connects are solved separately. Failed states are remembered.
 *
 * The search restarts with other orders of blocks and other choices of section, with a growing
 * limit, since a bad first choice costs more than many restarts. This follows the ideas of
 * MiniMalloc (Moffitt, 10.1145/3623278.3624752): canonical solutions, floors of sections, sums of
 * what is left, and decomposition in time.
 */
class SectionSearch {
 public:
  SectionSearch(const Sections& problem, std::uint64_t height);

  /** @return after `found`, `offsets` are those of a packing within the height */
  [[nodiscard]] Outcome run(Steps& steps);
  [[nodiscard]] const std::vector<std::uint64_t>& offsets() const noexcept { return offset_; }

 private:
  using Index = std::uint32_t;
  enum class Status : std::uint8_t { open, solved, failed };
  enum class Choice : std::uint8_t { fewest_options, lowest, tightest };

  struct Undo {
    enum Kind : std::uint8_t { floor, offset, holder, placed } kind;
    Index index;
    std::uint64_t old;
  };
  /** A stretch of time that is being solved, by its parts or by a choice in one of its sections. */
  struct Frame {
    Index first, end;
    Index section;        // the section of the choice; kNone: solved by parts
    std::size_t begin;    // index of its first entry in options_ or parts_
    std::size_t next;     // the entry to try next
    std::size_t mark;     // size of undo_ before the choice
    std::uint64_t state;  // hash; for parts: index of their end in parts_
    bool may_raise;
  };
  struct Part {
    Index first, end;
  };
  struct Plateau {
    Index first, end;
    std::uint64_t floor;
  };
  struct Chosen {
    Index section;
    std::size_t options;
    std::uint64_t slack;
    std::uint64_t floor;
  };

  void prepare(std::uint64_t attempt);
  [[nodiscard]] Outcome attempt(std::uint64_t most_choices, Steps& steps);
  [[nodiscard]] Status enter(Index first, Index end);
  [[nodiscard]] Status open_choice(Index first, Index end);
  /** Continues the newest frame. `status` is the result of its last try, or open if it had none. */
  [[nodiscard]] Status resume_parts(Status status);
  [[nodiscard]] Status resume_choice(Status status);
  [[nodiscard]] bool try_next(Frame& frame);
  [[nodiscard]] bool is_twin(const Frame& frame, std::size_t option) const;

  [[nodiscard]] Index choose_section(Index first, Index end);
  [[nodiscard]] Index tightest_of_lowest(Index first, Index end);
  void compare_sections(const Plateau& plateau, Chosen& best);
  [[nodiscard]] bool better(const Chosen& a, const Chosen& b) const;
  [[nodiscard]] std::uint64_t state_of(Index first, Index end);

  [[nodiscard]] bool place(Index block);
  [[nodiscard]] bool raise(Index section);
  [[nodiscard]] std::uint64_t next_offset(Index section);
  [[nodiscard]] bool lift(Index block, std::uint64_t offset);
  [[nodiscard]] bool settle(bool possible);
  void find_holders(Index block, std::uint64_t top);
  void set_floor(Index section, std::uint64_t floor);
  void set_holder(Index section, Index block);
  void move_holder(Index section, Index block);
  void mark_dirty(Index section);
  void undo(std::size_t mark);
  void account(Index block, bool placed);

  [[nodiscard]] std::uint64_t slack(Index section) const {
    return height_ - floor_[section] - remaining_[section];
  }

  const Sections& problem_;
  std::uint64_t height_;
  bool looks_everywhere_;  // the problem is small enough to compare all sections

  std::vector<std::uint64_t> offset_;     // by block: its own if placed, otherwise the least
  std::vector<bool> placed_;              // by block
  std::vector<std::uint64_t> floor_;      // by section
  std::vector<std::uint64_t> remaining_;  // by section: bytes not yet placed
  std::vector<Index> unplaced_;           // by section: number of blocks not yet placed
  std::vector<Index> crossing_;           // by section: those that also live in the section before
  std::vector<std::uint64_t> hash_;  // by section: hash of the unplaced blocks that begin there

  /// @name By section: a block that its floor depends on, as a doubly linked list for each block
  /// @{
  std::vector<Index> holder_;
  std::vector<Index> next_held_, previous_held_;
  std::vector<Index> first_held_;  // by block
  /// @}

  std::vector<Undo> undo_;
  std::vector<Frame> frames_;
  std::vector<Index> options_;  // blocks to try, of all frames
  std::vector<Part> parts_;     // of all frames
  std::vector<Index> to_hold_;
  std::vector<Index> dirty_;
  std::vector<bool> is_dirty_;
  std::vector<std::uint64_t> failed_;  // hashes of states without a solution

  Choice choice_ = Choice::fewest_options;
  std::vector<double> key_;  // by block: the highest is tried first
  std::uint64_t work_ = 0;
  std::uint64_t choices_ = 0;
};

}  // namespace millrace::packing
