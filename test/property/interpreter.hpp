#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "test/property/world.hpp"

namespace millrace::test {

/**
 * @brief Runs programs and keeps them correct. Before a stream uses a buffer, it is ordered after
 *        the earlier uses on which it depends. Each use is recorded, or the free is ordered after
 *        the use.
 *
 * The random step selects one of these ways. The interpreter counts the order in operations. It
 * knows less than the device (nothing of the legacy stream's order). So it may add an edge that is
 * not needed, and never leaves out a necessary one. Each kernel writes a value that depends on the
 * buffer and its version. Kernels that read check that value.
 */
class Interpreter {
 public:
  explicit Interpreter(World& world) : world_(world) {}

  /** @brief Runs one step, then checks law 1. @throws std::logic_error if a law is broken */
  void run(const Step& step);
  /** @brief Frees the remaining buffers, on their owners where possible. */
  void free_all();
  /** @brief Reads and checks the contents of all buffers. */
  void read_all();

  /** @brief Whether other actors use the same world. Sums cannot be checked then. */
  bool shares_world = false;

 private:
  struct Buffer {
    void* address;
    std::size_t bytes;
    std::uint64_t serial, version = 0;
    std::size_t owner;
    Moment given_out;  // on the lane that uses it first
    std::vector<Moment> uses;
    std::vector<Moment> writes;      // only the last one
    std::set<std::size_t> recorded;  // lanes with a recorded use
  };

  void allocate(Lane& owner, Lane& user, const Step& step);
  void use(Buffer& buffer, Lane& lane, bool writes, std::uint8_t choice);
  void launch(Buffer& buffer, Lane& lane, bool writes);
  [[nodiscard]] std::function<void(void*)> on_gpu(const Operation& operation, std::uint64_t value);
  void transfer(Buffer& buffer, Lane& lane);
  void free(Buffer buffer, Lane& lane, bool on_owner);
  void free_behind(Buffer buffer, Lane& lane);
  void free_in_callback(Buffer buffer, Lane& lane, Lane& callback);
  void cover_unrecorded(const Buffer& buffer, Lane& lane, std::uint8_t choice);
  void order(Moment moment, Lane& lane, std::uint8_t choice);
  void renew(std::size_t place);
  void attach(std::size_t place);
  void synchronize(Lane& lane);

  [[nodiscard]] Buffer take(const Step& step);
  [[nodiscard]] bool promised(const Lane& lane) const;
  Moment now(Lane& lane);

  /** @brief Calls the library. Repeats the call if it failed and the device is not lost. */
  void attempt(const std::function<void()>& call);
  /** @brief Like `attempt`, for a call of the allocator. */
  void ask(const std::function<void()>& call);

  World& world_;
  Knowledge host_;
  std::vector<Buffer> buffers_;
};

}  // namespace millrace::test
