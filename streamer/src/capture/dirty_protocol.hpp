#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace millrace::capture {

/** @brief Rows that must become dirty, and that the bitmap does not have yet. */
struct PendingRows {
  bool all = false;
  std::vector<std::uint64_t> rows;  ///< ids
  std::uint64_t request = 0;        ///< newest request among them
  std::uint64_t returned = 0;       ///< how many of them were returned

  [[nodiscard]] bool empty() const noexcept { return !all && rows.empty(); }
};

/** @brief What the bitmap had when a step was enqueued. */
struct DirtyPoint {
  std::uint64_t requests = 0;  ///< newest request that the bitmap has
  std::uint64_t marked = 0;    ///< upper bound on rows marked so far, in all steps together
  std::uint64_t returned = 0;  ///< returned rows that were marked again
};

/**
 * @brief What the host knows of the dirty rows, whose bitmap only the device can read.
 *
 * Each marking of the bitmap and each gather gets a number, in the order in which they are
 * enqueued. The header of a gather says how many bits are set after it. If that is 0, the bitmap
 * was empty after that number; if a later number belongs to a marking, or to a gather that left
 * bits, bits may be set. So
 *
 *     a bit is set  =>  marked_at_ > clean_at_, or rows are pending
 *
 * and the host never asks the device. The same headers give the number of missing rows: those that
 * the last header counted, plus all that were marked after that gather, plus all that were returned
 * and not marked again. It is an upper bound, since a row may be counted twice.
 *
 * Invariants, which every change asserts and `holds` checks: `clean_at_` and `marked_at_` are
 * numbers that were given out; requests, returned rows and marked rows are applied, or seen in a
 * header, after they exist.
 *
 * Thread safety: a mutex of its own; each function says who calls it. The mutex is not held across
 * a device call.
 */
class DirtyProtocol {
 public:
  /** @param rows  of all tables of the source */
  explicit DirtyProtocol(std::size_t rows) : rows_(rows) {}

  // Any thread: requests.

  /** @brief Requests rows by id. More than a quarter of all rows become a request for all.
   *  @return the number of the request, from 1; 0 if `ids` is empty */
  std::uint64_t request(std::span<const std::uint64_t> ids);
  /** @return the number of the request, from 1; 0 if there are no rows */
  std::uint64_t request_all();
  /** @brief True unless the bitmap is certainly empty and nothing is pending. */
  [[nodiscard]] bool maybe_dirty() const;

  // The training thread: markings and gathers, in the order in which they are enqueued.

  /** @brief Takes what must be marked. `applied` or `put_back` follows. */
  [[nodiscard]] PendingRows take_pending();
  void applied(const PendingRows& rows);
  /** @brief They could not be marked. */
  void put_back(const PendingRows& rows);
  /** @brief A marking was enqueued. @param rows  upper bound on its rows */
  void marked(std::uint64_t rows);
  /** @brief Returned rows were marked again. */
  void marked_returned(std::uint64_t rows);
  /** @brief A gather was enqueued. @return its number */
  [[nodiscard]] std::uint64_t gathered();
  [[nodiscard]] DirtyPoint point() const;
  /** @return missing rows according to the last header */
  [[nodiscard]] std::uint64_t missing_at_header() const;
  /** @return missing rows now, without those that were returned */
  [[nodiscard]] std::uint64_t missing_now() const;

  // The copier: headers.

  /** @brief The header of a gather has come.
   *  @param sequence  the gather's number
   *  @param missing   bits that are set after it
   *  @param point     of its step */
  void header_came(std::uint64_t sequence, std::uint64_t missing, const DirtyPoint& point);
  /** @brief The header of a gather is lost: bits may be set after it. */
  void header_lost(std::uint64_t sequence);
  /** @return missing rows after a step with rows. @param header  missing rows in its header */
  [[nodiscard]] std::uint64_t missing(const DirtyPoint& point, std::uint64_t header) const;
  /** @return missing rows after a step without rows */
  [[nodiscard]] std::uint64_t missing(const DirtyPoint& point) const;
  /** @brief Rows were read from a slot, were not taken, and become dirty.
   *  @param ids  in host memory
   *  @return false if there was no memory for them, and all rows become dirty instead */
  bool return_ids(std::span<const std::uint32_t> short_ids,
                  std::span<const std::uint64_t> long_ids);

  // The training thread or the copier.

  /** @brief Rows could not be delivered; their slot marks them later. @param rows  upper bound */
  void returned(std::uint64_t rows);
  /** @brief All rows become dirty, because it is unknown which must. */
  void return_all();

  /** @brief Whether the invariants above hold. */
  [[nodiscard]] bool holds() const;

 private:
  [[nodiscard]] bool consistent() const noexcept;  ///< with the mutex held
  [[nodiscard]] std::uint64_t bounded(std::uint64_t missing) const noexcept;

  const std::size_t rows_;

  mutable std::mutex mutex_;
  PendingRows pending_;
  bool applying_ = false;  ///< pending rows were taken, and are not in the bitmap yet
  std::uint64_t requests_ = 0, requests_applied_ = 0;
  std::uint64_t sequence_ = 0;                  ///< newest number given out
  std::uint64_t marked_at_ = 0, clean_at_ = 0;  ///< newest number after which bits may be, are not
  std::uint64_t marked_ = 0, marked_at_header_ = 0;    ///< rows: ever, and before the last header
  std::uint64_t returned_ = 0, returned_applied_ = 0;  ///< rows: ever, and marked again
  std::uint64_t missing_ = 0;                          ///< in the last header
};

}  // namespace millrace::capture
