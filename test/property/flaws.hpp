#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>

#include "millrace/memory/forwarding_allocator.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace::test {

/** @brief What is wrong with an allocator, or with what it is told: each breaks a law. */
enum class Flaw : std::uint8_t {
  none,
  gives_too_little,   ///< half of what was asked for
  gives_twice,        ///< what is in use already
  forgets_uses,       ///< record_use does nothing
  forgets_streams,    ///< a free on another stream counts as one on the owner
  forgets_markers,    ///< a free behind a marker counts as one behind a marker long past
  drops_waits,        ///< waits that it inserts are not made
  believes_in_speed,  ///< queries always say yes
  loses_frees,        ///< one in eight
  gives_up,           ///< after a call failed every call fails
  is_moody,           ///< trims when it likes, which differs from run to run
};

std::ostream& operator<<(std::ostream& out, Flaw flaw);

/** @brief An allocator with a flaw of its own; flaws of the device's are not seen to here. */
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

/** @brief Segments, and which memory is in them. */
class WatchedSource final : public SegmentSource {
 public:
  /** @param keep  until the end: what uses memory too long then finds it changed, not gone */
  WatchedSource(SegmentSource& inner, bool keep) : inner_(inner), keep_(keep) {}
  ~WatchedSource() override;

  /** @throws std::logic_error if the new segment overlaps another, or the old one is none */
  void* acquire(std::size_t bytes) override;
  void release(void* base, std::size_t bytes) override;
  std::size_t granularity() const override { return inner_.granularity(); }
  std::size_t page_bytes() const override { return inner_.page_bytes(); }
  AddressRange reserve() override;
  /** @throws std::logic_error if something is mapped there */
  void give_back(AddressRange range) override;
  /** @throws std::logic_error if it overlaps what is mapped, or is of no range */
  void map(void* address, std::size_t bytes) override;
  /** @throws std::logic_error if some of it is not mapped */
  void unmap(void* address, std::size_t bytes) override;
  /** @brief What is kept is not moved: its pages must stay as they are. */
  [[nodiscard]] bool can_move() const override { return !keep_ && inner_.can_move(); }
  /** @throws std::logic_error if `from` is not mapped, or something is mapped at `to` */
  void begin_move(void* to, void* from, std::size_t bytes) override;
  /** @throws std::logic_error if some of it was not moved away */
  void end_move(void* from, std::size_t bytes) override;

  [[nodiscard]] bool contains(const void* address, std::size_t bytes) const;
  [[nodiscard]] std::size_t bytes() const;

 private:
  using Pages = std::set<std::byte*>;

  /** Of a range that all of it is in. @throws std::logic_error if there is none */
  [[nodiscard]] Pages pages_of(void* address, std::size_t bytes) const;

  SegmentSource& inner_;
  bool keep_;
  std::map<std::byte*, std::size_t> mapped_, kept_, ranges_;
  Pages pages_, kept_pages_;
  Pages left_;  // whose memory has other addresses, but that are still mapped
};

}  // namespace millrace::test
