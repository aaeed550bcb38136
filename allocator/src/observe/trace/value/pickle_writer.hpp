#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trace {

/**
 * @brief Writes a Python pickle of plain data, in protocol 2, which every Python since 2.3 reads.
 *
 * Equal short texts are written once. A dict is `begin_dict`, then a key and a value in turn, then
 * `end_dict`.
 */
class PickleWriter {
 public:
  void text(std::string_view text);
  void integer(std::int64_t value);
  void natural(std::uint64_t value);
  void real(double value);
  void boolean(bool value);
  void pair(std::int64_t first, std::int64_t second);  ///< a tuple

  void begin_list();
  /** @brief Before each item of a list that may be long: readers push a list's items in portions.
   */
  void item();
  void end_list();
  void begin_dict();
  void end_dict();

  /** @brief Keeps the list or dict that was just begun or ended, for `again`. @return its place */
  [[nodiscard]] std::uint32_t keep();
  void again(std::uint32_t place);  ///< the value at this place: readers share it

  /** @brief What was written, as the bytes of a file. Call it once, after one value. */
  [[nodiscard]] std::string finish();

 private:
  void put(char byte) { bytes_.push_back(byte); }
  void put_little(std::uint64_t value, int bytes);

  std::string bytes_{"\x80\x02"};
  std::uint32_t places_ = 0;          // of the memo
  std::vector<std::uint32_t> items_;  // of the open lists, since their last portion
  std::map<std::string, std::uint32_t, std::less<>> known_;  // by text: its place in the memo
};

}  // namespace millrace::trace
