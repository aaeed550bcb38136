#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>

#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace::test {

/** @brief An error in an allocator or in its device. Each one breaks a law. */
enum class Flaw : std::uint8_t {
  none,
  gives_too_little,   ///< allocates half of the requested bytes
  gives_twice,        ///< may give out a block that is in use
  forgets_uses,       ///< record_use does nothing
  forgets_streams,    ///< a free on another stream counts as a free on the owner
  forgets_markers,    ///< a free after a marker counts as a free after a long past marker
  drops_waits,        ///< inserted waits are not made
  believes_in_speed,  ///< queries always return yes
  loses_frees,        ///< ignores one free in eight
  gives_up,           ///< after a failed allocation, every allocation fails
  is_moody,           ///< trims at times that differ from run to run
};

std::ostream& operator<<(std::ostream& out, Flaw flaw);

/** @brief An allocator with a flaw. World applies the flaws of the device. */
class FlawedAllocator final : public ForwardingAllocator {
 public:
  FlawedAllocator(Allocator& inner, Flaw flaw) : ForwardingAllocator(inner), flaw_(flaw) {}

  using ForwardingAllocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) override;
  using ForwardingAllocator::deallocate;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;

 private:
  Flaw flaw_;
  bool gave_up_ = false;
  std::size_t frees_ = 0;
};

/** @brief Passes calls on to a source and checks which memory is mapped. */
class WatchedSource final : public SegmentSource {
 public:
  /** @param keep  whether to keep released memory: a late use then finds changed data, no fault */
  WatchedSource(SegmentSource& inner, bool keep) : inner_(inner), keep_(keep) {}
  ~WatchedSource() override;

  /** @throws std::logic_error if the new segment overlaps another one */
  void* acquire(std::size_t bytes) override;
  /** @throws std::logic_error if this is no segment */
  void release(void* base, std::size_t bytes) override;
  std::size_t granularity() const override { return inner_.granularity(); }
  std::size_t page_bytes() const override { return inner_.page_bytes(); }
  AddressRange reserve() override;
  /** @throws std::logic_error if memory is mapped there */
  void give_back(AddressRange range) override;
  /** @throws std::logic_error if a page is mapped already, or is in no range */
  void map(void* address, std::size_t bytes) override;
  /** @throws std::logic_error if a page is not mapped */
  void unmap(void* address, std::size_t bytes) override;
  /** @brief Kept memory cannot be moved, because its pages must not change. */
  [[nodiscard]] bool can_move() const override { return !keep_ && inner_.can_move(); }
  /** @throws std::logic_error if `from` is not mapped, or memory is mapped at `to` */
  void begin_move(void* to, void* from, std::size_t bytes) override;
  /** @throws std::logic_error if a page was not moved away */
  void end_move(void* from, std::size_t bytes) override;

  [[nodiscard]] bool contains(const void* address, std::size_t bytes) const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  using Pages = std::set<std::byte*>;

  /** Returns the pages of memory. @throws std::logic_error if no range contains all of them */
  [[nodiscard]] Pages pages_of(void* address, std::size_t bytes) const;

  SegmentSource& inner_;
  bool keep_;
  std::map<std::byte*, std::size_t> mapped_, kept_, ranges_;
  Pages pages_, kept_pages_;
  Pages left_;  // moved away, and still mapped here
};

}  // namespace millrace::test
