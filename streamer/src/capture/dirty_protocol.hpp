#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace millrace::capture {

/** @brief Rows that must become dirty and are not in the bitmap yet. */
struct PendingRows {
  bool all = false;
  std::vector<std::uint64_t> rows;  ///< ids
  std::uint64_t request = 0;        ///< newest request among them
  std::uint64_t returned = 0;       ///< number of these rows that were returned

  [[nodiscard]] bool empty() const noexcept { return !all && rows.empty(); }
};

/** @brief The state of the bitmap when a step was enqueued. */
struct DirtyPoint {
  std::uint64_t requests = 0;  ///< newest request that the bitmap has
  std::uint64_t marked = 0;    ///< upper bound on rows marked so far, in all steps together
  std::uint64_t returned = 0;  ///< returned rows that were marked again
};

/**
 * @brief The host's knowledge of the dirty rows, whose bitmap only the device can read.
 *
 * Each marking of the bitmap and each gather gets a number, in the order in which they are
 * enqueued. The header of a gather says how many bits are set after it. If that is 0, the bitmap
 * was empty after that number. If a later number belongs to a marking, or to a gather that left
 * bits, bits may be set:
 *
 *     a bit is set  =>  marked_at_ > clean_at_, or rows are pending
 *
 * Therefore the host never asks the device. The same headers give the number of missing rows: those
 * that the last header counted, plus all that were marked after that gather, plus all that were
 * returned and not marked again. It is an upper bound, because a row may be counted twice.
 *
 * Invariants, which every change asserts and `holds` checks: `clean_at_` and `marked_at_` are
 * numbers that were given out; requests, returned rows and marked rows are applied, or seen in a
 * header, after they exist.
 *
 * Thread safety: a mutex of its own, which is not locked across a device call. The comments below
 * say which threads call each function.
 */
class DirtyProtocol {
 public:
  /** @param rows  number of rows of all tables of the source */
  explicit DirtyProtocol(std::size_t rows) : rows_(rows) {}

  // Any thread: requests.

  /** @brief Requests rows by id. More than a quarter of all rows become a request for all.
   *  @return the number of the request, from 1; 0 if `ids` is empty */
  std::uint64_t request(std::span<const std::uint64_t> ids);
  /** @return the number of the request, from 1; 0 if the source has no rows */
  std::uint64_t request_all();
  /** @brief True unless the bitmap is certainly empty and nothing is pending. */
  [[nodiscard]] bool maybe_dirty() const;

  // The training thread: markings and gathers, in the order in which they are enqueued.

  /** @brief Takes the pending rows. Call `applied` or `put_back` next. */
  [[nodiscard]] PendingRows take_pending();
  void applied(const PendingRows& rows);
  /** @brief Call if taken rows could not be marked. */
  void put_back(const PendingRows& rows);
  /** @brief Call after a marking was enqueued. @param rows  upper bound on its rows */
  void marked(std::uint64_t rows);
  /** @brief Call after returned rows were marked again. */
  void marked_returned(std::uint64_t rows);
  /** @brief Call after a gather was enqueued. @return its number */
  [[nodiscard]] std::uint64_t gathered();
  [[nodiscard]] DirtyPoint point() const;
  /** @return missing rows according to the last header */
  [[nodiscard]] std::uint64_t missing_at_header() const;
  /** @return missing rows now, without returned rows */
  [[nodiscard]] std::uint64_t missing_now() const;

  // The copier: headers.

  /**
   * @brief Call when the header of a gather has arrived.
   * @param sequence  the gather's number
   * @param missing   number of bits that are set after it
   * @param point     point of its step
   */
  void header_came(std::uint64_t sequence, std::uint64_t missing, const DirtyPoint& point);
  /** @brief Call when the header of a gather is lost: bits may be set after it. */
  void header_lost(std::uint64_t sequence);
  /** @return missing rows after a step with rows. @param header  missing rows in its header */
  [[nodiscard]] std::uint64_t missing(const DirtyPoint& point, std::uint64_t header) const;
  /** @return missing rows after a step without rows */
  [[nodiscard]] std::uint64_t missing(const DirtyPoint& point) const;
  /**
   * @brief Makes rows dirty that were read from a slot and refused by the receiver.
   * @param ids  in host memory
   * @return false if host memory ran out: all rows become dirty instead
   */
  bool return_ids(std::span<const std::uint32_t> short_ids,
                  std::span<const std::uint64_t> long_ids);

  // The training thread or the copier.

  /**
   * @brief Call when rows could not be delivered and will be marked from their slot.
   * @param rows  upper bound
   */
  void returned(std::uint64_t rows);
  /** @brief Makes all rows dirty, because it is unknown which rows must be. */
  void return_all();

  /** @brief Returns whether the invariants above hold. */
  [[nodiscard]] bool holds() const;

 private:
  [[nodiscard]] bool consistent() const noexcept;  ///< with the mutex locked
  [[nodiscard]] std::uint64_t bounded(std::uint64_t missing) const noexcept;

  const std::size_t rows_;

  mutable std::mutex mutex_;
  PendingRows pending_;
  bool applying_ = false;  ///< pending rows were taken, and are not in the bitmap yet
  std::uint64_t requests_ = 0, requests_applied_ = 0;
  std::uint64_t sequence_ = 0;  ///< newest number given out
  /** Newest number after which bits may be set, are not set. */
  std::uint64_t marked_at_ = 0, clean_at_ = 0;
  /** Rows marked: in total, before the last header. */
  std::uint64_t marked_ = 0, marked_at_header_ = 0;
  std::uint64_t returned_ = 0, returned_applied_ = 0;  ///< rows returned: in total, marked again
  std::uint64_t missing_ = 0;                          ///< missing rows of the last header
};

}  // namespace millrace::capture
