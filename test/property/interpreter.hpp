#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "test/property/world.hpp"

namespace millrace::test {

/**
 * @brief Runs programs, and keeps them correct: before a stream uses a buffer it is ordered after
 *        the uses that it has to come after, and uses are recorded, or the free is ordered after
 *        them.
 *
 * Which of these ways is taken is drawn with the step. What it knows of the order is counted in
 * operations, and less than what the device keeps to (of the legacy stream it knows nothing): so it
 * adds an edge too many now and then, and never lacks one. What each kernel writes depends on the
 * buffer and the version, and is checked by the kernels that read.
 */
class Interpreter {
 public:
  explicit Interpreter(World& world) : world_(world) {}

  /** @brief One step, and law 1 after it. @throws std::logic_error if a law is broken */
  void run(const Step& step);
  /** @brief Frees what is left, the rest of the program's own way. */
  void free_all();
  /** @brief Checks all contents once more. */
  void read_all();

  /** @brief Other actors use the same world, so sums cannot be looked at. */
  bool shares_world = false;

 private:
  struct Buffer {
    void* address;
    std::size_t bytes;
    std::uint64_t serial, version = 0;
    std::size_t owner;
    Moment given_out;  // on the lane that may use it first
    std::vector<Moment> uses;
    std::vector<Moment> writes;      // the last one
    std::set<std::size_t> recorded;  // lanes that the allocator knows of, beside the owner
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

  /** @brief Calls the library; once more if the device refused and goes on. */
  void attempt(const std::function<void()>& call);
  /** @brief The same for a call of the allocator. */
  void ask(const std::function<void()>& call);

  World& world_;
  Knowledge host_;
  std::vector<Buffer> buffers_;
};

}  // namespace millrace::test
